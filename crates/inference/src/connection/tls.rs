//! TLS 1.3 between the parties: a server known by the fingerprint of its certificate.
//!
//! No early data, no compression, no session tickets. The exporter value of RFC 9266 goes into the session id, so a
//! session of ours cannot be carried over to another channel.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection, SignatureScheme,
    StreamOwned,
};

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

/// A server's self-signed certificate and its key.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    /// Makes a fresh one.
    ///
    /// # Errors
    /// When the system cannot make a key.
    pub fn generate() -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
        Ok(Self {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
        })
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        fingerprint(&self.certificate)
    }
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
    Client(Box<StreamOwned<ClientConnection, TcpStream>>),
    Server(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl TlsStream {
    fn stream(&mut self) -> &mut dyn ReadWrite {
        match &mut self.inner {
            Inner::Client(stream) => stream.as_mut(),
            Inner::Server(stream) => stream.as_mut(),
        }
    }

    fn push(&mut self) -> io::Result<()> {
        let unsent = std::mem::take(&mut self.unsent);
        let result = self.stream().write_all(&unsent);
        self.unsent = unsent;
        self.unsent.clear();
        result
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

/// Connects to a server with a pinned certificate; gives the stream and the channel binding.
///
/// # Errors
/// When the handshake fails, for example because the certificate is another one.
pub fn connect_tls(
    socket: TcpStream,
    pinned: Fingerprint,
) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
    socket.set_nodelay(true)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(PinnedServer { pinned, provider: Arc::clone(&provider) });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::try_from(NAME).expect("a fixed host name");
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name)?, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    let binding = stream.conn.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?;
    Ok((TlsStream { inner: Inner::Client(Box::new(stream)), unsent: Vec::new() }, binding))
}

/// Answers a client that has just connected; gives the stream and the channel binding.
///
/// # Errors
/// When the handshake fails.
pub fn accept_tls(
    socket: TcpStream,
    identity: &Identity,
) -> Result<(TlsStream, [u8; BINDING_BYTES]), TlsError> {
    socket.set_nodelay(true)?;
    let key = PrivateKeyDer::Pkcs8(identity.key.clone_key());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone()], key)?;
    config.send_tls13_tickets = 0;
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::new(config))?, socket);
    stream.conn.complete_io(&mut stream.sock)?;
    let binding = stream.conn.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?;
    Ok((TlsStream { inner: Inner::Server(Box::new(stream)), unsent: Vec::new() }, binding))
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
        if fingerprint(certificate) == self.pinned {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(rustls::CertificateError::ApplicationVerificationFailure))
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

/// A channel that could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The connection broke.
    #[error("the connection broke during the TLS handshake; is the fingerprint that of this server?")]
    Connection(#[from] io::Error),
    /// The handshake failed.
    #[error("the TLS handshake failed")]
    Handshake(#[from] rustls::Error),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Both parties' bindings, and what the client received.
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
    fn another_certificate_is_refused() {
        assert!(handshake(|_| Fingerprint([1; 32])).is_err());
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
