//! The choice of tiles and of how many channels share a ciphertext.

use super::axis::{Axis, Storage};
use super::{ConvolutionShape, LinearShape};
use crate::he::error::HeError;
use crate::he::kernel::MAX_TERMS;

/// How a layer is cut into ciphertexts of a given number of coefficients. A function of the shape alone.
#[derive(Clone, Debug)]
pub(in crate::he) struct PackingPlan {
    pub(super) shape: ConvolutionShape,
    pub(super) axes: [Axis; 2],
    pub(super) storage: [Storage; 2],
    /// Planes in one input ciphertext.
    pub(super) planes: usize,
    /// Output channels in one output ciphertext.
    pub(super) outputs: usize,
}

/// Numbers of rows tried for each number of columns, from the first that fits on.
const TILINGS_TRIED: usize = 4;

impl PackingPlan {
    /// The cheapest packing.
    pub(in crate::he) fn choose(
        shape: &LinearShape,
        degree: usize,
        bits: &ExpectedBits,
    ) -> Result<Self, HeError> {
        let shape = shape.checked()?;
        let axes = [0, 1].map(|axis| Axis::new(&shape, axis));
        let mut best: Option<(u64, [Storage; 2], usize, usize)> = None;
        for columns in tile_sizes(axes[1].outputs) {
            let fits = |rows| {
                let storage = [axes[0].storage(rows), axes[1].storage(columns)];
                let slots = slots(&storage, degree);
                (slots > 0).then_some((storage, slots))
            };
            for (storage, slots) in tile_sizes(axes[0].outputs).filter_map(fits).take(TILINGS_TRIED) {
                for (planes, outputs) in splits(slots, &shape, &axes) {
                    let cost = bits.cost(&shape, &axes, &storage, (planes, outputs), degree);
                    if cost < best.map_or(u64::MAX, |(least, ..)| least) {
                        best = Some((cost, storage, planes, outputs));
                    }
                }
            }
        }
        let (_, storage, planes, outputs) = best.ok_or(HeError::LayerTooLarge { degree })?;
        Ok(Self { shape, axes, storage, planes, outputs })
    }

    /// Weights that meet in one coefficient: those of all output channels that share a weight polynomial.
    pub(in crate::he) fn taps(&self) -> usize {
        let [height, width] = self.shape.filter_size;
        self.outputs * self.shape.group_inputs() * height * width
    }

    pub(super) fn phases(&self) -> usize {
        self.axes[0].phases.len() * self.axes[1].phases.len()
    }

    pub(super) fn tiles(&self) -> usize {
        self.storage[0].tiles * self.storage[1].tiles
    }

    pub(in crate::he) fn input_ciphertexts(&self) -> usize {
        self.tiles() * self.inputs_per_tile()
    }

    pub(in crate::he) fn output_ciphertexts(&self) -> usize {
        self.tiles() * self.outputs_per_tile()
    }

    pub(super) fn inputs_per_tile(&self) -> usize {
        all_planes(&self.shape, &self.axes).div_ceil(self.planes)
    }

    pub(super) fn outputs_per_tile(&self) -> usize {
        self.shape.output_channels.div_ceil(self.outputs)
    }

    pub(super) fn row_stride(&self) -> usize {
        row_stride(&self.storage)
    }

    pub(super) fn plane_stride(&self) -> usize {
        plane_stride(&self.storage)
    }
}

/// How many inferences share the second halves of answers, for whoever weighs them against what each inference sends. With
/// 3 a session of one inference takes a tenth more than it could, one of ten a quarter less than it would with 1.
pub(in crate::he) const SESSION_INFERENCES: u64 = 3;

/// The widths that a packing may count on. The true ones are chosen later, from the packing, and differ little.
#[derive(Clone, Copy, Debug)]
pub(in crate::he) struct ExpectedBits {
    input: u64,
    uniform: u64,
    value: u64,
}

impl ExpectedBits {
    /// Those of shares that keep so many bits, for weights up to a bound: a request and both halves of an answer need some
    /// more, because their errors are multiplied by weights, by a key, by nothing.
    pub(in crate::he) fn new(kept_bits: u32, weight_bound: u32) -> Self {
        let kept = u64::from(kept_bits);
        Self {
            input: kept + u64::from(weight_bound.ilog2()) + 8,
            uniform: (kept + 10) / SESSION_INFERENCES,
            value: kept + 4,
        }
    }

