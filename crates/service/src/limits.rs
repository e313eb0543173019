//! What clients may take: number, memory, time.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use inference::connection::{DEFAULT_LEAST_RATE, time_for};
use serde::Deserialize;

use crate::queue::ClientShare;
use crate::quotas::Quota;

/// The limits of a service.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients that are connected at once.
    pub clients: usize,
    /// Places: clients for whom something is computed at once. Who waits for its client needs none.
    pub running: NonZeroUsize,
    /// Bytes for weights, running inferences and what waits to be used.
    pub memory: u64,
    /// Bytes of them that the process takes before the first client, weights apart.
    pub process: u64,
    /// Inferences that one connection may have prepared and not used.
    pub prepared: u32,
    /// How long a client may neither send nor take a byte in the middle of something.
    pub silence: Duration,
    /// How long it may think between requests.
    pub idle: Duration,
    /// The slowest client that is waited for, in bytes a second, over a whole phase.
    pub least_rate: u64,
    /// Threads for each running inference.
    pub threads: NonZeroUsize,
    /// What one client may take of all this.
    pub per_client: ClientLimits,
}

/// What one client may take: one certificate, or without one an address, or an IPv6 network of 64 bits. None is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// Connections at once.
    pub connections: Option<usize>,
    /// Places at once; without a number all but one of [`Limits::running`], and at least one.
    pub running: ClientPlaces,
    /// Bytes for what is under way and prepared; without a number a quarter of what is there for clients.
    pub memory: ClientMemory,
    /// Inferences prepared in an hour.
    pub preparations: Option<u32>,
    /// Images answered in an hour.
    pub answers: Option<u32>,
    /// Sessions begun in an hour.
    pub sessions: Option<u32>,
}

/// How many places one client may have at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPlaces {
    /// All but one, so that another client always finds one.
    AllButOne,
    /// So many.
    AtMost(usize),
    /// All.
    All,
}

/// How much memory one client may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMemory {
    /// A quarter of what is there for clients, and enough for one image.
    Quarter,
    /// So many bytes.
    AtMost(u64),
    /// All.
    All,
}

impl Default for ClientLimits {
    /// Sixteen connections are an eighth of all; 600 an hour is one every six seconds, about what one connection over
    /// 100 Mb/s prepares. A session a second takes a fiftieth of a processor.
    fn default() -> Self {
        Self {
            connections: Some(16),
            running: ClientPlaces::AllButOne,
            memory: ClientMemory::Quarter,
            preparations: Some(600),
            answers: Some(600),
            sessions: Some(3600),
        }
    }
}

impl ClientLimits {
    /// Every client may have everything.
    pub const NONE: Self = Self {
        connections: None,
        running: ClientPlaces::All,
        memory: ClientMemory::All,
        preparations: None,
        answers: None,
        sessions: None,
    };

    /// How many in an hour.
    pub fn hourly(&self, quota: Quota) -> Option<u32> {
        match quota {
            Quota::Preparations => self.preparations,
            Quota::Answers => self.answers,
            Quota::Sessions => self.sessions,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 128,
            running: NonZeroUsize::MIN.saturating_add(1),
            memory: 16 << 30,
            process: 32 << 20,
            prepared: 64,
            silence: Duration::from_secs(30),
            idle: Duration::from_secs(600),
            least_rate: DEFAULT_LEAST_RATE,
            threads: NonZeroUsize::MIN,
            per_client: ClientLimits::default(),
        }
    }
}

impl Limits {
    /// How long an exchange of so many bytes may take.
    pub fn time_for(&self, bytes: u64) -> Duration {
        time_for(bytes, self.silence, self.least_rate)
    }

    /// How many places one client may have.
    pub(crate) fn client_places(&self) -> usize {
        let all = self.running.get();
        match self.per_client.running {
            ClientPlaces::AllButOne => all.saturating_sub(1).max(1),
            ClientPlaces::AtMost(places) => places.clamp(1, all),
            ClientPlaces::All => all,
        }
    }

