//! ReLUs that round by shares, and values that share signs: a sign as a shared bit, and values times it
//! ([`crypto::garble::gates`]).

mod client;
mod server;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crypto::garble::gates::{AdvancedGates, GateShape, PreparedGates};
use crypto::ring::RingVector;
use crypto::secret::Secret;
use network::inference_model::{Gate, ModelOperation, ModelOutline, ModelStep};
use network::reference::bound::ReluRounding;

use super::{Part, PartBytes, PartCounts, PartMemory, WORD_BYTES, relu};
use crate::InferenceError;
use crate::transcript::Kind;

/// Signs that are worked on together: their words stay close to the processor.
const CHUNK: usize = 512;

/// Signs of one step that decide over equally many values.
#[derive(Debug)]
struct GatedPart {
    shape: GateShape,
    signs: usize,
    /// Of the values, chunk by chunk: the compared value of each sign, then the second value of each, and so on.
    positions: Vec<u32>,
    /// In that order, two's complement; empty where there are none.
    slopes: Vec<u64>,
}

pub(super) fn plan(
    _: &ModelOutline,
    step: &ModelStep,
    relus: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    match &step.operation {
        // Without a ceiling, which a gate does not know.
        ModelOperation::Activate { width, shift, ceiling: None, mask } => {
            let positions = relu::positions(step.shape, mask, true);
            if relus == ReluRounding::Nearest || positions.is_empty() {
                return Ok(Vec::new());
            }
            // A narrower output is what its neighbors read of a wider one.
            let output = step.ring_bits.max(width - shift + 1);
            let shape = GateShape::new(*width, *shift, output)?;
            Ok(vec![Arc::new(GatedPart { shape, signs: positions.len(), positions, slopes: Vec::new() })])
        }
        ModelOperation::Gate(gate) => plan_shared(step, gate),
        _ => Ok(Vec::new()),
    }
}

/// One part for every size of groups.
fn plan_shared(step: &ModelStep, gate: &Gate) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let output = step.ring_bits.max(gate.ring() - gate.shift + 1);
    let mut shape = GateShape::new(gate.width, gate.shift, output)?;
    if !gate.slopes.is_empty() {
        shape = shape.with_slopes(gate.slope_bits)?;
    }
    let mut parts: Vec<Arc<dyn Part>> = Vec::new();
    let sizes: BTreeSet<usize> = gate.groups.iter().map(Vec::len).collect();
    for size in sizes {
        let signs = kept_signs(step, gate, size);
        if !signs.is_empty() {
            parts.push(Arc::new(GatedPart::shared(shape.with_values_per_sign(size)?, step, gate, &signs)));
        }
    }
    Ok(parts)
}

/// The signs of groups of a size that are computed: group and pixel.
fn kept_signs(step: &ModelStep, gate: &Gate, size: usize) -> Vec<(usize, usize)> {
    let of_size = gate.groups.iter().enumerate().filter(|(_, group)| group.len() == size);
    let pixels = step.shape.pixels() as usize;
    let places = of_size.flat_map(|(sign, _)| (0..pixels).map(move |pixel| (sign, pixel)));
    places.filter(|(sign, pixel)| gate.keeps(step.shape, *sign, *pixel)).collect()
}

impl GatedPart {
    fn shared(shape: GateShape, step: &ModelStep, gate: &Gate, signs: &[(usize, usize)]) -> Self {
        let pixels = step.shape.pixels() as usize;
        let (mut positions, mut slopes) = (Vec::new(), Vec::new());
        for chunk in signs.chunks(CHUNK) {
            for number in 0..shape.values_per_sign() {
                for (sign, pixel) in chunk {
                    let channel = gate.groups[*sign][number];
                    positions.push((channel * pixels + pixel) as u32);
                    slopes.extend(gate.slopes.get(channel).map(|slope| i64::from(*slope) as u64));
                }
            }
        }
        Self { shape, signs: signs.len(), positions, slopes }
    }

    /// Ranges of signs.
    fn chunks(&self) -> impl Iterator<Item = Range<usize>> + Clone + use<> {
        let count = self.signs;
        (0..count).step_by(CHUNK).map(move |start| start..count.min(start + CHUNK))
    }

    /// Where the values of a chunk stand among the positions.
    fn values_of(&self, signs: &Range<usize>) -> Range<usize> {
        let each = self.shape.values_per_sign();
        signs.start * each..signs.end * each
    }

    /// The slopes of a chunk.
    fn slopes_of(&self, signs: &Range<usize>) -> &[u64] {
        if self.slopes.is_empty() { &[] } else { &self.slopes[self.values_of(signs)] }
    }

    /// One party's share of the positions.
    fn gather(&self, share: &RingVector) -> Secret<Vec<u64>> {
        Secret::new(share.at(&self.positions))
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
        PartCounts { relus: self.signs, gated: self.positions.len() - self.signs, linearized: 0 }
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
        let levels = self.shape.compared_bits() as usize - 1;
        let words = |of_sign: usize, of_value: usize| {
            (of_sign * self.signs + of_value * self.positions.len()) * WORD_BYTES
        };
        let client = words(2 * levels + PreparedGates::SIGN_WORDS, PreparedGates::VALUE_WORDS);
        let server = words(3 * levels + AdvancedGates::SIGN_WORDS, AdvancedGates::VALUE_WORDS);
        PartMemory { client_tables: 0, client_labels: 0, client_shares: client, server }
    }
}
