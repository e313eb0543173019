//! Everything that can keep a client from its answer, each with what to do about it.

#[cfg(feature = "tls")]
use std::{io, net::SocketAddr};

use inference::InferenceError;
#[cfg(feature = "tls")]
use inference::connection::TlsError;

#[cfg(feature = "prepared-file")]
use {crate::prepared_file::PreparedFileError, network::text::counted};

/// Why a client has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// An address that is none.
    #[cfg(feature = "tls")]
    #[error("{came:?} is no address; write HOST or HOST:PORT")]
    Address {
        /// What came.
        came: String,
    },
    /// A name without an address.
    #[cfg(feature = "tls")]
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
    #[cfg(feature = "tls")]
    #[error(
        "nothing listens at {address}: the port is closed; start `sordino serve` there, or check the port \
         and the firewall"
    )]
    Closed {
        /// Where.
        address: SocketAddr,
    },
    /// No answer at all.
    #[cfg(feature = "tls")]
    #[error("{address} cannot be reached; check the network, and whether a firewall drops the port")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The channel could not be secured.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The file of prepared inferences.
    #[cfg(feature = "prepared-file")]
    #[error(transparent)]
    File(#[from] PreparedFileError),
    /// Prepared for something else.
    #[cfg(feature = "prepared-file")]
    #[error("the file was prepared for another model: {what} differs; prepare again")]
    OtherModel {
        /// What differs.
        what: &'static str,
    },
    /// Not enough for all images.
    #[cfg(feature = "prepared-file")]
    #[error(
        "{} came, and {} left; prepare more, or ask about fewer",
        counted(*images as u64, "image"),
        match left {
            1 => "1 prepared inference is".to_owned(),
            _ => format!("{left} prepared inferences are"),
        }
    )]
    TooFewPrepared {
        /// How many are left.
        left: u32,
        /// How many images came.
        images: usize,
    },
    /// The server does not say what it keeps.
    #[cfg(feature = "prepared-file")]
    #[error(
        "the server named {came} kept inferences where one was asked for; it does not follow the protocol"
    )]
    NotNamed {
        /// How many it named.
        came: usize,
    },
    /// The session of a client that works in the background has ended.
    #[cfg(feature = "tls")]
    #[error("the session has ended; connect again")]
    Over,
    /// The protocol did not come to its end.
    #[error(transparent)]
    Inference(InferenceError),
}

impl ClientError {
    #[cfg(feature = "tls")]
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
            #[cfg(feature = "tls")]
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