    /// How much memory one client may have, of so much for all clients.
    pub(crate) fn client_share(
        &self,
        all: u64,
        image: ImageMemory,
    ) -> Result<ClientShare, ClientMemoryTooSmall> {
        let memory = match self.per_client.memory {
            ClientMemory::Quarter => (all / 4).max(image.whole()),
            ClientMemory::AtMost(limit) if limit < image.whole() => {
                let (needed, limit) = (ByteSize(image.whole()), ByteSize(limit));
                return Err(ClientMemoryTooSmall { needed, limit });
            }
            ClientMemory::AtMost(bytes) => bytes,
            ClientMemory::All => all,
        };
        Ok(ClientShare { memory, kept: memory.saturating_sub(image.turn) })
    }
}

/// What one image takes at the server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ImageMemory {
    /// To be prepared, or answered.
    pub(crate) turn: u64,
    /// Between both.
    pub(crate) kept: u64,
    /// On its way through the store, where there is one.
    pub(crate) stored: u64,
}

impl ImageMemory {
    /// Enough for an image of either: the largest turn, beside the most that is kept of one.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            turn: self.turn.max(other.turn),
            kept: self.kept.max(other.kept),
            stored: self.stored.max(other.stored),
        }
    }

    fn whole(self) -> u64 {
        self.turn.saturating_add(self.kept).saturating_add(self.stored)
    }
}

/// One client may have less memory than one image takes.
#[derive(Debug, thiserror::Error)]
#[error(
    "a client needs {needed} of memory to have one image prepared and answered, and --client-memory allows {limit}; allow \
     more, or 0 for no limit"
)]
pub struct ClientMemoryTooSmall {
    needed: ByteSize,
    limit: ByteSize,
}

/// Threads for each core beyond which more of them only wait for each other.
const MOST_THREADS_A_CORE: usize = 8;

/// Reads a number of threads, as every verb takes it.
///
/// # Errors
/// When it is none, is 0, or more than this machine can use.
pub fn thread_count(text: &str) -> Result<NonZeroUsize, String> {
    let count: usize =
        text.parse().map_err(|_| format!("expected a whole number from 1 on, came {text:?}"))?;
    let count = NonZeroUsize::new(count).ok_or("expected at least 1, came 0")?;
    expect_useful_threads(count).map_err(|error| error.to_string())?;
    Ok(count)
}

/// Refuses more threads than this machine can use.
pub(crate) fn expect_useful_threads(count: NonZeroUsize) -> Result<(), TooManyThreads> {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let most = cores.saturating_mul(MOST_THREADS_A_CORE);
    if count.get() > most { Err(TooManyThreads { came: count.get(), most, cores }) } else { Ok(()) }
}

/// More threads than a machine can use.
#[derive(Debug, thiserror::Error)]
#[error(
    "expected at most {most} threads, {MOST_THREADS_A_CORE} for each of {cores} cores, came {came}; more of them are no faster"
)]
pub struct TooManyThreads {
    came: usize,
    most: usize,
    cores: usize,
}

