//! What the two parties send: plain bytes whose lengths follow from the circuit and the lanes.

use super::circuit::{Circuit, check_lanes};
use super::error::{GarbleError, Message, check_length};

/// Garbled tables of a chunk: for each AND the generator's halves of all lanes, then the evaluator's; then
/// the rows.
#[derive(Debug, PartialEq, Eq)]
pub struct GarbledChunk(pub(super) Vec<u8>);

/// The server's online message: active labels by wire, then lane, and for a decoded output its permute bits.
#[derive(Debug, PartialEq, Eq)]
pub struct ActiveLabels(pub(super) Vec<u8>);

/// The evaluator's answer: one value per lane, packed at the bits of the output.
#[derive(Debug, PartialEq, Eq)]
pub struct Reply(pub(super) Vec<u8>);

macro_rules! message {
    ($name:ident, $message:expr, $length:ident) => {
        impl $name {
            /// The peer's message for a chunk of this circuit.
            ///
            /// # Errors
            /// When the lanes do not make a chunk or the length is not the one they ask for.
            pub fn from_bytes(circuit: &Circuit, lanes: usize, bytes: Vec<u8>) -> Result<Self, GarbleError> {
                check_lanes(lanes)?;
                check_length($message, circuit.$length(lanes), bytes.len())?;
                Ok(Self(bytes))
            }

            /// The bytes to send.
            pub fn as_bytes(&self) -> &[u8] {
                &self.0
            }

            /// The bytes to send, without a copy.
            pub fn into_bytes(self) -> Vec<u8> {
                self.0
            }
        }
    };
}

message!(GarbledChunk, Message::Tables, table_bytes);
message!(ActiveLabels, Message::Labels, label_bytes);
message!(Reply, Message::Reply, reply_bytes);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::relu::{ReluForm, ReluShape, Rounding};

    #[test]
    fn every_message_is_refused_at_any_other_length() {
        let shape = ReluShape::new(32, 12, 32, Rounding::Floor, ReluForm::Projection).unwrap();
        let circuit = shape.circuit();
        for lanes in [1, 7, 64] {
            for wrong in [-1_isize, 1] {
                let length = |right: usize| vec![0; right.wrapping_add_signed(wrong)];
                let tables = GarbledChunk::from_bytes(&circuit, lanes, length(circuit.table_bytes(lanes)));
                let labels = ActiveLabels::from_bytes(&circuit, lanes, length(circuit.label_bytes(lanes)));
                let reply = Reply::from_bytes(&circuit, lanes, length(circuit.reply_bytes(lanes)));
                let refused = |error| matches!(error, GarbleError::MessageLength { .. });
                assert!(
                    refused(tables.unwrap_err())
                        && refused(labels.unwrap_err())
                        && refused(reply.unwrap_err())
                );
            }
            assert!(GarbledChunk::from_bytes(&circuit, lanes, vec![0; circuit.table_bytes(lanes)]).is_ok());
        }
        for lanes in [0, 65] {
            let refusal = GarbledChunk::from_bytes(&circuit, lanes, vec![0; circuit.table_bytes(lanes)]);
            assert_eq!(refusal, Err(GarbleError::Lanes { lanes }));
        }
    }
}
