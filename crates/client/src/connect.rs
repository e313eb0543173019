//! Over TCP and TLS 1.3, to a server that is known by its fingerprint or its authorities.

use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crypto::ot::Depth;
use inference::client::Wishes;
use inference::connection::{
    CertifiedKey, DEFAULT_LEAST_RATE, DEFAULT_PORT, Fingerprint, TimeLimits, TlsConnector, TlsError, Trust,
};

use crate::halves_folder::{HalvesFolder, Unkept};
use crate::{ClientError, Patience, PrivateClient};

/// How long to wait for a silent server.
pub const DEFAULT_SILENCE: Duration = Duration::from_secs(60);
/// How long a connection may take to come about.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

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
    /// A folder in which second halves of answers are kept, so that later sessions do without them.
    pub halves: Option<PathBuf>,
    /// Hears where nothing can be kept there, and why.
    pub unkept: Unkept,
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
            halves: None,
            unkept: |_, _| {},
        }
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
        // Unless somebody knows better: a link between machines is slow beside the loopback device.
        let is_near = socket.peer_addr().is_ok_and(|peer| peer.ip().is_loopback());
        let mut wishes = options.wishes;
        wishes.depth = wishes.depth.or(Some(if is_near { Depth::Four } else { Depth::Eight }));
        let limits = TimeLimits::new(options.silence);
        let (stream, binding) = connector.connect(socket, host, Arc::clone(&limits))?;
        if let Some((folder, server)) = options.halves.zip(stream.peer()) {
            wishes.halves = Some(Arc::new(HalvesFolder::new(folder, server).telling(options.unkept)));
        }
        let patience = Patience::with(limits, options.silence, options.least_rate);
        let mut client = Self::over(stream, &binding, &wishes, patience)?;
        client.session.use_threads(options.threads)?;
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
}
