//! Scales forwards, rings backwards: the steps of the frozen model before their weights are rounded.
//!
//! Forwards, every value gets its number of fraction bits: a linear layer adds its weights' bits, joins align their
//! inputs, an `Activate` drops what its output does not need. Backwards, every value gets the ring its readers need.

use std::collections::HashMap;

use super::FreezeOptions;
use super::choose::Choices;
use super::graph::{FloatOperation, Graph, Node, Window};
use super::merge;
use super::scales::{self, LayerScale};
use crate::inference_model::ModelOperation;
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::walk::Place;

/// What a rescaling inside a linear run leaves of a value.
const RESCALED_BITS: u32 = 18;
/// A rescaling that drops fewer bits is not worth its messages.
const MIN_GAP: u32 = 3;

/// The steps, scales and rings of a model.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) steps: Vec<PlannedStep>,
    pub(super) image_ring_bits: u32,
    pub(super) logit_width: u32,
    pub(super) candidates: Vec<Candidate>,
}

/// One step of the model to be.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    /// The node it comes from; none for a rescaling.
    pub(super) node: Option<usize>,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) operation: ModelOperation,
    pub(super) inputs: Vec<usize>,
    pub(super) shape: Shape,
    pub(super) fraction: u32,
    pub(super) ring_bits: u32,
    /// For linear steps.
    pub(super) scale: Option<LayerScale>,
    /// For linear steps: bits their weights go without.
    pub(super) trimmed_bits: u32,
    /// The largest magnitude, margin included.
    magnitude: f64,
    depth: usize,
}

impl PlannedStep {
    pub(super) fn is_linear(&self) -> bool {
        !matches!(self.operation, ModelOperation::Activate { .. } | ModelOperation::Maximum { .. })
    }
}

/// An input of a join that is there a round trip before the others: it could be rescaled for no round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The join, as a step of the plan.
    pub(super) step: usize,
    /// The join, as a node of the graph, and which of its inputs.
    pub(super) edge: (usize, usize),
}

impl Plan {
    pub(super) fn new(problem: &Problem<'_>, choices: &Choices) -> Self {
        let mut planner = Planner {
            problem,
            choices,
            steps: Vec::new(),
            values: vec![0],
            candidates: Vec::new(),
            rescaled: HashMap::new(),
        };
        for (index, node) in problem.graph.nodes.iter().enumerate() {
            let value = planner.node(index, node);
            planner.values.push(value);
        }
        let output = planner.steps.len();
        let (magnitude, fraction) = (planner.magnitude(output), planner.fraction(output));
        let plain = scales::width(magnitude, fraction, 0);
        let drop = plain.saturating_sub(problem.options.logit_bits);
        let logit_width = scales::width(magnitude, fraction, drop);
        let mut plan =
            Self { steps: planner.steps, image_ring_bits: 1, logit_width, candidates: planner.candidates };
        plan.assign_rings();
        plan
    }

    /// What a step that reads a value needs of its ring.
    pub(super) fn need(&self, step: usize) -> u32 {
        let step = &self.steps[step];
        match &step.operation {
            ModelOperation::Activate { width, mask, .. } => {
                width + u32::from(mask.relu_count(step.shape) < step.shape.scalars())
            }
            ModelOperation::Maximum { width, .. } => *width,
            _ => step.ring_bits,
        }
    }

    fn assign_rings(&mut self) {
        let mut rings = vec![1; self.steps.len() + 1];
        rings[self.steps.len()] = self.logit_width;
        for index in (0..self.steps.len()).rev() {
            self.steps[index].ring_bits = rings[index + 1];
            let need = self.need(index);
            for input in &self.steps[index].inputs {
                rings[*input] = rings[*input].max(need);
            }
        }
        self.image_ring_bits = rings[0];
    }
}

/// What is to be planned.
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Graph,
    /// The largest magnitude of each value of the graph, without margin.
    pub(super) maxima: &'a [f32],
    pub(super) options: &'a FreezeOptions,
    pub(super) image_fraction: u32,
    /// By node; only linear ones have any.
    pub(super) scales: &'a [Option<LayerScale>],
}

impl Problem<'_> {
    /// No value may need more bits than this; truncation takes one more, and rounding may.
    pub(super) fn width_limit(&self) -> u32 {
        self.options.widest_ring_bits - 2
    }
}

struct Planner<'a> {
    problem: &'a Problem<'a>,
    choices: &'a Choices,
    steps: Vec<PlannedStep>,
    /// The plan's value for each value of the graph.
    values: Vec<usize>,
    candidates: Vec<Candidate>,
    /// Rescaled values, by value and fraction.
    rescaled: HashMap<(usize, u32), usize>,
}

