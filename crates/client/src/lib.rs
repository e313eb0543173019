//! A client of a Sordino server, in a few calls.
//!
//! ```no_run
//! use client::{ConnectOptions, PrivateClient};
//! use inference::connection::Trust;
//! use network::image::Image;
//!
//! let fingerprint = "6f1e…64 digits that `sordino serve` printed…".parse()?;
//! let mut client = PrivateClient::connect("hospital.example:7441", ConnectOptions::new(Trust::Fingerprint(fingerprint)))?;
//! let cost = client.cost()?;
//! println!("{} bytes, at least {:?} on this link", cost.bytes(), cost.least_time());
//! // The offline work needs no image: do it when there is time.
//! client.prepare(2)?;
//! let image = Image::new(client.outline().input, std::fs::read("scan.rgb")?)?;
//! let answer = client.classify(&image)?;
//! println!("class {}", client.outline().class_name(answer.class()).unwrap_or("without a name"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod kept;
pub mod prepared_file;
mod ready;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use inference::InferenceError;
use inference::client::{Answer, Client, LinkSpeed, PreparedClient, Wishes};
use inference::connection::{
    CertifiedKey, Connection, Fingerprint, Role, TimeLimits, TlsConnector, TlsError,
};
use inference::connection::{TlsStream, Trust};
use inference::plan::Reveal;
use inference::requests::Request;
use inference::transcript::Traffic;
use network::image::Image;
use network::inference_model::ModelOutline;

pub use error::ClientError;
pub use kept::seconds_now;
pub use ready::ReadyClient;

/// The port of `sordino serve`.
pub const DEFAULT_PORT: u16 = 7441;
/// How long to wait for a silent server.
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(60);
/// How long a connection may take to come about.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The slowest link that either party waits for, in bytes a second.
pub const DEFAULT_LEAST_RATE: u64 = 125_000;

/// How to connect.
pub struct ConnectOptions {
    /// Whom to believe to be the server.
    pub trust: Trust,
    /// The client's own certificate, where the server asks for one.
    pub certificate: Option<CertifiedKey>,
    /// Which model, what to learn, how much memory it may take.
    pub wishes: Wishes,
    /// How long the server may be silent.
    pub silence: Duration,
    /// The slowest server, or link, that is waited for, in bytes a second over a whole phase.
    pub least_rate: u64,
    /// Threads to compute with.
    pub threads: NonZeroUsize,
}

impl ConnectOptions {
    /// The usual ones.
    pub fn new(trust: Trust) -> Self {
        Self {
            trust,
            certificate: None,
            wishes: Wishes::default(),
            silence: DEFAULT_SILENCE,
            least_rate: DEFAULT_LEAST_RATE,
            threads: NonZeroUsize::MIN,
        }
    }
}

/// A client that is connected to a server and has chosen a model.
pub struct PrivateClient<S = TlsStream> {
    session: Client<S>,
    limits: Arc<TimeLimits>,
    silence: Duration,
    least_rate: u64,
    prepared: VecDeque<PreparedClient>,
    waiting: Box<dyn FnMut(u32) + Send>,
}

/// What one image costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What crosses the link before the image is needed.
    pub offline: Traffic,
    /// What crosses it after.
    pub online: Traffic,
    /// Memory at the client.
    pub memory: u64,
    /// The link as it was measured.
    pub link: LinkSpeed,
}

impl Cost {
    /// Bytes of both phases and directions.
    pub fn bytes(&self) -> u64 {
        [self.offline, self.online].iter().map(|traffic| traffic.bytes_up + traffic.bytes_down).sum()
    }

    /// The least time the link needs before the image is needed; computing comes on top.
    pub fn least_offline_time(&self) -> Duration {
        self.least(&self.offline)
    }

    /// The least time the link needs after that; computing comes on top.
    pub fn least_online_time(&self) -> Duration {
        self.least(&self.online)
    }

    /// Both.
    pub fn least_time(&self) -> Duration {
        self.least_offline_time() + self.least_online_time()
    }

    /// The parties hardly ever send at once, so the directions add up.
    fn least(&self, traffic: &Traffic) -> Duration {
        let seconds = |bytes: u64, rate: f64| Duration::from_secs_f64(bytes as f64 / rate.max(1.0));
        seconds(traffic.bytes_up, self.link.up)
            + seconds(traffic.bytes_down, self.link.down)
            + self.link.round_trip.mul_f64(traffic.rounds as f64 / 2.0)
    }
}