    /// All bits in both directions, second halves divided among the inferences of a session.
    fn cost(
        &self,
        shape: &ConvolutionShape,
        axes: &[Axis; 2],
        storage: &[Storage; 2],
        (planes, outputs): (usize, usize),
        degree: usize,
    ) -> u64 {
        let inputs_per_tile = all_planes(shape, axes).div_ceil(planes);
        if inputs_per_tile > MAX_TERMS {
            return u64::MAX;
        }
        let tiles = storage[0].tiles * storage[1].tiles;
        let values: usize = shape.output_channels * shape.output_size().iter().product::<usize>();
        let up = (tiles * inputs_per_tile * degree) as u64 * self.input;
        let answers = (tiles * shape.output_channels.div_ceil(outputs) * degree) as u64;
        up + answers * self.uniform + values as u64 * self.value
    }
}

fn all_planes(shape: &ConvolutionShape, axes: &[Axis; 2]) -> usize {
    shape.input_channels * axes[0].phases.len() * axes[1].phases.len()
}

/// Tile lengths along an axis, from the whole axis down.
fn tile_sizes(outputs: usize) -> impl Iterator<Item = usize> {
    let mut previous = 0;
    (1..=outputs).map(move |tiles| outputs.div_ceil(tiles)).filter(move |&size| {
        let is_new = size != previous;
        previous = size;
        is_new
    })
}

fn row_stride(storage: &[Storage; 2]) -> usize {
    storage[1].extent + storage[1].gap
}

fn plane_stride(storage: &[Storage; 2]) -> usize {
    (storage[0].extent + storage[0].gap) * row_stride(storage)
}

/// How many planes times output channels fit one polynomial: the largest k such that neither the answers nor any
/// product of a stored value with a weight that belongs to another place wraps around onto something non-zero.
fn slots(storage: &[Storage; 2], degree: usize) -> usize {
    let (row, plane) = (row_stride(storage), plane_stride(storage));
    let [vertical, horizontal] = storage;
    let stored = (vertical.extent - 1) * row + horizontal.extent;
    let before = vertical.before * row + horizontal.before;
    let after = vertical.after * row + horizontal.after;
    let answers = (vertical.outputs - 1) * row + horizontal.outputs;
    let last = (stored + before.max(after)).max(answers);
    degree.checked_sub(last).map_or(0, |rest| rest / plane + 1)
}

/// The sensible ways to divide the slots between planes and output channels.
fn splits(slots: usize, shape: &ConvolutionShape, axes: &[Axis; 2]) -> Vec<(usize, usize)> {
    let all_planes = all_planes(shape, axes);
    let mut splits = Vec::new();
    let mut previous = 0;
    for planes in 1..=slots.min(all_planes) {
        // The same number of ciphertexts with fewer planes in each leaves more room for outputs.
        let ciphertexts = all_planes.div_ceil(planes);
        if ciphertexts == previous {
            continue;
        }
        previous = ciphertexts;
        splits.push((planes, (slots / planes).min(shape.output_channels)));
    }
    splits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(shape: LinearShape, degree: usize) -> Result<PackingPlan, HeError> {
        PackingPlan::choose(&shape, degree, &ExpectedBits::new(16, 127))
    }

    fn plan(shape: ConvolutionShape) -> PackingPlan {
        choose(LinearShape::Convolution(shape), 4096).unwrap()
    }

    #[test]
    fn the_layers_of_resnet_take_few_products() {
        for (channels, size, most) in [(64, 32, 1408), (128, 16, 1376), (256, 8, 1376), (512, 4, 1664)] {
            let plan = plan(ConvolutionShape::same(channels, channels, size, 3));
            let products = plan.inputs_per_tile() * plan.outputs_per_tile() * plan.tiles();
            assert!(products <= most, "{channels}: {products}");
            assert_eq!(plan.tiles(), 1);
        }
    }

    #[test]
    fn a_large_picture_is_tiled() {
        let plan = plan(ConvolutionShape {
            stride: [2; 2],
            padding: [3; 2],
            ..ConvolutionShape::same(3, 64, 224, 7)
        });
        assert!(plan.tiles() > 1 && plan.planes >= 1);
    }

    #[test]
    fn a_matrix_uses_every_coefficient() {
        let plan = choose(LinearShape::FullyConnected { inputs: 512, outputs: 100 }, 4096).unwrap();
        assert!(plan.planes * plan.outputs <= 4096 && plan.planes * plan.outputs > 3000);
    }

    #[test]
    fn a_filter_that_needs_more_than_a_polynomial_is_refused() {
        let shape = ConvolutionShape { padding: [0; 2], ..ConvolutionShape::same(1, 1, 100, 99) };
        for degree in [2048, 4096] {
            let error = choose(LinearShape::Convolution(shape), degree).unwrap_err();
            assert_eq!(error, HeError::LayerTooLarge { degree });
        }
    }
}
