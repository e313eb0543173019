//! Positions without ReLU: known-MSB truncation brings them to the scale of their neighbors for a few bytes.

mod client;
mod server;

use std::sync::Arc;

use crypto::garble::truncate::{TruncationOffer, TruncationOpening, TruncationReply, TruncationShape};
use crypto::ring::RingVector;
use crypto::secret::Secret;
use network::inference_model::{Gate, ModelOperation, ModelOutline, ModelStep};
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
    /// What each is multiplied by, two's complement; empty where that is one.
    factors: Vec<u64>,
}

pub(super) fn plan(
    _: &ModelOutline,
    step: &ModelStep,
    _: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let (width, shift, positions, factors) = match &step.operation {
        ModelOperation::Activate { width, shift, mask, .. } => {
            (*width, *shift, relu::positions(step.shape, mask, false), Vec::new())
        }
        ModelOperation::Gate(gate) => {
            let (positions, factors) = without_sign(step, gate);
            (gate.width, gate.shift, positions, factors)
        }
        _ => return Ok(Vec::new()),
    };
    if positions.is_empty() {
        return Ok(Vec::new());
    }
    // The value's own ring may be wider, for another reader. An output ring that would make the wrap vanish is widened,
    // and the result narrowed, which is free.
    let ring = ModelOperation::truncation_ring(width);
    let output = step.ring_bits.max(ring - shift + 1);
    let shape = TruncationShape::new(ring, shift, output)?;
    Ok(vec![Arc::new(TruncatedPart { shape, positions, factors })])
}

/// Values whose sign is not computed, and with slopes what they are multiplied by.
fn without_sign(step: &ModelStep, gate: &Gate) -> (Vec<u32>, Vec<u64>) {
    let pixels = step.shape.pixels() as usize;
    let (mut positions, mut factors) = (Vec::new(), Vec::new());
    for (sign, group) in gate.groups.iter().enumerate() {
        for pixel in (0..pixels).filter(|pixel| !gate.keeps(step.shape, sign, *pixel)) {
            for channel in group {
                positions.push((channel * pixels + pixel) as u32);
                let factor = gate.factor(*channel, true) as u64;
                factors.extend((!gate.slopes.is_empty()).then_some(factor));
            }
        }
    }
    (positions, factors)
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
        let mask = low_bits(self.shape.width());
        let mut words = Secret::new(share.at(&self.positions));
        words.expose_mut().iter_mut().for_each(|word| *word &= mask);
        words
    }
}

impl Part for TruncatedPart {
    fn kind(&self) -> Kind {
        Kind::Truncation
    }

    fn counts(&self) -> PartCounts {
        PartCounts { linearized: self.count(), ..PartCounts::default() }
    }

    fn bytes(&self) -> PartBytes {
        PartBytes {
            offer: TruncationOffer::length(&self.shape, self.count()),
            advance: 0,
            opening: TruncationOpening::length(&self.shape, self.count()),
            reply: TruncationReply::length(&self.shape, self.count()),
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
