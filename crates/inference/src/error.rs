//! What can go wrong between two parties.

use std::io;

use crypto::garble::GarbleError;
use crypto::he::HeError;
use crypto::ot::error::OtError;
use crypto::random::SystemRandomError;
use crypto::ring::geometry::GeometryError;
use crypto::ring::{RingError, UnpackError, WidthOutOfRange};
use network::digest::Digest;
use network::image::ImageError;
use network::inference_model::ModelFileError;

use crate::connection::Role;
use crate::connection::frame::FrameError;
use crate::connection::refusal::{Refusal, RefusalCode};
use crate::plan::{ReluRounding, Reveal};
use crate::requests::RequestError;
use crate::setup::messages::HelloError;

/// An inference that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InferenceError {
    /// The connection broke.
    #[error("the connection to the peer broke: {}", how_it_broke(.0))]
    Connection(#[source] io::Error),
    /// TLS noticed that what arrived is not what was sent.
    #[error(
        "a message was changed, repeated or moved on its way, and TLS noticed: something between the parties is at fault; \
         connect again, and have the network looked at if it stays"
    )]
    Tampered(#[source] io::Error),
    /// The peer neither spoke nor listened for too long.
    #[error(
        "the peer neither sent nor took anything for too long; it, or the network to it, is stuck or too slow"
    )]
    TimedOut,
    /// A message that is not the expected one.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The peer goes no further.
    #[error("the {by} refused: {refusal}")]
    Refused {
        /// Who.
        by: Role,
        /// Why.
        refusal: Refusal,
    },
    /// This party went no further, and told the peer.
    #[error("the peer was refused: {refusal}")]
    Declined {
        /// Why.
        refusal: Refusal,
    },
    /// A hello that makes no sense.
    #[error("the peer's hello is not usable: {0}")]
    Hello(#[from] HelloError),
    /// A request or reply that makes no sense.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The parties do not derive the same from the handshake.
    #[error("{what} differs between client and server; install the same release on both sides")]
    Difference {
        /// What.
        what: &'static str,
    },
    /// The server has another model than the one that was expected.
    #[error(
        "the server's model is another: {what} {expected} was expected, {came} came; ask the operator whether the \
         model was replaced"
    )]
    OtherModel {
        /// What was compared.
        what: &'static str,
        /// What was wished for.
        expected: Digest,
        /// What the server has.
        came: Digest,
    },
    /// The outline asks for more than the client gives.
    #[error(
        "the server's model needs {needed} bytes of memory here, {limit} are allowed; raise the limit (--max-memory) if you \
         trust it"
    )]
    TooLarge {
        /// What it takes, at least.
        needed: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The image cannot be used with this model.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The server gives out something else than the client expects.
    #[error("the server reveals {came:?}, this client expects {expected:?}; ask for what it reveals")]
    Reveal {
        /// What the client expects.
        expected: Reveal,
        /// What the server offers.
        came: Reveal,
    },
    /// ReLUs round otherwise at the server than the client expects.
    #[error(
        "the server rounds ReLUs {}, this client expects {}; ask without --relu, or another server",
        how_relus_round(*came), how_relus_round(*expected)
    )]
    Relus {
        /// What the client expects.
        expected: ReluRounding,
        /// What the server offers.
        came: ReluRounding,
    },
    /// Material of another model.
    #[error("this was prepared for another model, or for another way of answering; prepare again")]
    ForeignMaterial,
    /// An earlier step failed, so the parties no longer agree on where they are.
    #[error("an earlier step of this session failed; connect again")]
    Broken,
    /// The peer's outline is no outline.
    #[error("the server's outline is not usable")]
    Outline(#[from] ModelFileError),
    /// Both nonces are the same, or a seed is degenerate.
    #[error("a homomorphic step failed: what the peer sent for it is not usable")]
    Homomorphic(#[from] HeError),
    /// Oblivious transfer failed.
    #[error("an oblivious transfer failed: what the peer sent for it is not usable")]
    Transfer(#[from] OtError),
    /// Garbling failed.
    #[error("a garbled circuit failed: what the peer sent for it is not usable")]
    Garbling(#[from] GarbleError),
    /// Shares do not fit together.
    #[error("the peer's shares do not fit together with ours")]
    Ring(#[from] RingError),
    /// Packed values are malformed.
    #[error("the peer's packed values are malformed")]
    Packing(#[from] UnpackError),
    /// A ring is too wide.
    #[error("the outline asks for a ring that does not exist")]
    Width(#[from] WidthOutOfRange),
    /// A layer's shape makes no sense.
    #[error("the outline asks for a layer that does not exist")]
    Geometry(#[from] GeometryError),
    /// The system gave no threads.
    #[error("the threads that were asked for could not be started")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The system gave no thread.
    #[error("a thread could not be started")]
    Thread(#[source] std::io::Error),
    /// The system gave no randomness.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

impl From<io::Error> for InferenceError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Self::TimedOut,
            #[cfg(feature = "pinned")]
            _ if crate::connection::pinned::is_tampering(&error) => Self::Tampered(error),
            // What TLS says to it is a page of its manual.
            io::ErrorKind::UnexpectedEof => Self::Connection(io::ErrorKind::UnexpectedEof.into()),
            _ => Self::Connection(error),
        }
    }
}

/// What the system's error says about the peer.
fn how_it_broke(error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    match error.kind() {
        UnexpectedEof | BrokenPipe | ConnectionReset | ConnectionAborted => {
            "the peer hung up or its process ended, or the network between cut it; connect again".to_owned()
        }
        _ => format!("{error}; look at this machine's network, then connect again"),
    }
}

impl InferenceError {
    /// What the peer may hear of it: whose fault it is and what to do, in words that hold nothing the peer lacks. None
    /// where the peer is gone or spoke the last word itself.
    pub fn for_peer(&self) -> Option<Refusal> {
        let refusal = |code, text: String| Some(Refusal::new(code, text));
        match self {
            Self::Connection(_)
            | Self::Tampered(_)
            | Self::Refused { .. }
            | Self::Declined { .. }
            | Self::Broken => None,
            Self::TimedOut => refusal(RefusalCode::TimedOut, "you took too long; connect again".to_owned()),
            Self::Frame(FrameError::Version { .. }) => refusal(RefusalCode::Version, self.to_string()),
            Self::Difference { .. } => refusal(RefusalCode::Difference, self.to_string()),
            Self::Reveal { .. } | Self::Relus { .. } => refusal(RefusalCode::Reveal, self.to_string()),
            // What the client expects, and how much it gives, is its own business.
            Self::OtherModel { .. } => refusal(
                RefusalCode::Difference,
                "this client expects another model under that name".to_owned(),
            ),
            Self::TooLarge { .. } => {
                refusal(RefusalCode::Limit, "the model needs more memory than this client gives".to_owned())
            }
            Self::Frame(_) | Self::Hello(_) | Self::Request(_) => {
                refusal(RefusalCode::Malformed, self.to_string())
            }
            Self::Homomorphic(_)
            | Self::Transfer(_)
            | Self::Garbling(_)
            | Self::Ring(_)
            | Self::Packing(_) => {
                refusal(RefusalCode::Malformed, "a message of yours is malformed; connect again".to_owned())
            }
            Self::ForeignMaterial => refusal(RefusalCode::Order, self.to_string()),
            _ => refusal(RefusalCode::Internal, "this side failed; connect again later".to_owned()),
        }
    }
}

const fn how_relus_round(relus: ReluRounding) -> &'static str {
    match relus {
        ReluRounding::Stochastic => "by shares",
        ReluRounding::Nearest => "to nearest",
    }
}
