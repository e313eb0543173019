//! A server that is known by the fingerprint of its certificate, over whatever stream it is reached.

use std::io;
use std::sync::Arc;

use network::digest::{from_hex, to_hex};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};

/// The name every certificate of ours carries; the fingerprint is what identifies a server.
pub const CERTIFICATE_NAME: &str = "sordino";
/// Bytes of the channel binding (RFC 9266).
pub const BINDING_BYTES: usize = 32;
/// The exporter's label in RFC 9266.
pub const BINDING_LABEL: &[u8] = b"EXPORTER-Channel-Binding";

/// The BLAKE3 hash of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// That of a certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Self {
        Self(*blake3::hash(certificate).as_bytes())
    }
}

impl std::fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&to_hex(&self.0))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        // Other programs write a colon between bytes.
        let bytes = from_hex(&text.replace(':', "")).map_err(|_| NoFingerprint { came: text.to_owned() })?;
        Ok(Self(bytes))
    }
}

/// A fingerprint that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{came:?} is no fingerprint; one has 64 hexadecimal digits")]
pub struct NoFingerprint {
    /// What came.
    pub came: String,
}

/// Another certificate than the pinned one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server's certificate has fingerprint {came}, but {pinned} was expected: ask the operator for the fingerprint \
     that `sordino serve` prints; if it did not change, somebody stands between you and the server"
)]
pub struct OtherCertificate {
    /// The one that was expected.
    pub pinned: Fingerprint,
    /// That of the server.
    pub came: Fingerprint,
}

impl OtherCertificate {
    /// Whether that is what TLS has against the peer.
    pub fn in_tls(error: &rustls::Error) -> Option<Self> {
        match error {
            rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) => {
                other.0.downcast_ref::<Self>().copied()
            }
            _ => None,
        }
    }
}

/// Accepts the one certificate whose fingerprint it was given, and checks that the peer holds its key.
#[derive(Debug)]
pub struct PinnedServer {
    /// That certificate's.
    pub pinned: Fingerprint,
    /// Who checks signatures.
    pub provider: Arc<CryptoProvider>,
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
        let came = Fingerprint::of(certificate);
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

/// Whether a stream that was secured before now holds something else than the peer wrote, or the peer says so of ours.
pub(crate) fn is_tampering(error: &io::Error) -> bool {
    use rustls::{AlertDescription as Alert, Error};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    cause.is_some_and(|cause| match cause {
        Error::AlertReceived(alert) => matches!(
            alert,
            Alert::BadRecordMac
                | Alert::DecodeError
                | Alert::UnexpectedMessage
                | Alert::RecordOverflow
                | Alert::ProtocolVersion
        ),
        Error::DecryptError
        | Error::InvalidMessage(_)
        | Error::InappropriateMessage { .. }
        | Error::InappropriateHandshakeMessage { .. }
        | Error::PeerSentOversizedRecord
        | Error::PeerMisbehaved(_) => true,
        _ => false,
    })
}
