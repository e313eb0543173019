//! Scales forwards, rings backwards: the steps of the frozen model before their weights are rounded.
//!
//! Forwards, every value gets its number of fraction bits: a linear layer adds its weights' bits, joins align their
//! inputs, an `Activate` drops what its output does not need. Backwards, every value gets the ring its readers need.

use std::collections::HashMap;

use super::FreezeOptions;
use super::choose::Choices;
use super::graph::{FloatGate, FloatOperation, Graph, Node, Window};
use super::merge;
use super::scales::{self, LayerScale};
use crate::inference_model::{Gate, ModelOperation, OperationRole};
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::walk::{Place, StepId, ValueId};

/// A rescaling that drops fewer bits is not worth its messages.
const MIN_GAP: u32 = 3;

/// The steps, scales and rings of a model.
#[derive(Clone, Debug)]
pub(super) struct ScalePlan {
    pub(super) steps: Vec<PlannedStep>,
    pub(super) image_ring_bits: u32,
    pub(super) logit_width: u32,
    pub(super) candidates: Vec<Candidate>,
}

/// One step of the model to be.
#[derive(Clone, Debug)]
pub(super) struct PlannedStep {
    /// The node it comes from; none for a rescaling.
    pub(super) node: Option<StepId>,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) operation: ModelOperation,
    pub(super) inputs: Vec<ValueId>,
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
    /// What it needs of the ring of a value that it reads.
    pub(super) fn need(&self) -> u32 {
        match &self.operation {
            ModelOperation::Activate { width, mask, .. } => {
                let has_dropped = mask.relu_count(self.shape) < self.shape.scalars();
                if has_dropped { ModelOperation::truncation_ring(*width) } else { *width }
            }
            ModelOperation::Gate(gate) => gate.ring(),
            ModelOperation::Maximum { width, .. } => *width,
            _ => self.ring_bits,
        }
    }
}

/// An input of a join that is there a round trip before the others: it could be rescaled for no round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The join, as a step of the plan.
    pub(super) step: StepId,
    /// The join, as a node of the graph, and which of its inputs.
    pub(super) edge: (StepId, usize),
}

impl ScalePlan {
    pub(super) fn new(problem: &Problem<'_>, choices: &Choices) -> Self {
        let mut planner = Planner {
            problem,
            choices,
            steps: Vec::new(),
            values: vec![ValueId::IMAGE],
            candidates: Vec::new(),
            rescaled: HashMap::new(),
        };
        for id in problem.graph.ids() {
            let value = planner.node(id, &problem.graph[id]);
            planner.values.push(value);
        }
        let output = planner.last();
        let (magnitude, fraction) = (planner.magnitude(output), planner.fraction(output));
        let plain = scales::width(magnitude, fraction, 0);
        let drop = plain.saturating_sub(problem.options.logit_bits);
        let logit_width = scales::width(magnitude, fraction, drop);
        let mut plan =
            Self { steps: planner.steps, image_ring_bits: 1, logit_width, candidates: planner.candidates };
        plan.assign_rings();
        plan
    }

    /// The logits.
    pub(super) fn output(&self) -> ValueId {
        ValueId(self.steps.len())
    }

    /// The value with the widest ring, by the name of what makes it, and that ring.
    pub(super) fn widest_ring(&self) -> Option<(String, u32)> {
        let image = ("the image".to_owned(), self.image_ring_bits);
        let rings = self.steps.iter().map(|step| (step.name.clone(), step.ring_bits));
        rings.chain([image]).max_by_key(|(_, bits)| *bits)
    }

    /// Round trips of one inference.
    pub(super) fn round_trips(&self) -> usize {
        self.steps.iter().map(|step| step.depth).max().unwrap_or(0)
    }

    /// How many scalars are rescaled without a ReLU having asked for it.
    pub(super) fn rescaled_scalars(&self) -> u64 {
        self.steps.iter().filter(|step| step.node.is_none()).map(|step| step.shape.scalars()).sum()
    }

