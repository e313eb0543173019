//! The map between a layer's values and the coefficients of its ciphertexts.

use std::ops::Range;

use super::{LinearShape, PackingPlan};
use crate::he::error::HeError;
use crate::he::kernel::OUTPUTS_PER_BLOCK;
use crate::he::parameters::HeParameters;

/// Where every value of a layer sits, for given parameters. Both parties derive it for themselves.
#[derive(Clone, Debug)]
pub struct Layout {
    parameters: HeParameters,
    shape: LinearShape,
    plan: PackingPlan,
}

/// A weight's place in the layer and in a weight polynomial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::he) struct WeightPlace {
    /// Index among the layer's weights.
    pub(in crate::he) weight: usize,
    /// Coefficient of the polynomial.
    pub(in crate::he) coefficient: usize,
    /// Whether the place lies below zero, so that x^n = -1 turns the sign.
    pub(in crate::he) is_negated: bool,
}

impl Layout {
    /// The layout of a layer that the parameters' outline announced.
    ///
    /// # Errors
    /// When the shape does not fit together, does not fit the ciphertexts, or exceeds the outline.
    pub fn new(parameters: &HeParameters, shape: &LinearShape) -> Result<Self, HeError> {
        let plan = PackingPlan::choose(shape, parameters.degree(), &parameters.expected_bits())?;
        parameters.admit(plan.taps() as u64)?;
        Ok(Self { parameters: parameters.clone(), shape: *shape, plan })
    }

    /// The parameters it was made for.
    pub fn parameters(&self) -> &HeParameters {
        &self.parameters
    }

    /// The layer's shape.
    pub fn shape(&self) -> &LinearShape {
        &self.shape
    }

    /// Independent parts of the layer; each has its own ciphertexts.
    pub fn tiles(&self) -> usize {
        self.plan.tiles()
    }

    /// Ciphertexts that the client sends.
    pub fn input_ciphertexts(&self) -> usize {
        self.plan.input_ciphertexts()
    }

    /// Ciphertexts that the server answers with.
    pub fn output_ciphertexts(&self) -> usize {
        self.plan.output_ciphertexts()
    }

    /// Products of a ciphertext and a weight polynomial that the server makes.
    pub fn products(&self) -> usize {
        let per_tile: usize = (0..self.blocks_per_tile())
            .map(|block| self.block_outputs(block).len() * self.block_inputs(block).len())
            .sum();
        self.tiles() * per_tile
    }

    /// Units of the server's work; a block is up to four output ciphertexts of one tile.
    pub fn blocks(&self) -> usize {
        self.tiles() * self.blocks_per_tile()
    }

    /// The blocks of one tile; they share its [`super::super::TileInputs`].
    pub fn tile_blocks(&self, tile: usize) -> Range<usize> {
        tile * self.blocks_per_tile()..(tile + 1) * self.blocks_per_tile()
    }

    /// Puts the values of one output ciphertext to their places among the layer's outputs.
    pub fn scatter(&self, ciphertext: usize, values: &[u64], outputs: &mut [u64]) {
        for ((_, target), value) in self.output_places(ciphertext).zip(values) {
            outputs[target] = *value;
        }
    }

    /// Numbers that change whenever weights or values get other places: how many of them share a ciphertext, the distances of
    /// rows and planes, and for the first and the last polynomial of a tile each weight's number and place.
    pub fn places(&self) -> Vec<u64> {
        let plan = &self.plan;
        let [rows, columns] = &plan.storage;
        let frame =
            [plan.planes, plan.outputs, plan.row_stride(), plan.plane_stride(), rows.tiles, columns.tiles];
        let mut numbers = frame.map(|number| number as u64).to_vec();
        for (output, input) in [(0, 0), (self.outputs_per_tile() - 1, self.inputs_per_tile() - 1)] {
            let places = self.weight_places(output, input);
            numbers.push(places.len() as u64);
            numbers.extend(places.iter().map(|place| {
                (place.weight as u64) << 32 | (place.coefficient as u64) << 1 | u64::from(place.is_negated)
            }));
        }
        numbers
    }

