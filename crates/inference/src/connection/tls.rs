//! TLS 1.3 between the parties: a server known by the fingerprint of its certificate.
//!
//! No early data, no compression, no session tickets. The exporter value of RFC 9266 goes into the session id, so a
//! session of ours cannot be carried over to another channel.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crypto::secret::Secret;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

use super::time_limits::{TimeLimits, TimedSocket};

/// The name every certificate of ours carries; the fingerprint is what identifies a server.
const NAME: &str = "sordino";
/// What is gathered before it goes to the socket.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes of the channel binding (RFC 9266).
const BINDING_BYTES: usize = 32;
/// The exporter's label in RFC 9266.
const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// The BLAKE3 hash of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let malformed = || TlsError::Fingerprint { came: text.to_owned() };
        if text.len() != 64 || !text.is_ascii() {
            return Err(malformed());
        }
        let mut bytes = [0; 32];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| malformed())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| malformed())?;
        }
        Ok(Self(bytes))
    }
}

/// A self-signed certificate and its key: what a server is known by where no authority vouches for it.
pub struct Identity(CertifiedKey);

impl Identity {
    /// Makes a fresh one.
    ///
    /// # Errors
    /// When the system cannot make a key.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Self(CertifiedKey { chain: vec![certificate.der().clone()], key }))
    }

    /// Reads one that [`Identity::to_pem`] wrote.
    ///
    /// # Errors
    /// When there is no certificate with its key.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        Ok(Self(CertifiedKey::from_pem(pem, pem)?))
    }

    /// Certificate and key as PEM. Whoever has it can pose as this server.
    pub fn to_pem(&self) -> Secret<String> {
        let certificate = pem("CERTIFICATE", &self.0.chain[0]);
        let key = Secret::new(pem("PRIVATE KEY", self.0.key.secret_der()));
        Secret::new(certificate + key.expose())
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint()
    }

    /// To serve with it.
    pub fn into_key(self) -> CertifiedKey {
        self.0
    }
}

/// One block of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = format!("-----BEGIN {label}-----\n");
    // 48 bytes make a line of 64 digits.
    for line in der.chunks(48) {
        for three in line.chunks(3) {
            let bits =
                (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
            for digit in 0..4 {
                let is_padding = digit > three.len();
                let value = (bits >> (18 - 6 * digit)) & 63;
                text.push(if is_padding { '=' } else { char::from(DIGITS[value as usize]) });
            }
        }
        text.push('\n');
    }
    text + &format!("-----END {label}-----\n")
}

/// A chain of certificates and the key of the first.
pub struct CertifiedKey {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl CertifiedKey {
    /// Reads both from PEM.
    ///
    /// # Errors
    /// When either is missing.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|source| TlsError::Pem { what: "private key", source })?;
        Ok(Self { chain, key })
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.chain[0])
    }
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |source| TlsError::Pem { what: "certificate", source };
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().map_err(refuse)?;
    if found.is_empty() {
        return Err(refuse(rustls::pki_types::pem::Error::NoItemsFound));
    }
    Ok(found)
}

fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn fingerprint(certificate: &CertificateDer<'_>) -> Fingerprint {
    Fingerprint(*blake3::hash(certificate).as_bytes())
}

/// A TLS stream that gathers what is written until it is flushed.
pub struct TlsStream {
    inner: Inner,
    unsent: Vec<u8>,
}

enum Inner {
    Client(Box<StreamOwned<ClientConnection, TimedSocket>>),
    Server(Box<StreamOwned<ServerConnection, TimedSocket>>),
}

impl TlsStream {
    fn stream(&mut self) -> &mut dyn ReadWrite {
        match &mut self.inner {
            Inner::Client(stream) => stream.as_mut(),
            Inner::Server(stream) => stream.as_mut(),
        }
    }

    /// Runs the handshake. What TLS has against the peer comes wrapped in an error of the socket.
    fn shake_hands(mut self) -> Result<(Self, [u8; BINDING_BYTES]), TlsError> {
        let result = match &mut self.inner {
            Inner::Client(stream) => stream.conn.complete_io(&mut stream.sock),
            Inner::Server(stream) => stream.conn.complete_io(&mut stream.sock),
        };
        result.map_err(TlsError::from_stream)?;
        let empty = [0; BINDING_BYTES];
        let binding = match &self.inner {
            Inner::Client(stream) => stream.conn.export_keying_material(empty, BINDING_LABEL, None)?,
            Inner::Server(stream) => stream.conn.export_keying_material(empty, BINDING_LABEL, None)?,
        };
        Ok((self, binding))
    }

