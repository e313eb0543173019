//! A frozen model becomes a graph again, so that it can be frozen anew, with other rings.
//!
//! Integers are read as the numbers they stand for. Weights are small integers times powers of two, so they and their
//! scales come back exactly, and biases to 24 significant bits. Rescalings that no ReLU asked for vanish, and shifts of
//! joins with them: planning chooses its own. What ReLUs keep, what sums divide by and what is clipped stays.

use super::graph::{FloatGate, FloatLinear, FloatOperation, Graph, Node, Window};
use super::merge;
use super::scales::{self, LayerScale};
use crate::inference_model::{Gate, InferenceModel, LinearWeights, ModelOperation, ModelStep};
use crate::mask::SiteMask;
use crate::walk::ValueId;

/// The graph, and the scales of its layers by node; or the name of a step that no float operation makes.
pub(super) fn thaw(model: &InferenceModel) -> Result<(Graph, Vec<Option<LayerScale>>), String> {
    let outline = model.outline();
    let graph = Graph { input: outline.input, nodes: Vec::new() };
    let mut thawing = Thawing { model, graph, scales: Vec::new(), values: vec![ValueId::IMAGE] };
    let mut layers = model.layers().iter();
    for step in &outline.steps {
        let layer = matches!(step.operation, ModelOperation::Linear { .. }).then(|| layers.next()).flatten();
        let value = thawing.step(step, layer).ok_or_else(|| step.name.clone())?;
        thawing.values.push(value);
    }
    let mut graph = thawing.graph;
    // A rescaling at the end would have left the logits to the step before it.
    graph.nodes.truncate(thawing.values.last().map_or(0, |value| value.0));
    Ok((graph, thawing.scales))
}

struct Thawing<'a> {
    model: &'a InferenceModel,
    graph: Graph,
    scales: Vec<Option<LayerScale>>,
    /// The graph's value for each value of the model.
    values: Vec<ValueId>,
}

impl Thawing<'_> {
    /// Adds a step and gives the value it makes; nothing for a step that freezing would not have made.
    fn step(&mut self, step: &ModelStep, layer: Option<&LinearWeights>) -> Option<ValueId> {
        let mut scale = None;
        let operation = match &step.operation {
            ModelOperation::Linear { geometry, channel_shifts } => {
                let layer = layer?;
                let common = self.added_bits(step);
                let channels: Vec<i32> =
                    channel_shifts.iter().map(|shift| common - i32::from(*shift)).collect();
                let linear = FloatLinear {
                    geometry: *geometry,
                    weights: weights(layer, &channels),
                    biases: biases(layer, step),
                };
                scale = Some(LayerScale { common, channels });
                FloatOperation::Linear(linear)
            }
            ModelOperation::Add { .. } => FloatOperation::Add,
            ModelOperation::Concat { .. } => FloatOperation::Concat,
            ModelOperation::Slice { start, channels } => {
                FloatOperation::Slice { start: *start, channels: *channels }
            }
            ModelOperation::DropFirstRowAndColumn => FloatOperation::DropFirstRowAndColumn,
            ModelOperation::SumPool(pool) => self.sum(step, Window::Pool(pool.clone()))?,
            ModelOperation::GlobalSum => self.sum(step, Window::Whole)?,
            ModelOperation::ScalePixels { factors } => return self.divide(step, factors),
            ModelOperation::Activate { mask: SiteMask::DropAll, .. } => {
                return Some(self.values[step.inputs[0].0]);
            }
            ModelOperation::Activate { mask, ceiling, .. } => FloatOperation::Activate {
                mask: mask.clone(),
                ceiling: float_ceiling(*ceiling, step.fraction)?,
            },
            ModelOperation::Gate(gate) => {
                let Gate { groups, slope_bits, slopes, mask, .. } = gate.clone();
                FloatOperation::Gate(FloatGate { groups, slopes, slope_bits, mask })
            }
            ModelOperation::Maximum { pool, .. } => FloatOperation::Maximum(pool.clone()),
        };
        self.graph.nodes.push(Node {
            name: step.name.clone(),
            place: step.place,
            operation,
            inputs: step.inputs.iter().map(|input| self.values[input.0]).collect(),
            shape: step.shape,
        });
        self.scales.push(scale);
        Some(self.graph.output())
    }

    /// Fraction bits of a step beyond those of its input.
    fn added_bits(&self, step: &ModelStep) -> i32 {
        step.fraction as i32 - self.model.outline().fraction(step.inputs[0]) as i32
    }

    /// A sum with as many fraction bits as its input, or one whose division is more of them.
    fn sum(&self, step: &ModelStep, window: Window) -> Option<FloatOperation> {
        let added = self.added_bits(step).unsigned_abs();
        if added == 0 {
            return Some(FloatOperation::Sum(window));
        }
        let counts = merge::window_counts(&window, self.model.outline().shape(step.inputs[0]), step.shape);
        let divides =
            counts.iter().all(|count| count.checked_ilog2() == Some(added) && count.is_power_of_two());
        divides.then_some(FloatOperation::Average(window))
    }

    /// The sum before a division becomes an average, if the division is that of its window.
    fn divide(&mut self, step: &ModelStep, factors: &[u32]) -> Option<ValueId> {
        let sum =
            self.values[step.inputs[0].0].maker().filter(|maker| maker.0 + 1 == self.graph.nodes.len())?;
        let window = match &self.graph[sum].operation {
            FloatOperation::Sum(window) => window.clone(),
            _ => return None,
        };
        let size = self.graph.shape(self.graph[sum].inputs[0]);
        let counts = merge::window_counts(&window, size, step.shape);
        let (expected, bits) = scales::reciprocals(&counts);
        let is_average = factors.iter().zip(expected.iter().cycle()).all(|(factor, other)| factor == other)
            && self.added_bits(step) == bits as i32;
        self.graph[sum].operation = FloatOperation::Average(window);
        is_average.then(|| sum.output())
    }
}

fn weights(layer: &LinearWeights, scales: &[i32]) -> Vec<f32> {
    let taps = layer.weights.len() / scales.len().max(1);
    let rows = layer.weights.chunks_exact(taps.max(1)).zip(scales);
    rows.flat_map(|(row, scale)| {
        let unit = scales::power(-scale);
        row.iter().map(move |weight| (f64::from(*weight) * unit) as f32)
    })
    .collect()
}

fn biases(layer: &LinearWeights, step: &ModelStep) -> Vec<f32> {
    let unit = scales::power(-(step.fraction as i32));
    layer.biases.iter().map(|bias| (*bias as f64 * unit) as f32).collect()
}

/// What a clipped ReLU clips at, as the whole number it was; nothing if it is none.
fn float_ceiling(ceiling: Option<u64>, fraction: u32) -> Option<Option<u8>> {
    let Some(ceiling) = ceiling else { return Some(None) };
    let whole = u8::try_from(ceiling.checked_shr(fraction)?).ok()?;
    (u64::from(whole) << fraction == ceiling).then_some(Some(whole))
}
