//! Why a channel could not be secured, and what to do about it.

use std::io;

use crate::connection::pinned::{Fingerprint, NoFingerprint, OtherCertificate};

/// A channel that could not be secured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The connection broke.
    #[error(
        "the connection broke during the TLS handshake: the peer hung up, or something between cut it; is the address \
         that of a Sordino server?"
    )]
    Connection(#[from] io::Error),
    /// Nobody spoke.
    #[error("the peer fell silent during the TLS handshake; is the address that of a Sordino server?")]
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
    /// The certificate may sign others and stand for no server.
    #[error(
        "the peer's certificate is an authority's own (CA:TRUE), which --ca takes for no server's: pin it with --fingerprint \
         instead, or have the authority sign a certificate for the server"
    )]
    AuthoritysOwn,
    /// The certificate belongs to another name.
    #[error("the server's certificate is for another name; use the name it was made for, or --fingerprint")]
    OtherName,
    /// A client must show a certificate here.
    #[error("the server asks for a client certificate; give one with --client-cert and --client-key")]
    ClientCertificateRequired,
    /// The server does not accept the client's certificate.
    #[error("the server does not accept this client's certificate; ask its operator for one")]
    ClientCertificateRefused,
    /// Seen by a server: the client does not accept its certificate.
    #[error(
        "the client does not accept this server's certificate: it expects another fingerprint or authority"
    )]
    ServerCertificateRefused,
    /// Seen by a server: no client of ours.
    #[error(
        "the TLS handshake failed: the peer is no Sordino client, or something between changed what it said"
    )]
    NoClient(#[source] rustls::Error),
    /// The peer found something wrong.
    #[error("the peer ended the TLS handshake; something between may have changed it")]
    Alert(#[source] rustls::Error),
    /// The handshake failed in another way.
    #[error(
        "the TLS handshake failed: the peer speaks something else, or something between changed it; is the address that \
         of a Sordino server?"
    )]
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
    /// The key of another certificate.
    #[error("the private key is not that of the certificate; give the key that the certificate was made for")]
    OtherKey,
    /// Of no known kind, or damaged.
    #[error(
        "certificate or private key cannot be used; expected an X.509 certificate with an RSA, ECDSA or Ed25519 key"
    )]
    Unusable(#[source] rustls::Error),
    /// No certificate could be made.
    #[error("no certificate could be made")]
    Certificate(#[from] rcgen::Error),
    /// A fingerprint that is none.
    #[error(transparent)]
    Fingerprint(#[from] NoFingerprint),
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

impl TlsError {
    /// The same as a server says it: alerts do not tell whose certificate they are about, and it knows its address.
    pub(super) fn at_server(self) -> Self {
        match self {
            Self::ClientCertificateRefused => Self::ServerCertificateRefused,
            Self::Handshake(error) => Self::NoClient(error),
            error => error,
        }
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
        if let Some(other) = OtherCertificate::in_tls(&error) {
            return Self::OtherServer { expected: other.pinned, came: other.came };
        }
        match &error {
            // That is all that rustls tells of it.
            Error::InvalidCertificate(Bad::Other(other)) if other.to_string() == "CaUsedAsEndEntity" => {
                Self::AuthoritysOwn
            }
            Error::InvalidCertificate(Bad::Other(_)) => Self::Handshake(error),
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
                | Alert::DecryptError
                | Alert::AccessDenied,
            ) => Self::ClientCertificateRefused,
            Error::AlertReceived(_) => Self::Alert(error),
            Error::InconsistentKeys(_) => Self::OtherKey,
            _ => Self::Handshake(error),
        }
    }
}
