//! Positions without ReLU: known-MSB truncation brings them to the scale of their neighbors for a few bytes.

mod client;
mod server;

use std::sync::Arc;

use crypto::garble::truncate::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
use crypto::ring::RingVector;
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::reference::bound::ReluRounding;

use super::{Part, PartBytes, PartCounts, PartMemory, WORD_BYTES, low_bits, relu};
use crate::InferenceError;
use crate::transcript::Kind;

/// Words each party keeps for a position; the client's are the top bit of its share, u_c, and what it already knows.
const WORDS: usize = 3;

/// Positions without ReLU.
#[derive(Debug)]
struct TruncatedPart {
    shape: TruncationShape,
    positions: Vec<u32>,
}

pub(super) fn plan(
    _: &ModelOutline,
    step: &ModelStep,
    _: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let ModelOperation::Activate { width, shift, mask, .. } = &step.operation else { return Ok(Vec::new()) };
    let positions = relu::positions(step.shape, mask, false);
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    // The value's own ring may be wider, for another reader. An output ring that would make the wrap vanish is widened,
    // and the result narrowed, which is free.
    let ring = ModelOperation::truncation_ring(*width);
    let output = step.ring_bits.max(ring - shift + 1);
    let shape = TruncationShape::new(ring, *shift, output)?;
    Ok(vec![Arc::new(TruncatedPart { shape, positions })])
}

impl TruncatedPart {
    fn count(&self) -> usize {
        self.positions.len()
    }

    fn hash_count(&self) -> u64 {
        TruncationShape::hash_count(self.count())
    }

    /// One party's share of the positions, in the truncation's ring.
    fn gather(&self, share: &RingVector) -> Secret<Vec<u64>> {
        let words = Secret::new(share.to_unsigned());
        let mask = low_bits(self.shape.width());
        Secret::new(self.positions.iter().map(|position| words.expose()[*position as usize] & mask).collect())
    }
}

impl Part for TruncatedPart {
    fn kind(&self) -> Kind {
        Kind::Truncation
    }

    fn counts(&self) -> PartCounts {
        PartCounts { relus: 0, linearized: self.count() }
    }

    fn bytes(&self) -> PartBytes {
        PartBytes {
            offer: TruncationOffer::length(&self.shape, self.count()),
            advance: 0,
            opening: TruncationOpening::length(&self.shape, self.count()),
            reply: TruncationReply::length(&self.shape, self.count(), false),
        }
    }

    fn transfer_count(&self) -> usize {
        self.count().next_multiple_of(8)
    }

    fn memory(&self) -> PartMemory {
        let words = self.count() * WORDS * WORD_BYTES;
        PartMemory { client_tables: 0, client_labels: 0, client_shares: words, server: words }
    }
}
