//! ReLUs that round by shares: a sign as a shared bit, and a value times it ([`crypto::garble::gates`]).

mod client;
mod server;

use std::ops::Range;
use std::sync::Arc;

use crypto::garble::gates::{AdvancedGates, GateShape, PreparedGates};
use crypto::ring::RingVector;
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::reference::bound::ReluRounding;

use super::{Part, PartBytes, PartCounts, PartMemory, WORD_BYTES, relu};
use crate::InferenceError;
use crate::transcript::Kind;

/// Signs that are worked on together: their words stay close to the processor.
const CHUNK: usize = 512;

/// ReLUs of one step.
#[derive(Debug)]
struct GatedPart {
    shape: GateShape,
    positions: Vec<u32>,
}

/// Without a ceiling, which a gate does not know.
pub(super) fn plan(
    _: &ModelOutline,
    step: &ModelStep,
    relus: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let ModelOperation::Activate { width, shift, ceiling: None, mask } = &step.operation else {
        return Ok(Vec::new());
    };
    let positions = relu::positions(step.shape, mask, true);
    if relus == ReluRounding::Nearest || positions.is_empty() {
        return Ok(Vec::new());
    }
    // A narrower output is what its neighbors read of a wider one.
    let output = step.ring_bits.max(width - shift + 1);
    let shape = GateShape::new(*width, *shift, output)?;
    Ok(vec![Arc::new(GatedPart { shape, positions })])
}

impl GatedPart {
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + Clone + use<> {
        let count = self.positions.len();
        (0..count).step_by(CHUNK).map(move |start| start..count.min(start + CHUNK))
    }

    /// One party's share of the positions.
    fn gather(&self, share: &RingVector) -> Secret<Vec<u64>> {
        let words = Secret::new(share.to_unsigned());
        Secret::new(self.positions.iter().map(|position| words.expose()[*position as usize]).collect())
    }

    fn sum(&self, length: impl Fn(&GateShape, usize) -> usize) -> usize {
        self.chunks().map(|range| length(&self.shape, range.len())).sum()
    }
}

impl Part for GatedPart {
    fn kind(&self) -> Kind {
        Kind::Gates
    }

    fn counts(&self) -> PartCounts {
        PartCounts { relus: self.positions.len(), linearized: 0 }
    }

    fn bytes(&self) -> PartBytes {
        PartBytes {
            offer: self.sum(GateShape::offer_bytes),
            advance: self.sum(GateShape::advance_bytes),
            opening: self.sum(GateShape::opening_bytes),
            reply: self.sum(GateShape::reply_bytes),
        }
    }

    fn transfer_count(&self) -> usize {
        self.sum(|shape, signs| shape.transfers_per_sign() * signs.next_multiple_of(8))
    }

    fn reverse_count(&self) -> usize {
        self.sum(|_, signs| signs.next_multiple_of(8))
    }

    /// Every section is held as words.
    fn memory(&self) -> PartMemory {
        let signs = self.positions.len();
        let levels = self.shape.compared_bits() as usize - 1;
        let client = (2 * levels + PreparedGates::WORDS) * signs * WORD_BYTES;
        let server = (3 * levels + AdvancedGates::WORDS) * signs * WORD_BYTES;
        PartMemory { client_tables: 0, client_labels: 0, client_shares: client, server }
    }
}
