//! The three messages of a truncation: one value of fixed width per position, packed without gaps.

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
    /// Online, server to client: d, one bit each.
    TruncationOpening, Message::TruncationOpening, |_shape| 1
}

message! {
    /// Online, client to server: lo bits each.
    TruncationReply, Message::TruncationReply, |shape| shape.output_bits()
}
