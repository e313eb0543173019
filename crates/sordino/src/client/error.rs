//! Everything that can keep a client from its answer, each with what to do about it.

use std::io;
use std::net::SocketAddr;

use inference::InferenceError;
use inference::connection::TlsError;

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An address that is none.
    #[error("{came:?} is no address; write HOST or HOST:PORT")]
    Address {
        /// What came.
        came: String,
    },
    /// A name without an address.
    #[error(
        "the name {host} does not resolve to an address; check its spelling and this machine's name service"
    )]
    Unresolved {
        /// The name.
        host: String,
        /// What the system says.
        source: Option<io::Error>,
    },
    /// A closed port.
    #[error(
        "nothing listens at {address}: the port is closed; start `sordino serve` there, or check the port \
         and the firewall"
    )]
    Closed {
        /// Where.
        address: SocketAddr,
    },
    /// No answer at all.
    #[error("{address} cannot be reached; check the network, and whether a firewall drops the port")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The channel could not be secured.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The protocol did not come to its end.
    #[error(transparent)]
    Inference(InferenceError),
}

impl ClientError {
    pub(super) fn unreachable(address: SocketAddr, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::ConnectionRefused => Self::Closed { address },
            _ => Self::Unreachable { address, source },
        }
    }

    /// In TLS 1.3 a server judges the client's certificate after the client's handshake is done, so its alert comes with
    /// the first message.
    pub(super) fn of(error: InferenceError) -> Self {
        match error {
            InferenceError::Connection(error) => match TlsError::from_stream(error) {
                TlsError::Connection(error) => Self::Inference(InferenceError::Connection(error)),
                error => Self::Tls(error),
            },
            error => Self::Inference(error),
        }
    }
}

impl From<InferenceError> for ClientError {
    fn from(error: InferenceError) -> Self {
        Self::of(error)
    }
}
