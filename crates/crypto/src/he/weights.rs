//! The server's weights as values of polynomials, kept or made again for each answer.

use super::error::HeError;
use super::kernel::{AlignedWords, LANES};
use super::packing::Layout;
use super::parameters::HeParameters;
use crate::secret::Secret;

/// How much memory the weights of a layer may take as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightStorage {
    /// All of them: the fastest answers.
    Everything,
    /// As many blocks as fit this many bytes; the others are transformed for each answer.
    AtMost(usize),
}

/// The weights of one layer. Known to the server only.
pub struct PreparedWeights {
    layout: Layout,
    weights: Secret<Vec<i16>>,
    /// The first blocks, transformed. Tiles share them.
    blocks: Vec<BlockWeights>,
}

/// Memory for blocks that are made again for each answer; one for each thread saves allocations.
#[derive(Default)]
pub struct WeightScratch {
    weights: BlockWeights,
    /// The polynomials of one term.
    polynomials: Vec<Secret<AlignedWords>>,
}

/// The weight polynomials of one block, as values: for each prime `[lane block][term][output][8]`.
#[derive(Default)]
pub(super) struct BlockWeights {
    pub(super) limbs: Vec<Secret<AlignedWords>>,
}

impl PreparedWeights {
    /// Checks the weights against the outline's bound and transforms as many as the storage allows.
    ///
    /// # Errors
    /// On a wrong number of weights, or one beyond the declared bound.
    pub fn new(layout: &Layout, weights: &[i16], storage: WeightStorage) -> Result<Self, HeError> {
        let (expected, got) = (layout.shape().weights(), weights.len());
        if expected != got {
            return Err(HeError::Count { what: "weights of a layer", expected, got });
        }
        let bound = layout.parameters().weight_bound();
        if weights.iter().any(|weight| u32::from(weight.unsigned_abs()) > bound) {
            return Err(HeError::WeightRange { bound });
        }
        let mut prepared =
            Self { layout: layout.clone(), weights: Secret::new(weights.to_vec()), blocks: Vec::new() };
        let mut room = match storage {
            WeightStorage::Everything => usize::MAX,
            WeightStorage::AtMost(bytes) => bytes,
        };
        for block in 0..layout.blocks_per_tile() {
            let Some(left) = room.checked_sub(Self::block_bytes(layout, block)) else { break };
            room = left;
            prepared.blocks.push(prepared.transform_block(block));
        }
        Ok(prepared)
    }

    /// Memory that all weights of a layer take as values.
    pub fn bytes(layout: &Layout) -> usize {
        (0..layout.blocks_per_tile()).map(|block| Self::block_bytes(layout, block)).sum()
    }

    /// Memory that those take which are kept.
    pub fn kept_bytes(&self) -> usize {
        (0..self.blocks.len()).map(|block| Self::block_bytes(&self.layout, block)).sum()
    }

    /// The layout they were prepared for.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Whether this block is kept, or made again for each answer.
    pub(super) fn kept_block(&self, block: usize) -> Option<&BlockWeights> {
        self.blocks.get(block)
    }

    fn block_bytes(layout: &Layout, block: usize) -> usize {
        let polynomials = layout.block_outputs(block).len() * layout.block_inputs(block).len();
        polynomials * layout.parameters().degree() * layout.parameters().tables().len() * 8
    }

    fn transform_block(&self, block: usize) -> BlockWeights {
        let mut scratch = WeightScratch::default();
        self.transform_into(block, &mut scratch);
        BlockWeights { limbs: scratch.weights.limbs }
    }

    /// The weight polynomials of a block; the flow of control depends on the layout alone.
    pub(super) fn transform_into<'a>(
        &self,
        block: usize,
        scratch: &'a mut WeightScratch,
    ) -> &'a BlockWeights {
        let parameters = self.layout.parameters();
        let (outputs, inputs) = (self.layout.block_outputs(block), self.layout.block_inputs(block));
        let row = inputs.len() * outputs.len();
        scratch.fit(parameters, row, outputs.len());
        for (term, input) in inputs.enumerate() {
            let places: Vec<_> =
                outputs.clone().map(|output| self.layout.weight_places(output, input)).collect();
            for (table, limb) in parameters.tables().iter().zip(&mut scratch.weights.limbs) {
                for (values, places) in scratch.polynomials.iter_mut().zip(&places) {
                    let values = values.expose_mut();
                    values.fill(0);
                    for place in places {
                        let weight = i64::from(self.weights.expose()[place.weight]);
                        let signed = if place.is_negated { -weight } else { weight };
                        values[place.coefficient] = table.modulus().lift(signed);
                    }
                    parameters.kernels().forward(table, values);
                }
                let polynomials: Vec<_> = scratch.polynomials.iter().map(|values| values.expose()).collect();
                interleave(limb.expose_mut(), &polynomials, row, term * outputs.len());
            }
        }
        &scratch.weights
    }
}

impl WeightScratch {
    /// Makes room for rows of this many lanes and for this many polynomials. What is left of an earlier block will be
    /// overwritten in full.
    fn fit(&mut self, parameters: &HeParameters, row: usize, polynomials: usize) {
        let words = row * parameters.degree();
        let is_fitting = |limb: &Secret<AlignedWords>| limb.expose().len() == words;
        if self.weights.limbs.len() != parameters.tables().len() || !self.weights.limbs.iter().all(is_fitting)
        {
            let zeros = || Secret::new(AlignedWords::zeros(words));
            self.weights.limbs = parameters.tables().iter().map(|_| zeros()).collect();
        }
        let zeros = || Secret::new(AlignedWords::zeros(parameters.degree()));
        self.polynomials.truncate(polynomials);
        self.polynomials.resize_with(polynomials, zeros);
        if self.polynomials.iter().any(|values| values.expose().len() != parameters.degree()) {
            self.polynomials.fill_with(zeros);
        }
    }
}

/// Writes the lanes of polynomials side by side, from one column on, into rows that are `row` lanes long.
pub(super) fn interleave(target: &mut [u64], polynomials: &[&AlignedWords], row: usize, column: usize) {
    for (block, target) in target.chunks_exact_mut(row * LANES).enumerate() {
        for (lanes, polynomial) in target[column * LANES..].chunks_exact_mut(LANES).zip(polynomials) {
            lanes.copy_from_slice(&polynomial[block * LANES..][..LANES]);
        }
    }
}