    pub(in crate::he) fn inputs_per_tile(&self) -> usize {
        self.plan.inputs_per_tile()
    }

    pub(in crate::he) fn outputs_per_tile(&self) -> usize {
        self.plan.outputs_per_tile()
    }

    pub(in crate::he) fn blocks_per_tile(&self) -> usize {
        self.outputs_per_tile().div_ceil(OUTPUTS_PER_BLOCK)
    }

    /// Output ciphertexts of a tile that a block computes.
    pub(in crate::he) fn block_outputs(&self, block: usize) -> Range<usize> {
        let start = block * OUTPUTS_PER_BLOCK;
        start..(start + OUTPUTS_PER_BLOCK).min(self.outputs_per_tile())
    }

    /// Input ciphertexts of a tile that a block reads: those of the groups that its outputs belong to.
    pub(in crate::he) fn block_inputs(&self, block: usize) -> Range<usize> {
        let shape = &self.plan.shape;
        let outputs = self.block_outputs(block);
        let last_channel = (outputs.end * self.plan.outputs).min(shape.output_channels) - 1;
        let first_group = shape.output_group(outputs.start * self.plan.outputs);
        let last_group = shape.output_group(last_channel);
        let planes_per_group = shape.group_inputs() * self.plan.phases();
        let first = first_group * planes_per_group / self.plan.planes;
        first..((last_group + 1) * planes_per_group).div_ceil(self.plan.planes)
    }

    /// For each coefficient of an input ciphertext that holds a value: the coefficient and the value's index.
    pub(in crate::he) fn input_places(&self, ciphertext: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let plan = &self.plan;
        let (tile, index) = (ciphertext / self.inputs_per_tile(), ciphertext % self.inputs_per_tile());
        let tile = [tile / plan.storage[1].tiles, tile % plan.storage[1].tiles];
        let [height, width] = plan.shape.input_size;
        let planes =
            index * plan.planes..((index + 1) * plan.planes).min(plan.shape.input_channels * plan.phases());
        planes.enumerate().flat_map(move |(slot, plane)| {
            let (channel, phases) = self.plane_phases(plane);
            (0..plan.storage[0].extent).flat_map(move |row| {
                let source_row = plan.axes[0].source(&plan.storage[0], tile[0], phases[0], row);
                let start = slot * plan.plane_stride() + row * plan.row_stride();
                let columns = source_row.map_or(0, |_| plan.storage[1].extent);
                let base = (channel * height + source_row.unwrap_or(0)) * width;
                (0..columns).filter_map(move |column| {
                    let source = plan.axes[1].source(&plan.storage[1], tile[1], phases[1], column)?;
                    Some((start + column, base + source))
                })
            })
        })
    }

