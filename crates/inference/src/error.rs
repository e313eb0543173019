//! What can go wrong between two parties.

use crypto::garble::GarbleError;
use crypto::he::HeError;
use crypto::ot::error::OtError;
use crypto::random::SystemRandomError;
use crypto::ring::geometry::GeometryError;
use crypto::ring::{RingError, UnpackError, WidthOutOfRange};
use network::image::ImageError;
use network::inference_model::ModelFileError;

/// An inference that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum InferenceError {
    /// The connection broke.
    #[error("the connection to the peer broke")]
    Connection(#[from] std::io::Error),
    /// The image cannot be used with this model.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The peer runs another version of the protocol.
    #[error("the peer speaks protocol version {came}, this program version {expected}")]
    Version {
        /// Ours.
        expected: u32,
        /// The peer's.
        came: u32,
    },
    /// The server gives out something else than the client expects.
    #[error("the server answers in mode {came}, this client expects mode {expected} (0: logits, 1: class)")]
    Reveal {
        /// What the client expects.
        expected: u8,
        /// What the server offers.
        came: u8,
    },
    /// Material of another session.
    #[error("this was prepared in another session; its labels and blinds mean nothing here")]
    OtherSession,
    /// An earlier step failed, so the parties no longer agree on where they are.
    #[error("an earlier step of this session failed; connect again")]
    Broken,
    /// The peer's outline is larger than a model's can be.
    #[error("the peer announced an outline of {came} bytes; at most {limit} are accepted")]
    OutlineLength {
        /// What it announced.
        came: u64,
        /// The most that is accepted.
        limit: u64,
    },
    /// The peer's outline is no outline.
    #[error("the server's outline is not usable")]
    Outline(#[from] ModelFileError),
    /// Both nonces are the same, or a seed is degenerate.
    #[error("a homomorphic step failed")]
    Homomorphic(#[from] HeError),
    /// Oblivious transfer failed.
    #[error("an oblivious transfer failed")]
    Transfer(#[from] OtError),
    /// Garbling failed.
    #[error("a garbled circuit failed")]
    Garbling(#[from] GarbleError),
    /// Shares do not fit together.
    #[error("shares do not fit together")]
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