impl PrivateClient {
    /// Connects to `HOST:PORT` (or `HOST`, at the usual port) and agrees on a model.
    ///
    /// # Errors
    /// When the server cannot be reached, is another one, wants a certificate, has no such model, or asks for more
    /// memory than allowed.
    pub fn connect(address: &str, options: ConnectOptions) -> Result<Self, ClientError> {
        let (host, port) = split_address(address)?;
        let connector = TlsConnector::new(&options.trust, options.certificate)?;
        let socket = reach(host, port)?;
        let limits = TimeLimits::new(options.silence);
        let (stream, binding) = connector.connect(socket, host, Arc::clone(&limits))?;
        let (wishes, silence) = (options.wishes, options.silence);
        let mut client = Self::over(stream, &binding, &wishes, limits, silence)?;
        client.session.use_threads(options.threads)?;
        client.least_rate = options.least_rate.max(1);
        Ok(client)
    }

    /// The fingerprint of the server at an address, for a person to compare. Nothing is sent to it beyond the TLS
    /// handshake, which is broken off.
    ///
    /// # Errors
    /// When there is none.
    pub fn fingerprint_of(address: &str) -> Result<Fingerprint, ClientError> {
        let (host, port) = split_address(address)?;
        let nobody = Fingerprint([0; 32]);
        let connector = TlsConnector::new(&Trust::Fingerprint(nobody), None)?;
        match connector.connect(reach(host, port)?, host, TimeLimits::new(CONNECT_PATIENCE)) {
            Err(TlsError::OtherServer { came, .. }) => Ok(came),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(nobody),
        }
    }
}

impl<S: Read + Write> PrivateClient<S> {
    /// Agrees on a model over a stream that is secured already, under time limits that are the stream's own.
    ///
    /// # Errors
    /// When the server has no such model, asks for more memory than allowed, or the connection breaks.
    pub fn over(
        stream: S,
        channel_binding: &[u8],
        wishes: &Wishes,
        limits: Arc<TimeLimits>,
        silence: Duration,
    ) -> Result<Self, ClientError> {
        let connection = Connection::new(stream, Role::Client);
        let session = Client::connect_with(connection, wishes, channel_binding).map_err(ClientError::of)?;
        let (prepared, waiting) = (VecDeque::new(), Box::new(|_| {}));
        Ok(Self { session, limits, silence, least_rate: DEFAULT_LEAST_RATE, prepared, waiting })
    }

    /// From here on this hears how many clients come first, whenever the server says so.
    pub fn on_waiting(&mut self, waiting: impl FnMut(u32) + Send + 'static) {
        self.waiting = Box::new(waiting);
    }

    /// What the client may know of the model.
    pub fn outline(&self) -> &ModelOutline {
        self.session.plan().outline()
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        self.session.model().as_str()
    }

    /// What the client learns; the server decides.
    pub fn reveal(&self) -> Reveal {
        self.session.plan().reveal()
    }

    /// What one image costs on this link, which is measured for it with two megabytes at most.
    ///
    /// # Errors
    /// When the connection breaks.
    pub fn cost(&mut self) -> Result<Cost, ClientError> {
        self.limits.allow(Some(self.silence * 4));
        let link = self.session.measure_link()?;
        self.limits.allow(None);
        let (plan, traffic) = (self.session.plan(), self.session.plan().traffic());
        Ok(Cost { offline: traffic.offline, online: traffic.online, memory: plan.client_memory(), link })
    }

    /// Does the offline work for so many images, to be classified over this connection.
    ///
    /// # Errors
    /// When the server refuses or the connection breaks.
    pub fn prepare(&mut self, count: u32) -> Result<(), ClientError> {
        self.request(&Request::Prepare { count, keep: None })?;
        let traffic = self.session.plan().traffic().offline;
        for _ in 0..count {
            self.allow(traffic.bytes_up + traffic.bytes_down);
            self.prepared.push_back(self.session.prepare()?);
        }
        self.limits.allow(None);
        Ok(())
    }

    /// How many images can be classified without further preparation.
    pub fn prepared(&self) -> usize {
        self.prepared.len()
    }