    /// For each useful coefficient of an output ciphertext, in the order they are sent: the coefficient and the
    /// value's index.
    pub(in crate::he) fn output_places(
        &self,
        ciphertext: usize,
    ) -> impl Iterator<Item = (usize, usize)> + '_ {
        let plan = &self.plan;
        let (tile, index) = (ciphertext / self.outputs_per_tile(), ciphertext % self.outputs_per_tile());
        let [height, width] = plan.shape.output_size();
        let rows = tile_range(tile / plan.storage[1].tiles, plan.storage[0].outputs, height);
        let columns = tile_range(tile % plan.storage[1].tiles, plan.storage[1].outputs, width);
        let channels = index * plan.outputs..((index + 1) * plan.outputs).min(plan.shape.output_channels);
        channels.enumerate().flat_map(move |(slot, channel)| {
            let (rows, columns) = (rows.clone(), columns.clone());
            rows.enumerate().flat_map(move |(inner_row, row)| {
                let start = self.answer_start(slot) + inner_row * plan.row_stride();
                let base = (channel * height + row) * width;
                columns.clone().enumerate().map(move |(inner, column)| (start + inner, base + column))
            })
        })
    }

    /// How many useful coefficients an output ciphertext has.
    pub(in crate::he) fn output_count(&self, ciphertext: usize) -> usize {
        let plan = &self.plan;
        let (tile, index) = (ciphertext / self.outputs_per_tile(), ciphertext % self.outputs_per_tile());
        let [height, width] = plan.shape.output_size();
        let rows = tile_range(tile / plan.storage[1].tiles, plan.storage[0].outputs, height);
        let columns = tile_range(tile % plan.storage[1].tiles, plan.storage[1].outputs, width);
        let channels = plan.outputs.min(plan.shape.output_channels - index * plan.outputs);
        channels * rows.len() * columns.len()
    }

    /// The weights of the polynomial that turns an input ciphertext of a tile into part of an output ciphertext.
    pub(in crate::he) fn weight_places(&self, output: usize, input: usize) -> Vec<WeightPlace> {
        let plan = &self.plan;
        let shape = &plan.shape;
        let all_planes = shape.input_channels * plan.phases();
        let mut places = Vec::new();
        for slot in 0..plan.outputs.min(shape.output_channels - output * plan.outputs) {
            let output_channel = output * plan.outputs + slot;
            let group = shape.output_group(output_channel);
            for inner in 0..plan.planes.min(all_planes - input * plan.planes) {
                let (channel, phases) = self.plane_phases(input * plan.planes + inner);
                if shape.input_group(channel) != group {
                    continue;
                }
                let within = output_channel * shape.group_inputs() + channel % shape.group_inputs();
                let start = (self.answer_start(slot) - inner * plan.plane_stride()) as isize;
                self.push_filter(&mut places, within, phases, start);
            }
        }
        places
    }

    /// The taps of one filter that read the given phases.
    fn push_filter(&self, places: &mut Vec<WeightPlace>, filter: usize, phases: [usize; 2], start: isize) {
        let plan = &self.plan;
        let [height, width] = plan.shape.filter_size;
        for (row, vertical) in plan.axes[0].taps.iter().enumerate().filter(|(_, tap)| tap.phase == phases[0])
        {
            let down = (vertical.offset - plan.storage[0].shift) * plan.row_stride() as isize;
            for (column, across) in
                plan.axes[1].taps.iter().enumerate().filter(|(_, tap)| tap.phase == phases[1])
            {
                let place = start - down - (across.offset - plan.storage[1].shift);
                places.push(WeightPlace {
                    weight: (filter * height + row) * width + column,
                    // The degree is a power of two, so this is the remainder, of negative places too.
                    coefficient: place as usize & (self.parameters.degree() - 1),
                    is_negated: place < 0,
                });
            }
        }
    }

    /// The coefficient of the first answer of an output channel.
    fn answer_start(&self, slot: usize) -> usize {
        ((slot + 1) * self.plan.planes - 1) * self.plan.plane_stride()
    }

    /// The channel of a plane, and its phase along both axes.
    fn plane_phases(&self, plane: usize) -> (usize, [usize; 2]) {
        let [vertical, horizontal] = &self.plan.axes;
        let (channel, phase) = (plane / self.plan.phases(), plane % self.plan.phases());
        let across = horizontal.phases.len();
        (channel, [vertical.phases[phase / across], horizontal.phases[phase % across]])
    }
}

fn tile_range(tile: usize, size: usize, outputs: usize) -> Range<usize> {
    tile * size..((tile + 1) * size).min(outputs)
}

#[cfg(test)]
mod tests {
    use super::super::ConvolutionShape;
    use super::*;
    use crate::he::ideal;
    use crate::he::parameters::{HeOutline, WeightBits};
    use crate::random::{Generator, Seed};

