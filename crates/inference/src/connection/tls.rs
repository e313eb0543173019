//! TLS 1.3 between the parties.
//!
//! No early data, no compression, no session tickets. The exporter value of RFC 9266 goes into the session id, so a
//! session of ours cannot be carried over to another channel.

mod certificates;
mod error;
mod stream;
mod validity;

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use super::pinned::{BINDING_BYTES, CERTIFICATE_NAME, Fingerprint, PinnedServer};
use super::time_limits::{TimeLimits, TimedSocket};
use certificates::authorities;

pub use certificates::{CertifiedKey, Identity};
pub use error::TlsError;
pub use stream::TlsStream;
pub use validity::{Standing, Validity};

/// Whom a client believes to be the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The one that has this certificate; what the certificate says of names and dates does not matter.
    Fingerprint(Fingerprint),
    /// Anyone whose certificate for the server's name these authorities (PEM) vouch for.
    Authorities(Vec<u8>),
}

/// How a client secures connections.
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    is_pinned: bool,
}

impl TlsConnector {
    /// With a certificate of the client's own where the server asks for one.
    ///
    /// # Errors
    /// When certificates or keys are not usable.
    pub fn new(trust: &Trust, own: Option<CertifiedKey>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match trust {
            Trust::Fingerprint(pinned) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(PinnedServer { pinned: *pinned, provider })),
            Trust::Authorities(pem) => builder.with_root_certificates(authorities(pem)?),
        };
        let mut config = match own {
            Some(own) => builder.with_client_auth_cert(own.chain, own.key)?,
            None => builder.with_no_client_auth(),
        };
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_early_data = false;
        config.cert_decompressors = Vec::new();
        config.cert_compressors = Vec::new();
        Ok(Self { config: Arc::new(config), is_pinned: matches!(trust, Trust::Fingerprint(_)) })
    }

    /// Secures a connection to the server of this name; gives the stream and the channel binding.
    ///
    /// # Errors
    /// When the handshake fails, and why.
    pub fn connect(
        &self,
        socket: TcpStream,
        host: &str,
        limits: Arc<TimeLimits>,
    ) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
        socket.set_nodelay(true)?;
        let host = if self.is_pinned { CERTIFICATE_NAME } else { host };
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { came: host.to_owned() })?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        TlsStream::client(connection, TimedSocket::new(socket, limits)?).shake_hands()
    }
}

/// How a server secures connections.
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

impl TlsAcceptor {
    /// With the authorities (PEM) that must vouch for clients, where not everyone may come.
    ///
    /// # Errors
    /// When certificates or keys are not usable.
    pub fn new(own: CertifiedKey, client_authorities: Option<&[u8]>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(authorities(pem)?);
                builder.with_client_cert_verifier(
                    WebPkiClientVerifier::builder_with_provider(roots, provider)
                        .build()
                        .map_err(|error| rustls::Error::General(error.to_string()))?,
                )
            }
        };
        let fingerprint = own.fingerprint();
        let mut config = builder.with_single_cert(own.chain, own.key)?;
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.cert_decompressors = Vec::new();
        config.cert_compressors = Vec::new();
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Answers a client that has just connected; gives the stream and the channel binding.
    ///
    /// # Errors
    /// When the handshake fails, and why.
    pub fn accept(
        &self,
        socket: TcpStream,
        limits: Arc<TimeLimits>,
    ) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
        socket.set_nodelay(true)?;
        let connection = ServerConnection::new(Arc::clone(&self.config))?;
        TlsStream::server(connection, TimedSocket::new(socket, limits)?).shake_hands()
    }
}

/// How long the short forms below wait for a silent peer.
const PATIENCE: Duration = Duration::from_secs(600);

/// Connects to a server with a pinned certificate; gives the stream and the channel binding.
///
/// # Errors
/// When the handshake fails, for example because the certificate is another one.
pub fn connect_tls(
    socket: TcpStream,
    pinned: Fingerprint,
) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
    TlsConnector::new(&Trust::Fingerprint(pinned), None)?.connect(
        socket,
        CERTIFICATE_NAME,
        TimeLimits::new(PATIENCE),
    )
}

