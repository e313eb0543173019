//! What clients may take: number, memory, time.

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use inference::connection::{DEFAULT_LEAST_RATE, time_for};
use serde::Deserialize;

/// The limits of a service.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Clients that are connected at once.
    pub clients: usize,
    /// Clients for whom something is computed at once.
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
        }
    }
}

impl Limits {
    /// How long an exchange of so many bytes may take.
    pub fn time_for(&self, bytes: u64) -> Duration {
        time_for(bytes, self.silence, self.least_rate)
    }
}

/// Bytes that were promised to somebody.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    limit: u64,
    taken: AtomicU64,
}

impl MemoryBudget {
    /// So many bytes to give away.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, taken: AtomicU64::new(0) })
    }

    /// Takes some until the reservation is dropped, or nothing where too little is left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        let add = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, add).ok()?;
        Some(Reservation { budget: Arc::clone(self), bytes })
    }

    /// How much may still be given away.
    pub(crate) fn left(&self) -> u64 {
        self.limit.saturating_sub(self.taken())
    }

    /// How much is given away.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Acquire)
    }
}

/// Bytes that are given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// A number of bytes as people write it: `500M`, `4G`, `1000000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SizeText")]
pub struct ByteSize(pub u64);

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
            0..1_000_000 => write!(formatter, "{:.1} KB", self.0 as f64 / 1e3),
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
    fn memory_is_given_until_there_is_none_and_comes_back() {
        let budget = MemoryBudget::new(100);
        let first = budget.reserve(60).unwrap();
        assert!(budget.reserve(41).is_none() && budget.reserve(u64::MAX).is_none());
        let second = budget.reserve(40).unwrap();
        drop(first);
        assert_eq!(budget.taken(), 40);
        drop(second);
        assert!(budget.reserve(100).is_some());
    }
}
