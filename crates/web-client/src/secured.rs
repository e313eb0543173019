//! TLS 1.3 over any stream, to a server that is known by its fingerprint.
//!
//! As between programs: no early data, no tickets, no compression, and the exporter value of RFC 9266 as the binding
//! that goes into the session id.

use std::io::{self, BufWriter, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use inference::connection::Fingerprint;
use inference::connection::pinned::{
    BINDING_BYTES, BINDING_LABEL, CERTIFICATE_NAME, OtherCertificate, PinnedServer,
};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::provider::provider;

/// What is gathered before it is sealed and handed on.
const BUFFER_BYTES: usize = 64 << 10;

/// A stream that nobody between reads or changes.
pub struct Secured<S: Read + Write>(BufWriter<StreamOwned<ClientConnection, S>>);

impl<S: Read + Write> Secured<S> {
    /// Shakes hands with the server that has this fingerprint; gives the stream and the channel binding.
    ///
    /// # Errors
    /// When the server is another one, speaks something else, or the stream ends.
    pub fn connect(mut stream: S, pinned: Fingerprint) -> Result<(Self, [u8; BINDING_BYTES]), SecuredError> {
        let name = ServerName::try_from(CERTIFICATE_NAME).expect("the name of every certificate is one");
        let mut connection = ClientConnection::new(Arc::new(config(pinned)?), name)?;
        connection.complete_io(&mut stream).map_err(SecuredError::of)?;
        let binding = connection.export_keying_material([0; BINDING_BYTES], BINDING_LABEL, None)?;
        let stream = StreamOwned::new(connection, stream);
        Ok((Self(BufWriter::with_capacity(BUFFER_BYTES, stream)), binding))
    }
}

impl<S: Read + Write> Read for Secured<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.get_mut().read(buffer)
    }
}

impl<S: Read + Write> Write for Secured<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn config(pinned: Fingerprint) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(provider());
    let mut config = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(NoDates))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(PinnedServer { pinned, provider }))
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::disabled();
    config.enable_early_data = false;
    config.cert_decompressors = Vec::new();
    config.cert_compressors = Vec::new();
    Ok(config)
}

/// A pinned certificate's dates do not matter, and neither does today's.
#[derive(Debug)]
struct NoDates;

impl TimeProvider for NoDates {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::ZERO))
    }
}

/// A stream that could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum SecuredError {
    /// Another certificate than the pinned one.
    #[error(transparent)]
    OtherServer(OtherCertificate),
    /// The stream ended or fell silent.
    #[error(
        "the connection broke during the TLS handshake: the server hung up, or something between cut it; is the \
         address that of a Sordino server?"
    )]
    Connection(#[source] io::Error),
    /// Somebody speaks something else.
    #[error(
        "the TLS handshake failed: the server speaks something else, has a certificate whose key is neither ECDSA \
         P-256 nor Ed25519, or something between changed it"
    )]
    Handshake(#[source] rustls::Error),
}

impl SecuredError {
    /// What TLS has against the peer comes wrapped in an error of the stream.
    fn of(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(cause) => cause.clone().into(),
            None => Self::Connection(error),
        }
    }
}

impl From<rustls::Error> for SecuredError {
    fn from(error: rustls::Error) -> Self {
        OtherCertificate::in_tls(&error).map_or(Self::Handshake(error), Self::OtherServer)
    }
}