/// Answers a client that has just connected; gives the stream and the channel binding.
///
/// # Errors
/// When the handshake fails.
pub fn accept_tls(
    socket: TcpStream,
    identity: &Identity,
) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
    TlsAcceptor::new(identity.clone_key(), None)?.accept(socket, TimeLimits::new(PATIENCE))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Both ends' bindings, and what arrived.
    type Handshake = ([u8; 32], [u8; 32], Vec<u8>);

    fn handshake(pin: impl Fn(&Identity) -> Fingerprint) -> Result<Handshake, TlsError> {
        shake_hands_with(Identity::generate()?, pin)
    }

    fn shake_hands_with(
        identity: Identity,
        pin: impl Fn(&Identity) -> Fingerprint,
    ) -> Result<Handshake, TlsError> {
        let pinned = pin(&identity);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = std::thread::spawn(move || {
            let (mut stream, binding) = accept_tls(listener.accept()?.0, &identity)?;
            stream.write_all(&[7; 300_000])?;
            stream.flush()?;
            Ok::<_, TlsError>(binding)
        });
        let (mut stream, binding) = connect_tls(TcpStream::connect(address)?, pinned)?;
        let mut bytes = vec![0; 300_000];
        stream.read_exact(&mut bytes)?;
        Ok((binding, server.join().expect("the server's thread ends")?, bytes))
    }

    #[test]
    fn both_ends_get_the_same_binding_and_bytes_arrive() {
        let (ours, theirs, bytes) = handshake(Identity::fingerprint).unwrap();
        assert_eq!(ours, theirs);
        assert_eq!(bytes, vec![7; 300_000]);
    }

    #[test]
    fn an_identity_of_a_seed_serves_as_well() {
        let identity = Identity::from_seed(&crypto::secret::Secret::new([3; 32])).unwrap();
        let (ours, theirs, _) = shake_hands_with(identity, Identity::fingerprint).unwrap();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn another_certificate_is_refused_and_both_are_named() {
        let error = handshake(|_| Fingerprint([1; 32])).unwrap_err();
        assert!(
            matches!(error, TlsError::OtherServer { expected: Fingerprint(bytes), .. } if bytes == [1; 32])
        );
    }

    #[test]
    fn a_server_says_whose_certificate_was_refused_and_who_is_no_client() {
        let identity = Identity::generate().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = |say: fn(TcpStream)| {
            let client = std::thread::spawn(move || say(TcpStream::connect(address).unwrap()));
            let error = accept_tls(listener.accept().unwrap().0, &identity).err().unwrap();
            client.join().unwrap();
            error
        };
        let error = accepted(|stream| assert!(connect_tls(stream, Fingerprint([1; 32])).is_err()));
        assert!(matches!(error, TlsError::ServerCertificateRefused), "{error}");
        let error = accepted(|mut stream| stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap());
        assert!(matches!(error, TlsError::NoClient(_)), "{error}");
    }

    #[test]
    fn only_tls_13_without_early_data_tickets_or_compression() {
        let identity = Identity::generate().unwrap();
        let connector = TlsConnector::new(&Trust::Fingerprint(identity.fingerprint()), None).unwrap();
        assert!(!connector.config.enable_early_data);
        assert!(
            connector.config.cert_compressors.is_empty() && connector.config.cert_decompressors.is_empty()
        );
        let acceptor = TlsAcceptor::new(identity.into_key(), None).unwrap();
        assert_eq!((acceptor.config.send_tls13_tickets, acceptor.config.max_early_data_size), (0, 0));
        assert!(!acceptor.config.session_storage.can_cache());
        assert!(acceptor.config.cert_compressors.is_empty() && acceptor.config.cert_decompressors.is_empty());
    }
}