    fn assign_rings(&mut self) {
        let mut rings = vec![1; self.steps.len()];
        // What is read last is planned first: the logits, then what made them.
        rings.push(self.logit_width);
        for step in self.steps.iter_mut().rev() {
            step.ring_bits = rings.pop().expect("each step makes a value");
            let need = step.need();
            for input in &step.inputs {
                rings[input.0] = rings[input.0].max(need);
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
    /// Whether weights may go without bits.
    pub(super) may_trim: bool,
}

struct Planner<'a> {
    problem: &'a Problem<'a>,
    choices: &'a Choices,
    steps: Vec<PlannedStep>,
    /// The plan's value for each value of the graph.
    values: Vec<ValueId>,
    candidates: Vec<Candidate>,
    /// Rescaled values, by value and fraction.
    rescaled: HashMap<(ValueId, u32), ValueId>,
}

impl Planner<'_> {
    fn node(&mut self, id: StepId, node: &Node) -> ValueId {
        match &node.operation {
            FloatOperation::Linear(_) => self.linear(id, node),
            FloatOperation::Add | FloatOperation::Concat => self.join(id, node),
            FloatOperation::Slice { start, channels } => {
                self.keep_scale(id, node, ModelOperation::Slice { start: *start, channels: *channels })
            }
            FloatOperation::DropFirstRowAndColumn => {
                self.keep_scale(id, node, ModelOperation::DropFirstRowAndColumn)
            }
            FloatOperation::Sum(window) => {
                let input = self.narrowed(id, self.values[node.inputs[0].0], 0);
                self.push(id, node, sum(window), vec![input], self.fraction(input))
            }
            FloatOperation::Average(window) => self.average(id, node, window),
            FloatOperation::Activate { mask, ceiling } => self.activate(id, node, mask, *ceiling),
            FloatOperation::Gate(gate) => self.gate(id, node, gate),
            FloatOperation::Maximum(pool) => {
                let input = self.values[node.inputs[0].0];
                let width = scales::width(self.magnitude(input), self.fraction(input), 0);
                self.keep_scale(id, node, ModelOperation::Maximum { pool: pool.clone(), width })
            }
        }
    }

    fn linear(&mut self, id: StepId, node: &Node) -> ValueId {
        let layer = self.problem.scales[id.0].as_ref().expect("every linear node has a scale");
        let common = layer.common - self.choices.trims[id.0];
        let input = self.narrowed(id, self.values[node.inputs[0].0], common);
        let fraction = self.fraction(input);
        // Weights beyond the bound on an input without fraction bits: the output has none either.
        let scale = layer.capped(common.max(-(fraction as i32)));
        let FloatOperation::Linear(linear) = &node.operation else { unreachable!("called for linear nodes") };
        let operation = ModelOperation::Linear { geometry: linear.geometry, channel_shifts: scale.shifts() };
        let fraction = fraction.saturating_add_signed(scale.common);
        let value = self.push(id, node, operation, vec![input], fraction);
        let trimmed_bits = self.choices.trims[id.0].unsigned_abs();
        let step = self.newest();
        (step.scale, step.trimmed_bits) = (Some(scale), trimmed_bits);
        value
    }

    /// The input of a node that adds fraction bits, rescaled where the output would not fit any ring.
    fn narrowed(&mut self, id: StepId, input: ValueId, added: i32) -> ValueId {
        let fraction = self.fraction(input).saturating_add_signed(added);
        let is_wide = scales::width(self.node_magnitude(id), fraction, 0) > self.choices.width_limit;
        let target = scales::fraction(self.magnitude(input), self.choices.rescaled_bits);
        if self.choices.force && is_wide && target < self.fraction(input) {
            return self.rescale_for_all(id, input, target);
        }
        input
    }

    fn join(&mut self, id: StepId, node: &Node) -> ValueId {
        let mut inputs: Vec<ValueId> = node.inputs.iter().map(|input| self.values[input.0]).collect();
        let depth = inputs.iter().map(|input| self.depth(*input)).max().unwrap_or(0);
        let late = inputs.iter().filter(|input| self.depth(**input) == depth);
        let target = late.map(|input| self.fraction(*input)).max().unwrap_or(0);
        let mut early = Vec::new();
        for (place, input) in inputs.iter_mut().enumerate() {
            if self.depth(*input) < depth && self.fraction(*input) >= target + MIN_GAP {
                if self.choices.rescales.contains(&(id, place)) {
                    *input = self.rescale(id, *input, target);
                } else {
                    early.push((id, place));
                }
            }
        }
        self.narrow_join(id, &mut inputs);
        let fraction = inputs.iter().map(|input| self.fraction(*input)).max().unwrap_or(0);
        let shift = |input: &ValueId| u8::try_from(fraction - self.fraction(*input)).unwrap_or(u8::MAX);
        let shifts = inputs.iter().map(shift).collect();
        let operation = match node.operation {
            FloatOperation::Add => ModelOperation::Add { shifts },
            _ => ModelOperation::Concat { shifts },
        };
        let value = self.push(id, node, operation, inputs, fraction);
        let join = value.maker().expect("a step made it");
        self.candidates.extend(early.into_iter().map(|edge| Candidate { step: join, edge }));
        value
    }

    /// Inputs far finer than the sum can be are rescaled where the sum would not fit any ring.
    fn narrow_join(&mut self, id: StepId, inputs: &mut [ValueId]) {
        let largest =
            inputs.iter().map(|input| self.magnitude(*input)).fold(self.node_magnitude(id), f64::max);
        let fraction = inputs.iter().map(|input| self.fraction(*input)).max().unwrap_or(0);
        if !self.choices.force || scales::width(largest, fraction, 0) <= self.choices.width_limit {
            return;
        }
        let target = scales::fraction(largest, self.choices.rescaled_bits);
        for input in inputs {
            if self.fraction(*input) > target {
                *input = self.rescale_for_all(id, *input, target);
            }
        }
    }

    /// A rescaling that everything after it reads: once it is paid for, the finer value would only widen rings.
    fn rescale_for_all(&mut self, reader: StepId, input: ValueId, fraction: u32) -> ValueId {
        let rescaled = self.rescale(reader, input, fraction);
        self.values.iter_mut().filter(|value| **value == input).for_each(|value| *value = rescaled);
        rescaled
    }

    /// A sum whose division is more fraction bits, or a multiplication where the count is no power of two.
    fn average(&mut self, id: StepId, node: &Node, window: &Window) -> ValueId {
        let counts = merge::average_counts(self.problem.graph, id, window);
        let first = counts[0];
        if first.is_power_of_two() && counts.iter().all(|count| *count == first) {
            let bits = first.trailing_zeros();
            let input = self.narrowed(id, self.values[node.inputs[0].0], bits as i32);
            let fraction = self.fraction(input) + bits;
            return self.push(id, node, sum(window), vec![input], fraction);
        }
        let (mut factors, bits) = scales::reciprocals(&counts);
        let input = self.narrowed(id, self.values[node.inputs[0].0], bits as i32);
        let fraction = self.fraction(input);
        let summed = self.push(id, node, sum(window), vec![input], fraction);
        let largest = counts.iter().copied().max().unwrap_or(1);
        self.newest().magnitude *= f64::from(largest);
        if factors.len() == 1 {
            factors = vec![factors[0]; node.shape.pixels() as usize];
        }
        let value =
            self.push(id, node, ModelOperation::ScalePixels { factors }, vec![summed], fraction + bits);
        self.newest().name.push_str(".division");
        value
    }

    fn activate(&mut self, id: StepId, node: &Node, mask: &SiteMask, ceiling: Option<u8>) -> ValueId {
        let input = self.values[node.inputs[0].0];
        let options = self.problem.options;
        let mut output = self.node_magnitude(id);
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
        self.push(id, node, operation, vec![input], fraction)
    }

    /// What comes out keeps as many bits as an activation, and those of its slopes.
    fn gate(&mut self, id: StepId, node: &Node, gate: &FloatGate) -> ValueId {
        let input = self.values[node.inputs[0].0];
        let output = self.node_magnitude(id);
        let before = self.fraction(input);
        let fraction = scales::fraction(output, self.problem.options.activation_bits).min(before);
        let shift = before - fraction;
        let width = scales::width(self.magnitude(input), before, shift);
        let FloatGate { groups, slopes, slope_bits, mask } = gate.clone();
        let operation = ModelOperation::Gate(Gate { width, shift, groups, slope_bits, slopes, mask });
        self.push(id, node, operation, vec![input], fraction + gate.slope_bits)
    }

    fn rescale(&mut self, reader: StepId, input: ValueId, fraction: u32) -> ValueId {
        if let Some(value) = self.rescaled.get(&(input, fraction)) {
            return *value;
        }
        let before = self.fraction(input);
        let shift = before - fraction;
        let width = scales::width(self.magnitude(input), before, shift);
        let name = self.maker(input).map_or("image", |maker| &maker.name);
        self.steps.push(PlannedStep {
            node: None,
            name: format!("{name}.rescale{}", self.rescaled.len() + 1),
            place: self.problem.graph[reader].place,
            operation: ModelOperation::Activate { width, shift, ceiling: None, mask: SiteMask::DropAll },
            inputs: vec![input],
            shape: self.shape(input),
            fraction,
            ring_bits: 1,
            scale: None,
            trimmed_bits: 0,
            magnitude: self.magnitude(input),
            depth: OperationRole::Interactive.depth_after(self.depth(input)),
        });
        self.rescaled.insert((input, fraction), self.last());
        self.last()
    }

    fn keep_scale(&mut self, id: StepId, node: &Node, operation: ModelOperation) -> ValueId {
        let input = self.values[node.inputs[0].0];
        self.push(id, node, operation, vec![input], self.fraction(input))
    }

    fn push(
        &mut self,
        id: StepId,
        node: &Node,
        operation: ModelOperation,
        inputs: Vec<ValueId>,
        fraction: u32,
    ) -> ValueId {
        let depth = inputs.iter().map(|input| self.depth(*input)).max().unwrap_or(0);
        let depth = operation.role().depth_after(depth);
        self.steps.push(PlannedStep {
            node: Some(id),
            name: node.name.clone(),
            place: node.place,
            operation,
            inputs,
            shape: node.shape,
            fraction,
            ring_bits: 1,
            scale: None,
            trimmed_bits: 0,
            magnitude: self.node_magnitude(id),
            depth,
        });
        self.last()
    }

    /// The value made last.
    fn last(&self) -> ValueId {
        ValueId(self.steps.len())
    }

    fn newest(&mut self) -> &mut PlannedStep {
        self.steps.last_mut().expect("a step was pushed")
    }

    fn maker(&self, value: ValueId) -> Option<&PlannedStep> {
        value.maker().map(|maker| &self.steps[maker.0])
    }

    /// The largest magnitude of what a node makes, margin included.
    fn node_magnitude(&self, id: StepId) -> f64 {
        f64::from(self.problem.maxima[id.output().0]) * f64::from(self.problem.options.margin)
    }

    fn magnitude(&self, value: ValueId) -> f64 {
        let image = || f64::from(self.problem.maxima[0]) * f64::from(self.problem.options.margin);
        self.maker(value).map_or_else(image, |maker| maker.magnitude)
    }

    fn fraction(&self, value: ValueId) -> u32 {
        self.maker(value).map_or(self.problem.image_fraction, |maker| maker.fraction)
    }

    fn depth(&self, value: ValueId) -> usize {
        self.maker(value).map_or(0, |maker| maker.depth)
    }

    fn shape(&self, value: ValueId) -> Shape {
        self.maker(value).map_or(self.problem.graph.input, |maker| maker.shape)
    }
}

fn sum(window: &Window) -> ModelOperation {
    match merge::pool_of(window) {
        Some(pool) => ModelOperation::SumPool(pool.clone()),
        None => ModelOperation::GlobalSum,
    }
}