/// A number of bytes as people write it: `500M`, `4G`, `1000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SizeText")]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// The least that a flag can say to allow so many.
    pub fn as_flag(self) -> String {
        let (unit, bits) = if self.0 > 1 << 20 { ("M", 20) } else { ("K", 10) };
        format!("{}{unit}", self.0.div_ceil(1 << bits))
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SizeText {
    Number(u64),
    Text(String),
}

impl TryFrom<SizeText> for ByteSize {
    type Error = String;

    fn try_from(text: SizeText) -> Result<Self, String> {
        match text {
            SizeText::Number(bytes) => Ok(Self(bytes)),
            SizeText::Text(text) => text.parse(),
        }
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("K", 10), ("M", 20), ("G", 30), ("T", 40)];
        let unit = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, *bits)));
        let (digits, bits) = unit.unwrap_or((text, 0));
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << bits));
        bytes.map(Self).ok_or_else(|| format!("{text:?} is no size; write such as 500M or 4G"))
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => formatter.write_str("1 byte"),
            0..1_000 => write!(formatter, "{} bytes", self.0),
            1_000..1_000_000 => write!(formatter, "{:.1} KB", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(formatter, "{:.1} MB", self.0 as f64 / 1e6),
            _ => write!(formatter, "{:.2} GB", self.0 as f64 / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!("500M".parse(), Ok(ByteSize(500 << 20)));
        assert_eq!("4G".parse(), Ok(ByteSize(4 << 30)));
        assert_eq!("77".parse(), Ok(ByteSize(77)));
        for bad in ["", "G", "1.5G", "-1", "4 G", "99999999999T"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_are_shown_in_units_that_keep_them_above_zero() {
        let shown = [1, 77, 999, 1_000, 52_428_800, 4 << 30].map(|bytes| ByteSize(bytes).to_string());
        let flags =
            [0, 1, 1024, 1025, 1 << 20, (1 << 20) + 1, 4 << 30].map(|bytes| ByteSize(bytes).as_flag());
        assert_eq!(flags, ["0K", "1K", "1K", "2K", "1024K", "2M", "4096M"]);
        assert_eq!(shown, ["1 byte", "77 bytes", "999 bytes", "1.0 KB", "52.4 MB", "4.29 GB"]);
    }

    #[test]
    fn threads_are_at_least_one_and_no_more_than_a_machine_can_use() {
        assert_eq!(thread_count("1").unwrap().get(), 1);
        assert_eq!(thread_count("0").unwrap_err(), "expected at least 1, came 0");
        assert!(thread_count("two").unwrap_err().contains("came \"two\""));
        let cores = std::thread::available_parallelism().unwrap().get();
        assert_eq!(thread_count(&(8 * cores).to_string()).unwrap().get(), 8 * cores);
        let error = thread_count(&(8 * cores + 1).to_string()).unwrap_err();
        assert!(error.contains(&format!("at most {} threads", 8 * cores)), "{error}");
    }

    /// The largest turn is one model's, the most that is kept another's.
    #[test]
    fn a_share_is_enough_for_an_image_of_any_model() {
        let heavy = ImageMemory { turn: 100, kept: 1, stored: 0 };
        let wide = ImageMemory { turn: 10, kept: 50, stored: 5 };
        let ClientShare { memory, kept } = Limits::default().client_share(0, heavy.max(wide)).unwrap();
        for ImageMemory { turn, kept: own, stored } in [heavy, wide] {
            assert!(own <= kept, "what the client keeps of the image");
            assert!(kept + turn <= memory, "a turn beside all that it may keep");
            assert!(turn + own + stored <= memory, "the image through the store");
        }
        assert_eq!((memory, kept), (155, 55));
    }

    #[test]
    fn one_client_leaves_a_place_and_memory_for_another() {
        let with = |running, per_client| Limits {
            running: NonZeroUsize::new(running).unwrap(),
            per_client,
            ..Limits::default()
        };
        let usual = ClientLimits::default();
        assert_eq!((with(8, usual).client_places(), with(1, usual).client_places()), (7, 1));
        let share = |limits: &Limits, turn, kept| {
            limits.client_share(400, ImageMemory { turn, kept, stored: 0 }).unwrap()
        };
        let small = share(&with(8, usual), 30, 5);
        assert_eq!(small, ClientShare { memory: 100, kept: 70 }, "a turn is left beside what is kept");
        assert_eq!(share(&with(8, usual), 120, 30), ClientShare { memory: 150, kept: 30 });
        let two = ClientLimits { running: ClientPlaces::AtMost(2), memory: ClientMemory::AtMost(9), ..usual };
        assert_eq!((with(8, two).client_places(), with(1, two).client_places()), (2, 1));
        assert_eq!(share(&with(8, two), 7, 2), ClientShare { memory: 9, kept: 2 });
        let error = with(8, two)
            .client_share(400, ImageMemory { turn: 7, kept: 2, stored: 1 })
            .unwrap_err()
            .to_string();
        assert!(error.contains("needs 10 bytes") && error.contains("--client-memory"), "{error}");
        let all = with(8, ClientLimits::NONE);
        assert_eq!((all.client_places(), share(&all, 1, 1).memory), (8, 400));
    }
}
