//! The four messages of a truncation: one value of fixed width per position, packed without gaps.

use super::TruncationShape;
use crate::garble::bits::{pack, packed_length, unpack};
use crate::garble::error::{GarbleError, Message};

macro_rules! message {
    ($(#[$doc:meta])* $name:ident, $message:expr, |$shape:ident| $bits:expr) => {
        $(#[$doc])*
        #[derive(Debug, PartialEq, Eq)]
        pub struct $name(pub(super) Vec<u64>);

        impl $name {
            /// Length of the message for `count` positions.
            pub fn length($shape: &TruncationShape, count: usize) -> usize {
                packed_length(count, $bits)
            }

            /// The bytes to send.
            pub fn to_bytes(&self, $shape: &TruncationShape) -> Vec<u8> {
                pack(&self.0, $bits)
            }

            /// The peer's message for `count` positions.
            ///
            /// # Errors
            /// When the length is another or bits behind the last value are set.
            pub fn from_bytes($shape: &TruncationShape, count: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
                unpack($message, bytes, count, $bits).map(Self)
            }
        }
    };
}

message! {
    /// Offline, server to client: tau, k bits each.
    TruncationOffer, Message::TruncationOffer, |shape| shape.wrap_bits()
}
message! {
    /// Offline, client to server, if the online reply is to be short: its known part, lo bits each.
    TruncationAdvance, Message::TruncationAdvance, |shape| shape.output_bits()
}
message! {
    /// Online, server to client: d, one bit each.
    TruncationOpening, Message::TruncationOpening, |_shape| 1
}

/// Online, client to server: lo bits each, or k bits if an advance was sent.
#[derive(Debug, PartialEq, Eq)]
pub struct TruncationReply {
    pub(super) values: Vec<u64>,
    pub(super) bits: u32,
}

impl TruncationReply {
    fn bits(shape: &TruncationShape, is_advanced: bool) -> u32 {
        if is_advanced { shape.wrap_bits() } else { shape.output_bits() }
    }

    pub(super) fn new(shape: &TruncationShape, is_advanced: bool, values: Vec<u64>) -> Self {
        Self { values, bits: Self::bits(shape, is_advanced) }
    }

    /// Length of the message for `count` positions.
    pub fn length(shape: &TruncationShape, count: usize, is_advanced: bool) -> usize {
        packed_length(count, Self::bits(shape, is_advanced))
    }

    /// Length of this message.
    pub(super) fn byte_length(&self) -> usize {
        packed_length(self.values.len(), self.bits)
    }

    /// The bytes to send.
    pub fn to_bytes(&self) -> Vec<u8> {
        pack(&self.values, self.bits)
    }

    /// The client's message for `count` positions.
    ///
    /// # Errors
    /// When the length is another or bits behind the last value are set.
    pub fn from_bytes(
        shape: &TruncationShape,
        count: usize,
        is_advanced: bool,
        bytes: &[u8],
    ) -> Result<Self, GarbleError> {
        let bits = Self::bits(shape, is_advanced);
        let values = unpack(Message::TruncationReply, bytes, count, bits)?;
        Ok(Self { values, bits })
    }
}