    /// The fingerprint of the peer's certificate, where it showed one.
    pub fn peer(&self) -> Option<Fingerprint> {
        let certificates = match &self.inner {
            Inner::Client(stream) => stream.conn.peer_certificates(),
            Inner::Server(stream) => stream.conn.peer_certificates(),
        };
        certificates?.first().map(fingerprint)
    }

    fn push(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let result = self.stream().write_all(&unsent);
        self.unsent = unsent;
        self.unsent.clear();
        result
    }
}

/// A stream ends with goodbye. A server then waits a moment for the client to hang up: unread bytes would make the system
/// throw away our last words, which may say why it ends.
impl Drop for TlsStream {
    fn drop(&mut self) {
        // The peer may be gone already; then there is nobody to say it to.
        match &mut self.inner {
            Inner::Client(stream) => {
                stream.sock.limits().allow(Some(LAST_WORDS));
                stream.conn.send_close_notify();
                let _ = stream.conn.write_tls(&mut stream.sock);
            }
            Inner::Server(stream) => {
                stream.sock.limits().allow(Some(LAST_WORDS));
                stream.conn.send_close_notify();
                let _ = stream.conn.write_tls(&mut stream.sock);
                let _ = stream.sock.socket().shutdown(Shutdown::Write);
                let mut unread = [0; 4096];
                while stream.sock.read(&mut unread).is_ok_and(|count| count > 0) {}
            }
        }
    }
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream().read(buffer)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsent.len() + bytes.len() > BUFFER_BYTES {
            self.push()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.stream().write_all(bytes)?;
        } else {
            self.unsent.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()?;
        self.stream().flush()
    }
}

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
        let host = if self.is_pinned { NAME } else { host };
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { came: host.to_owned() })?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name)?;
        let stream = StreamOwned::new(connection, TimedSocket::new(socket, limits));
        TlsStream { inner: Inner::Client(Box::new(stream)), unsent: Vec::new() }.shake_hands()
    }
}

/// How a server secures connections.
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
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
        let mut config = builder.with_single_cert(own.chain, own.key)?;
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.cert_decompressors = Vec::new();
        config.cert_compressors = Vec::new();
        Ok(Self { config: Arc::new(config) })
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
        let stream = StreamOwned::new(connection, TimedSocket::new(socket, limits));
        TlsStream { inner: Inner::Server(Box::new(stream)), unsent: Vec::new() }.shake_hands()
    }
}

/// How long the end of a connection may take.
const LAST_WORDS: Duration = Duration::from_millis(500);
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
    TlsConnector::new(&Trust::Fingerprint(pinned), None)?.connect(socket, NAME, TimeLimits::new(PATIENCE))
}

/// Answers a client that has just connected; gives the stream and the channel binding.
///
/// # Errors
/// When the handshake fails.
pub fn accept_tls(
    socket: TcpStream,
    identity: &Identity,
) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
    let own = CertifiedKey { chain: identity.0.chain.clone(), key: identity.0.key.clone_key() };
    TlsAcceptor::new(own, None)?.accept(socket, TimeLimits::new(PATIENCE))
}

