//! What can go wrong in oblivious transfer, and whose fault it is.

use crate::ot::depth::Depth;

/// The messages of this module, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtMessage {
    /// The base sender's point.
    SenderPoint,
    /// The base receiver's points.
    ReceiverPoints,
    /// The masked sums from which punctured trees are rebuilt.
    TreeSums,
    /// The corrections of one chunk of the extension.
    Corrections,
}

impl std::fmt::Display for OtMessage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::SenderPoint => "the base sender's point",
            Self::ReceiverPoints => "the base receiver's points",
            Self::TreeSums => "the tree sums",
            Self::Corrections => "the corrections",
        })
    }
}

/// A refused message of the peer, or a request this side cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtError {
    /// The peer's message has another length than the plan says.
    #[error("{message} came with {sent} bytes, {expected} were expected")]
    MessageLength {
        /// Which message.
        message: OtMessage,
        /// Its planned length in bytes.
        expected: usize,
        /// What the peer sent.
        sent: usize,
    },
    /// The peer sent bytes that are no canonical Ristretto encoding.
    #[error("{message}: bytes of point {index} are not the canonical encoding of a Ristretto point")]
    NonCanonicalPoint {
        /// Which message.
        message: OtMessage,
        /// Which of its points.
        index: usize,
    },
    /// The peer sent the identity, under which both keys would be known to everybody.
    #[error("{message}: point {index} is the identity")]
    IdentityPoint {
        /// Which message.
        message: OtMessage,
        /// Which of its points.
        index: usize,
    },
    /// The peer sent this side's own point back; one of the two keys would come from the identity.
    #[error("{message}: point {index} repeats the sender's point")]
    EchoedPoint {
        /// Which message.
        message: OtMessage,
        /// Which of its points.
        index: usize,
    },
    /// The peer set bits beyond the last transfer.
    #[error("{message}: bits beyond transfer {transfers} must be zero")]
    PaddingBits {
        /// Which message.
        message: OtMessage,
        /// How many transfers the message carries.
        transfers: usize,
    },
    /// The peer corrected its trees towards different choices, or grew them inconsistently.
    #[error("the corrections do not belong to one list of choices; the session must end")]
    Inconsistent,
    /// This side asked for a chunk outside the limits of memory.
    #[error("a chunk of {requested} transfers was asked for, 1 to {limit} are possible")]
    ChunkSize {
        /// The number asked for.
        requested: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The state has made all the transfers its security argument covers; run new base transfers.
    #[error("{requested} transfers were asked for, {left} are left before new base transfers are due")]
    Exhausted {
        /// The number asked for.
        requested: usize,
        /// Transfers left in this state.
        left: u64,
    },
    /// This side handed in corrections that were read for trees of another depth.
    #[error("corrections for trees of depth {given} were given, the extension has trees of depth {expected}")]
    Depth {
        /// The depth of the extension.
        expected: Depth,
        /// The depth of the corrections.
        given: Depth,
    },
    /// This side handed in another number of choices or labels than the chunk has transfers.
    #[error("{given} items were given for a chunk of {expected} transfers")]
    ItemCount {
        /// Transfers in the chunk.
        expected: usize,
        /// Items handed in.
        given: usize,
    },
}