impl Planner<'_> {
    fn node(&mut self, index: usize, node: &Node) -> usize {
        match &node.operation {
            FloatOperation::Linear(_) => self.linear(index, node),
            FloatOperation::Add | FloatOperation::Concat => self.join(index, node),
            FloatOperation::Slice { start, channels } => {
                self.keep_scale(index, node, ModelOperation::Slice { start: *start, channels: *channels })
            }
            FloatOperation::DropFirstRowAndColumn => {
                self.keep_scale(index, node, ModelOperation::DropFirstRowAndColumn)
            }
            FloatOperation::Sum(window) => {
                let input = self.narrowed(index, self.values[node.inputs[0]], 0);
                self.push(index, node, sum(window), vec![input], self.fraction(input))
            }
            FloatOperation::Average(window) => self.average(index, node, window),
            FloatOperation::Activate { mask, ceiling } => self.activate(index, node, mask, *ceiling),
            FloatOperation::Maximum(pool) => {
                let input = self.values[node.inputs[0]];
                let width = scales::width(self.magnitude(input), self.fraction(input), 0);
                self.keep_scale(index, node, ModelOperation::Maximum { pool: pool.clone(), width })
            }
        }
    }

    fn linear(&mut self, index: usize, node: &Node) -> usize {
        let layer = self.problem.scales[index].as_ref().expect("every linear node has a scale");
        let common = layer.common - self.choices.trims[index];
        let input = self.narrowed(index, self.values[node.inputs[0]], common);
        let fraction = self.fraction(input);
        // Weights beyond the bound on an input without fraction bits: the output has none either.
        let scale = layer.capped(common.max(-(fraction as i32)));
        let FloatOperation::Linear(linear) = &node.operation else { unreachable!("called for linear nodes") };
        let operation = ModelOperation::Linear { geometry: linear.geometry, channel_shifts: scale.shifts() };
        let fraction = fraction.saturating_add_signed(scale.common);
        let value = self.push(index, node, operation, vec![input], fraction);
        self.steps[value - 1].scale = Some(scale);
        self.steps[value - 1].trimmed_bits = self.choices.trims[index].unsigned_abs();
        value
    }

    /// The input of a node that adds fraction bits, rescaled where the output would not fit any ring.
    fn narrowed(&mut self, index: usize, input: usize, added: i32) -> usize {
        let fraction = self.fraction(input).saturating_add_signed(added);
        let is_wide = scales::width(self.node_magnitude(index), fraction, 0) > self.problem.width_limit();
        let target = scales::fraction(self.magnitude(input), RESCALED_BITS);
        if self.choices.force && is_wide && target < self.fraction(input) {
            return self.rescale(index, input, target);
        }
        input
    }

    fn join(&mut self, index: usize, node: &Node) -> usize {
        let mut inputs: Vec<usize> = node.inputs.iter().map(|input| self.values[*input]).collect();
        let depth = inputs.iter().map(|input| self.depth(*input)).max().unwrap_or(0);
        let late = inputs.iter().filter(|input| self.depth(**input) == depth);
        let target = late.map(|input| self.fraction(*input)).max().unwrap_or(0);
        let mut early = Vec::new();
        for (place, input) in inputs.iter_mut().enumerate() {
            if self.depth(*input) < depth && self.fraction(*input) >= target + MIN_GAP {
                if self.choices.rescales.contains(&(index, place)) {
                    *input = self.rescale(index, *input, target);
                } else {
                    early.push((index, place));
                }
            }
        }
        self.narrow_join(index, &mut inputs);
        let fraction = inputs.iter().map(|input| self.fraction(*input)).max().unwrap_or(0);
        let shift = |input: &usize| u8::try_from(fraction - self.fraction(*input)).unwrap_or(u8::MAX);
        let shifts = inputs.iter().map(shift).collect();
        let operation = match node.operation {
            FloatOperation::Add => ModelOperation::Add { shifts },
            _ => ModelOperation::Concat { shifts },
        };
        let value = self.push(index, node, operation, inputs, fraction);
        self.candidates.extend(early.into_iter().map(|edge| Candidate { step: value - 1, edge }));
        value
    }

    /// Inputs far finer than the sum can be are rescaled where the sum would not fit any ring.
    fn narrow_join(&mut self, index: usize, inputs: &mut [usize]) {
        let largest =
            inputs.iter().map(|input| self.magnitude(*input)).fold(self.node_magnitude(index), f64::max);
        let fraction = inputs.iter().map(|input| self.fraction(*input)).max().unwrap_or(0);
        if !self.choices.force || scales::width(largest, fraction, 0) <= self.problem.width_limit() {
            return;
        }
        let target = scales::fraction(largest, RESCALED_BITS);
        for input in inputs {
            if self.fraction(*input) > target {
                *input = self.rescale(index, *input, target);
            }
        }
    }

    /// A sum whose division is more fraction bits, or a multiplication where the count is no power of two.
    fn average(&mut self, index: usize, node: &Node, window: &Window) -> usize {
        let counts = merge::average_counts(self.problem.graph, index, window);
        let first = counts[0];
        if first.is_power_of_two() && counts.iter().all(|count| *count == first) {
            let bits = first.trailing_zeros();
            let input = self.narrowed(index, self.values[node.inputs[0]], bits as i32);
            let fraction = self.fraction(input) + bits;
            return self.push(index, node, sum(window), vec![input], fraction);
        }
        let (mut factors, bits) = scales::reciprocals(&counts);
        let input = self.narrowed(index, self.values[node.inputs[0]], bits as i32);
        let fraction = self.fraction(input);
        let summed = self.push(index, node, sum(window), vec![input], fraction);
        let largest = counts.iter().copied().max().unwrap_or(1);
        self.steps[summed - 1].magnitude *= f64::from(largest);
        if factors.len() == 1 {
            factors = vec![factors[0]; node.shape.pixels() as usize];
        }
        let value =
            self.push(index, node, ModelOperation::ScalePixels { factors }, vec![summed], fraction + bits);
        self.steps[value - 1].name.push_str(".division");
        value
    }

    fn activate(&mut self, index: usize, node: &Node, mask: &SiteMask, ceiling: Option<u8>) -> usize {
        let input = self.values[node.inputs[0]];
        let options = self.problem.options;
        let mut output = self.node_magnitude(index);
        if let (Some(ceiling), SiteMask::KeepAll) = (ceiling, mask) {
            output = output.min(f64::from(ceiling));
        }
        let before = self.fraction(input);
        let fraction = scales::fraction(output, options.activation_bits).min(before);
        let shift = before - fraction;
        let width = scales::width(self.magnitude(input), before, shift);
        // A ceiling above all that the width can hold cuts nothing off.
        let ceiling = ceiling.map(|ceiling| u64::from(ceiling) << fraction.min(55));
        let ceiling = ceiling.filter(|ceiling| ceiling >> (width - 1 - shift).min(63) == 0);
        let operation = ModelOperation::Activate { width, shift, ceiling, mask: mask.clone() };
        self.push(index, node, operation, vec![input], fraction)
    }

    fn rescale(&mut self, reader: usize, input: usize, fraction: u32) -> usize {
        if let Some(value) = self.rescaled.get(&(input, fraction)) {
            return *value;
        }
        let before = self.fraction(input);
        let shift = before - fraction;
        let width = scales::width(self.magnitude(input), before, shift);
        let name = match input.checked_sub(1) {
            None => "image",
            Some(step) => &self.steps[step].name,
        };
        self.steps.push(PlannedStep {
            node: None,
            name: format!("{name}.rescale{}", self.rescaled.len() + 1),
            place: self.problem.graph.nodes[reader].place,
            operation: ModelOperation::Activate { width, shift, ceiling: None, mask: SiteMask::DropAll },
            inputs: vec![input],
            shape: self.shape(input),
            fraction,
            ring_bits: 1,
            scale: None,
            trimmed_bits: 0,
            magnitude: self.magnitude(input),
            depth: self.depth(input) + 1,
        });
        self.rescaled.insert((input, fraction), self.steps.len());
        self.steps.len()
    }

    fn keep_scale(&mut self, index: usize, node: &Node, operation: ModelOperation) -> usize {
        let input = self.values[node.inputs[0]];
        self.push(index, node, operation, vec![input], self.fraction(input))
    }

    fn push(
        &mut self,
        index: usize,
        node: &Node,
        operation: ModelOperation,
        inputs: Vec<usize>,
        fraction: u32,
    ) -> usize {
        let depth = inputs.iter().map(|input| self.depth(*input)).max().unwrap_or(0);
        let mut step = PlannedStep {
            node: Some(index),
            name: node.name.clone(),
            place: node.place,
            operation,
            inputs,
            shape: node.shape,
            fraction,
            ring_bits: 1,
            scale: None,
            trimmed_bits: 0,
            magnitude: self.node_magnitude(index),
            depth,
        };
        step.depth += usize::from(!step.is_linear());
        self.steps.push(step);
        self.steps.len()
    }

    /// The largest magnitude of what a node makes, margin included.
    fn node_magnitude(&self, index: usize) -> f64 {
        f64::from(self.problem.maxima[index + 1]) * f64::from(self.problem.options.margin)
    }

    fn magnitude(&self, value: usize) -> f64 {
        match value.checked_sub(1) {
            None => f64::from(self.problem.maxima[0]) * f64::from(self.problem.options.margin),
            Some(step) => self.steps[step].magnitude,
        }
    }

    fn fraction(&self, value: usize) -> u32 {
        value.checked_sub(1).map_or(self.problem.image_fraction, |step| self.steps[step].fraction)
    }

    fn depth(&self, value: usize) -> usize {
        value.checked_sub(1).map_or(0, |step| self.steps[step].depth)
    }

    fn shape(&self, value: usize) -> Shape {
        value.checked_sub(1).map_or(self.problem.graph.input, |step| self.steps[step].shape)
    }
}

fn sum(window: &Window) -> ModelOperation {
    match merge::pool_of(window) {
        Some(pool) => ModelOperation::SumPool(pool.clone()),
        None => ModelOperation::GlobalSum,
    }
}