/// Accepts the one certificate whose fingerprint it was given, and checks that the peer holds its key.
#[derive(Debug)]
struct PinnedServer {
    pinned: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedServer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let came = fingerprint(certificate);
        if came == self.pinned {
            return Ok(ServerCertVerified::assertion());
        }
        let other = OtherCertificate { pinned: self.pinned, came };
        Err(rustls::CertificateError::Other(rustls::OtherError(Arc::new(other))).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Another certificate than the pinned one.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the server's certificate has fingerprint {came}, {pinned} was expected")]
struct OtherCertificate {
    pinned: Fingerprint,
    came: Fingerprint,
}

/// A channel that could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The connection broke.
    #[error("the connection broke during the TLS handshake; does a Sordino server listen there?")]
    Connection(#[from] io::Error),
    /// Nobody spoke.
    #[error("the peer fell silent during the TLS handshake; does a Sordino server listen there?")]
    TimedOut,
    /// Another certificate than the pinned one.
    #[error(
        "the server's certificate has fingerprint {came}, but {expected} was expected: ask the operator for the \
         fingerprint that `sordino serve` prints; if it did not change, somebody stands between you and the server"
    )]
    OtherServer {
        /// The pinned one.
        expected: Fingerprint,
        /// That of the server.
        came: Fingerprint,
    },
    /// The certificate is too old, or the clock is wrong.
    #[error("the peer's certificate has expired; its owner must renew it (or set this machine's clock)")]
    Expired,
    /// The certificate is not valid yet, or the clock is wrong.
    #[error("the peer's certificate is not valid yet; set this machine's clock, or wait")]
    NotYetValid,
    /// No authority that is trusted here vouches for the peer.
    #[error(
        "no trusted authority vouches for the peer's certificate; give its authority with --ca, or pin a server that \
         signed its own with --fingerprint"
    )]
    Untrusted,
    /// The certificate belongs to another name.
    #[error("the server's certificate is for another name; use the name it was made for, or --fingerprint")]
    OtherName,
    /// A client must show a certificate here.
    #[error("the server asks for a client certificate; give one with --client-cert and --client-key")]
    ClientCertificateRequired,
    /// The server does not accept the client's certificate.
    #[error("the server does not accept this client's certificate; ask its operator for one")]
    ClientCertificateRefused,
    /// The peer found something wrong.
    #[error("the peer ended the TLS handshake")]
    Alert(#[source] rustls::Error),
    /// The handshake failed in another way.
    #[error("the TLS handshake failed; does a Sordino server listen there?")]
    Handshake(#[source] rustls::Error),
    /// A name that no server can have.
    #[error("{came:?} is no name of a server")]
    Name {
        /// What came.
        came: String,
    },
    /// A file without what was looked for.
    #[error("no usable {what} in PEM form was found")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// What is wrong.
        source: rustls::pki_types::pem::Error,
    },
    /// No certificate could be made.
    #[error("no certificate could be made")]
    Certificate(#[from] rcgen::Error),
    /// A fingerprint that is none.
    #[error("{came:?} is no fingerprint; one has 64 hexadecimal digits")]
    Fingerprint {
        /// What came.
        came: String,
    },
}

impl TlsError {
    /// What a TLS stream's error is about: TLS itself, time, or the connection.
    pub fn from_stream(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(cause) => Self::from(cause.clone()),
            None if error.kind() == io::ErrorKind::TimedOut => Self::TimedOut,
            None => Self::Connection(error),
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
        match &error {
            Error::InvalidCertificate(Bad::Other(other)) => {
                match other.0.downcast_ref::<OtherCertificate>() {
                    Some(other) => Self::OtherServer { expected: other.pinned, came: other.came },
                    None => Self::Handshake(error),
                }
            }
            Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => Self::Expired,
            Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => Self::NotYetValid,
            Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
                Self::OtherName
            }
            Error::InvalidCertificate(_) => Self::Untrusted,
            Error::NoCertificatesPresented | Error::AlertReceived(Alert::CertificateRequired) => {
                Self::ClientCertificateRequired
            }
            Error::AlertReceived(
                Alert::BadCertificate
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::UnknownCA
                | Alert::AccessDenied,
            ) => Self::ClientCertificateRefused,
            Error::AlertReceived(_) => Self::Alert(error),
            _ => Self::Handshake(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Both ends' bindings, and what arrived.
    type Handshake = ([u8; 32], [u8; 32], Vec<u8>);

    fn handshake(pin: impl Fn(&Identity) -> Fingerprint) -> Result<Handshake, TlsError> {
        let identity = Identity::generate()?;
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
    fn another_certificate_is_refused_and_both_are_named() {
        let error = handshake(|_| Fingerprint([1; 32])).unwrap_err();
        assert!(
            matches!(error, TlsError::OtherServer { expected: Fingerprint(bytes), .. } if bytes == [1; 32])
        );
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

    #[test]
    fn an_identity_reads_back_from_pem() {
        let identity = Identity::generate().unwrap();
        let pem = identity.to_pem();
        let again = Identity::from_pem(pem.expose().as_bytes()).unwrap();
        assert_eq!(again.fingerprint(), identity.fingerprint());
        assert_eq!(again.to_pem().expose(), pem.expose());
        assert!(Identity::from_pem(b"nothing").is_err());
    }

    #[test]
    fn fingerprints_read_back() {
        let fingerprint = Identity::generate().unwrap().fingerprint();
        assert_eq!(fingerprint.to_string().parse::<Fingerprint>().unwrap(), fingerprint);
        for bad in ["", "zz", &"g".repeat(64), &"é".repeat(32)] {
            assert!(bad.parse::<Fingerprint>().is_err());
        }
    }
}