    /// Classifies one image; prepares first where nothing is prepared.
    ///
    /// # Errors
    /// When the image has another size, the server refuses, or the connection breaks.
    pub fn classify(&mut self, image: &Image) -> Result<Answer, ClientError> {
        let mut answers = self.classify_batch(std::slice::from_ref(image))?;
        Ok(answers.pop().expect("one image gives one answer"))
    }

    /// Classifies several images that share every round trip; prepares what is missing.
    ///
    /// # Errors
    /// As [`PrivateClient::classify`].
    pub fn classify_batch(&mut self, images: &[Image]) -> Result<Vec<Answer>, ClientError> {
        if images.is_empty() {
            return Ok(Vec::new());
        }
        for image in images {
            image.expect_shape(self.outline().input).map_err(InferenceError::from)?;
        }
        let missing = images.len().saturating_sub(self.prepared.len());
        if missing > 0 {
            self.prepare(missing as u32)?;
        }
        self.request(&Request::Classify { count: images.len() as u32 })?;
        let batch = self.prepared.drain(..images.len()).zip(images).collect();
        let traffic = self.session.plan().traffic().online;
        self.allow((traffic.bytes_up + traffic.bytes_down).saturating_mul(images.len() as u64));
        let answers = self.session.classify_batch(batch)?;
        self.limits.allow(None);
        Ok(answers)
    }

    /// Says goodbye.
    ///
    /// # Errors
    /// When the connection is broken already.
    pub fn finish(self) -> Result<(), ClientError> {
        self.session.finish()?;
        Ok(())
    }

    /// The session underneath.
    pub fn session_mut(&mut self) -> &mut Client<S> {
        &mut self.session
    }

    fn request(&mut self, request: &Request) -> Result<(), ClientError> {
        self.session.request(request, &mut self.waiting)?;
        Ok(())
    }

    /// The next exchange has so many bytes.
    fn allow(&self, bytes: u64) {
        self.limits.allow(Some(self.silence.saturating_add(Duration::from_secs(bytes / self.least_rate))));
    }
}

/// `HOST:PORT`, `HOST`, `[::1]:PORT`.
fn split_address(address: &str) -> Result<(&str, u16), ClientError> {
    let malformed = || ClientError::Address { came: address.to_owned() };
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
        _ => (address, None),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.map_or(Ok(DEFAULT_PORT), |port| port.parse().map_err(|_| malformed()))?;
    if host.is_empty() { Err(malformed()) } else { Ok((host, port)) }
}

/// Connects to the first address of a name that answers.
fn reach(host: &str, port: u16) -> Result<TcpStream, ClientError> {
    let resolved = (host, port).to_socket_addrs();
    let unresolved = |source| ClientError::Unresolved { host: host.to_owned(), source };
    let mut last = None;
    for address in resolved.map_err(|error| unresolved(Some(error)))? {
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(ClientError::unreachable(address, error)),
        }
    }
    Err(last.unwrap_or_else(|| unresolved(None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_port() {
        assert_eq!(split_address("a.example:99").unwrap(), ("a.example", 99));
        assert_eq!(split_address("a.example").unwrap(), ("a.example", DEFAULT_PORT));
        assert_eq!(split_address("[::1]:99").unwrap(), ("::1", 99));
        assert_eq!(split_address("::1").unwrap(), ("::1", DEFAULT_PORT));
        assert_eq!(split_address("[::1]").unwrap(), ("::1", DEFAULT_PORT));
        for bad in ["", ":99", "host:", "host:99999", "host:port"] {
            assert!(matches!(split_address(bad), Err(ClientError::Address { .. })), "{bad}");
        }
    }

    #[test]
    fn a_cost_counts_bytes_of_each_direction_and_round_trips() {
        let link = LinkSpeed { round_trip: Duration::from_millis(20), down: 1e6, up: 1e5 };
        let cost = Cost {
            offline: Traffic { bytes_up: 100_000, bytes_down: 1_000_000, rounds: 4 },
            online: Traffic { bytes_up: 50_000, bytes_down: 500_000, rounds: 10 },
            memory: 0,
            link,
        };
        assert_eq!(cost.bytes(), 1_650_000);
        assert_eq!(cost.least_offline_time(), Duration::from_millis(2040));
        assert_eq!(cost.least_online_time(), Duration::from_millis(1100));
    }
}