    /// Products of plain polynomials modulo x^n + 1 at the useful coefficients, without any encryption.
    fn multiply_packed(layout: &Layout, weights: &[i16], input: &[u64]) -> Vec<u64> {
        let degree = layout.parameters().degree();
        let mut output = vec![0_u64; layout.shape().output_values()];
        for ciphertext in 0..layout.output_ciphertexts() {
            let (tile, index) =
                (ciphertext / layout.outputs_per_tile(), ciphertext % layout.outputs_per_tile());
            let mut product = vec![0_u64; degree];
            for inner in layout.block_inputs(index / OUTPUTS_PER_BLOCK) {
                let places: Vec<_> = layout.input_places(tile * layout.inputs_per_tile() + inner).collect();
                for weight in layout.weight_places(index, inner) {
                    let value = weights[weight.weight] as u64;
                    let value = if weight.is_negated { value.wrapping_neg() } else { value };
                    for &(place, source) in &places {
                        let target = place + weight.coefficient;
                        let term = value.wrapping_mul(input[source]);
                        let term = if target >= degree { term.wrapping_neg() } else { term };
                        product[target % degree] = product[target % degree].wrapping_add(term);
                    }
                }
            }
            assert_eq!(layout.output_places(ciphertext).count(), layout.output_count(ciphertext));
            for (place, target) in layout.output_places(ciphertext) {
                output[target] = product[place];
            }
        }
        output
    }

    fn check(shape: LinearShape, generator: &mut Generator) {
        let outline = HeOutline::from_layers(32, WeightBits::Eight, vec![shape]);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let weights: Vec<_> =
            (0..shape.weights()).map(|_| (generator.next_u64() % 255) as i16 - 127).collect();
        let input: Vec<_> = (0..shape.input_values()).map(|_| generator.next_u64()).collect();
        let expected = ideal::apply(&shape, 64, &weights, &input).unwrap();
        assert_eq!(multiply_packed(&layout, &weights, &input), expected, "{shape:?}");
    }

    #[test]
    fn packed_products_are_the_layer() {
        let mut generator = Seed::from_bytes([6; 32]).generator();
        let same = ConvolutionShape::same;
        let shapes = [
            same(5, 4, 9, 3),
            same(7, 5, 8, 1),
            same(3, 4, 11, 5),
            ConvolutionShape { stride: [2; 2], ..same(5, 3, 9, 3) },
            ConvolutionShape { stride: [2; 2], ..same(5, 3, 8, 1) },
            ConvolutionShape { stride: [3, 2], padding: [0, 3], dilation: [2, 1], ..same(2, 3, 13, 4) },
            ConvolutionShape { dilation: [2; 2], padding: [2; 2], ..same(4, 4, 10, 3) },
            ConvolutionShape { groups: 2, ..same(6, 4, 7, 3) },
            ConvolutionShape { groups: 30, ..same(30, 30, 12, 3) },
            ConvolutionShape { groups: 9, stride: [2; 2], ..same(9, 18, 12, 3) },
            ConvolutionShape { padding: [0; 2], ..same(3, 2, 6, 3) },
            ConvolutionShape { padding: [4; 2], ..same(3, 2, 6, 3) },
            ConvolutionShape { input_size: [5, 17], filter_size: [1, 3], ..same(3, 2, 6, 3) },
            same(64, 3, 32, 3),
        ];
        for shape in shapes {
            check(LinearShape::Convolution(shape), &mut generator);
        }
        check(LinearShape::FullyConnected { inputs: 300, outputs: 37 }, &mut generator);
        check(LinearShape::FullyConnected { inputs: 9000, outputs: 3 }, &mut generator);
        check(LinearShape::FullyConnected { inputs: 1, outputs: 1 }, &mut generator);
    }

    #[test]
    fn tiled_products_are_the_layer() {
        let mut generator = Seed::from_bytes([7; 32]).generator();
        let same = ConvolutionShape::same;
        check(LinearShape::Convolution(same(2, 2, 90, 3)), &mut generator);
        let large = ConvolutionShape { stride: [2; 2], padding: [3; 2], ..same(3, 2, 224, 7) };
        check(LinearShape::Convolution(large), &mut generator);
        let wide = ConvolutionShape { input_size: [3, 5000], ..same(1, 1, 3, 3) };
        check(LinearShape::Convolution(wide), &mut generator);
    }
}
