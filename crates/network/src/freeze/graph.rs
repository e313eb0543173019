//! The network in the shape freezing works on: float operations of the frozen model's kinds.
//!
//! Built from the walk: batch norms are folded into the linear layers before them, ReLU layers that the mask drops
//! altogether vanish, and what is left of batch norms becomes a depthwise 1x1 convolution.

use std::ops::{Index, IndexMut};

use crate::inference_model::{Gate, LinearGeometry};
use crate::mask::{ActivationMask, Bits, SiteMask};
use crate::shape::Shape;
use crate::spec::{Pool, SLOPE_UNITS, SharedSigns, public_slope};
use crate::walk::{ConvGeometry, Network, Operation, Place, Step, StepId, ValueId, Walk};
use crate::weights::{BATCH_NORM_EPSILON, FloatWeights, LayerWeights};

/// A flat list of nodes; node `i` makes value `i + 1`, value 0 is the image and the last one the logits.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub(super) input: Shape,
    pub(super) nodes: Vec<Node>,
}

/// One operation at its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) operation: FloatOperation,
    pub(super) inputs: Vec<ValueId>,
    pub(super) shape: Shape,
}

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum FloatOperation {
    Linear(FloatLinear),
    Add,
    Concat,
    Slice { start: usize, channels: usize },
    DropFirstRowAndColumn,
    Sum(Window),
    Average(Window),
    Activate { mask: SiteMask, ceiling: Option<u8> },
    Gate(FloatGate),
    Maximum(Pool),
}

/// Values that pass by the sign of their group's leader.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FloatGate {
    /// The leader first.
    pub(super) groups: Vec<Vec<usize>>,
    /// With `slope_bits` fraction bits, one per channel; empty where all are zero.
    pub(super) slopes: Vec<i8>,
    pub(super) slope_bits: u32,
    pub(super) mask: SiteMask,
}

impl FloatGate {
    /// Slopes are written with as few fraction bits as they need.
    fn new(groups: Vec<Vec<usize>>, slopes: &[f32], mask: SiteMask) -> Self {
        let multiples: Vec<i8> =
            slopes.iter().map(|slope| (public_slope(*slope) * SLOPE_UNITS) as i8).collect();
        if multiples.iter().all(|slope| *slope == 0) {
            return Self { groups, slopes: Vec::new(), slope_bits: 0, mask };
        }
        let spare = multiples.iter().map(|slope| slope.trailing_zeros()).min().unwrap_or(0);
        let spare = spare.min(Gate::MOST_SLOPE_BITS);
        let slopes = multiples.iter().map(|slope| slope >> spare).collect();
        Self { groups, slopes, slope_bits: Gate::MOST_SLOPE_BITS - spare, mask }
    }

    pub(super) fn float_slopes(&self) -> Vec<f32> {
        let channels: usize = self.groups.iter().map(Vec::len).sum();
        let unit = 0.5_f32.powi(self.slope_bits as i32);
        let slope = |channel: usize| self.slopes.get(channel).map_or(0.0, |slope| f32::from(*slope) * unit);
        (0..channels).map(slope).collect()
    }
}

/// What a sum or average runs over.
#[derive(Clone, Debug)]
pub(super) enum Window {
    Pool(Pool),
    Whole,
}

/// A convolution or fully connected layer.
#[derive(Clone, Debug)]
pub(super) struct FloatLinear {
    pub(super) geometry: LinearGeometry,
    pub(super) weights: Vec<f32>,
    pub(super) biases: Vec<f32>,
}

impl FloatLinear {
    /// Each channel times its scale, plus its shift.
    pub(super) fn affine(scale: Vec<f32>, shift: Vec<f32>) -> Self {
        let channels = scale.len();
        let conv = ConvGeometry {
            inputs: channels,
            outputs: channels,
            filter: 1,
            stride: 1,
            padding: 0,
            dilation: 1,
            groups: channels,
            bias: true,
        };
        Self { geometry: LinearGeometry::Conv(conv), weights: scale, biases: shift }
    }

    /// Whether it only scales and shifts channels.
    pub(super) fn is_affine(&self) -> bool {
        match &self.geometry {
            LinearGeometry::Conv(conv) => {
                let is_pointwise = conv.filter == 1 && conv.stride == 1 && conv.padding == 0;
                is_pointwise && conv.groups == conv.inputs && conv.groups == conv.outputs
            }
            LinearGeometry::FullyConnected { .. } => false,
        }
    }

    /// Scales and shifts its outputs; exact everywhere.
    pub(super) fn scale_outputs(&mut self, scale: &[f32], shift: &[f32]) {
        let taps = self.geometry.taps();
        for (row, factor) in self.weights.chunks_exact_mut(taps).zip(scale) {
            row.iter_mut().for_each(|weight| *weight *= factor);
        }
        for ((bias, factor), shift) in self.biases.iter_mut().zip(scale).zip(shift) {
            *bias = *bias * factor + shift;
        }
    }
}

impl Graph {
    /// The network with its batch norms folded and its dropped ReLU layers gone.
    pub(super) fn new(network: &dyn Network, weights: &FloatWeights, mask: Option<&ActivationMask>) -> Self {
        let walk = network.walk();
        let mut builder = Builder::new(walk, mask);
        for step in walk.steps() {
            let value = builder.step(step, weights.layer(&step.name));
            builder.values.push(value);
        }
        let output = builder.values.pop().unwrap_or(ValueId::IMAGE);
        let mut graph = Self { input: walk.shape(ValueId::IMAGE), nodes: builder.nodes };
        graph.nodes.truncate(output.0);
        graph.remove_unread();
        graph
    }

    pub(super) fn shape(&self, value: ValueId) -> Shape {
        value.maker().map_or(self.input, |maker| self[maker].shape)
    }

    /// The numbers of the nodes, in order.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = StepId> + use<> {
        (0..self.nodes.len()).map(StepId)
    }

    /// The logits.
    pub(super) fn output(&self) -> ValueId {
        ValueId(self.nodes.len())
    }

    /// Who reads each value.
    pub(super) fn readers(&self) -> Readers {
        let mut readers = vec![Vec::new(); self.output().0 + 1];
        for id in self.ids() {
            for input in &self[id].inputs {
                readers[input.0].push(Reader::Node(id));
            }
        }
        readers[self.output().0].push(Reader::Client);
        Readers(readers)
    }

    /// Removes nodes whose values nobody reads.
    pub(super) fn remove_unread(&mut self) {
        let mut is_read = vec![false; self.output().0 + 1];
        is_read[self.output().0] = true;
        for id in self.ids().rev() {
            if is_read[id.output().0] {
                self[id].inputs.iter().for_each(|input| is_read[input.0] = true);
            }
        }
        let mut renamed = vec![ValueId::IMAGE];
        let mut kept = Vec::new();
        for (id, mut node) in self.ids().zip(std::mem::take(&mut self.nodes)) {
            if is_read[id.output().0] {
                node.inputs.iter_mut().for_each(|input| *input = renamed[input.0]);
                kept.push(node);
            }
            renamed.push(ValueId(kept.len()));
        }
        self.nodes = kept;
    }

    /// Convolutions with a kernel worth the name (no scaling of channels) and their multiply-adds.
    pub(super) fn convolutions(&self) -> (usize, u64) {
        let mut count = 0;
        let mut multiply_adds = 0;
        for node in &self.nodes {
            if let FloatOperation::Linear(linear) = &node.operation {
                multiply_adds += linear.geometry.taps() as u64 * node.shape.scalars();
                let is_conv = matches!(linear.geometry, LinearGeometry::Conv(_));
                count += usize::from(is_conv && !linear.is_affine());
            }
        }
        (count, multiply_adds)
    }
}

impl Index<StepId> for Graph {
    type Output = Node;

    fn index(&self, id: StepId) -> &Node {
        &self.nodes[id.0]
    }
}

impl IndexMut<StepId> for Graph {
    fn index_mut(&mut self, id: StepId) -> &mut Node {
        &mut self.nodes[id.0]
    }
}

/// The readers of each value of a graph, once per reading.
pub(super) struct Readers(Vec<Vec<Reader>>);

/// Who reads a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Node(StepId),
    /// Reads the logits.
    Client,
}

impl Readers {
    pub(super) fn of(&self, value: ValueId) -> &[Reader] {
        &self.0[value.0]
    }

    /// The node that reads a value, if nothing else does.
    pub(super) fn only(&self, value: ValueId) -> Option<StepId> {
        match self.of(value) {
            [Reader::Node(id)] => Some(*id),
            _ => None,
        }
    }

    /// The node that makes a value, if the value is read once.
    pub(super) fn sole_maker(&self, value: ValueId) -> Option<StepId> {
        value.maker().filter(|_| self.of(value).len() == 1)
    }
}

struct Builder<'a> {
    walk: &'a Walk,
    mask: Option<&'a ActivationMask>,
    nodes: Vec<Node>,
    /// The value of the graph for each value of the walk.
    values: Vec<ValueId>,
    /// How often each value of the walk is read, through dropped ReLUs.
    readings: Vec<usize>,
    /// How often each value of the graph is read.
    node_readings: Vec<usize>,
}

impl<'a> Builder<'a> {
    fn new(walk: &'a Walk, mask: Option<&'a ActivationMask>) -> Self {
        let mut builder = Self {
            walk,
            mask,
            nodes: Vec::new(),
            values: vec![ValueId::IMAGE],
            readings: vec![0; walk.value_count()],
            node_readings: vec![usize::MAX],
        };
        // Backwards, so that a dropped ReLU hands its readings on to its input.
        builder.readings[walk.output().0] = 1;
        for step in walk.steps().iter().rev() {
            let is_dropped = builder.is_dropped(step);
            let handed_on = if is_dropped { builder.readings[step.output.0] } else { 1 };
            step.inputs.iter().for_each(|input| builder.readings[input.0] += handed_on);
        }
        builder
    }

    /// Whether the mask drops all of a ReLU layer.
    fn is_dropped(&self, step: &Step) -> bool {
        match (&step.operation, self.mask) {
            (Operation::Relu { site, .. }, Some(mask)) => mask.relu_count_at(*site) == 0,
            _ => false,
        }
    }

    /// Signs that nobody shares and that have no slope are ReLUs; of signs that the mask drops altogether slopes are left.
    fn gate(&self, step: &Step, signs: &SharedSigns, slopes: Option<&LayerWeights>) -> FloatOperation {
        let Operation::SharedSigns { site, .. } = &step.operation else { unreachable!("called for signs") };
        let channels = self.walk.shape(step.output).channels;
        let slopes = match slopes {
            Some(LayerWeights::Slopes { slopes }) => slopes.clone(),
            _ => vec![0.0; channels],
        };
        let groups = signs.grouping.groups(channels);
        let comparisons = self.walk.shape(step.output).with_channels(groups.len());
        let mask = self.mask.map_or(SiteMask::KeepAll, |mask| simplest(mask.site(*site), comparisons));
        if mask == SiteMask::DropAll {
            let scale = slopes.iter().map(|slope| 1.0 + public_slope(*slope)).collect();
            return FloatOperation::Linear(FloatLinear::affine(scale, vec![0.0; channels]));
        }
        let is_in_order = groups.iter().enumerate().all(|(sign, group)| group == &[sign]);
        let gate = FloatGate::new(groups, &slopes, mask);
        match gate.slopes.is_empty() && is_in_order {
            true => FloatOperation::Activate { mask: gate.mask, ceiling: None },
            false => FloatOperation::Gate(gate),
        }
    }

    /// Adds a step and gives the value it makes.
    fn step(&mut self, step: &Step, layer: Option<&LayerWeights>) -> ValueId {
        let size = self.walk.shape(step.inputs[0]);
        let operation = match (&step.operation, layer) {
            (Operation::BatchNorm { .. }, Some(LayerWeights::BatchNorm { scale, shift, mean, variance })) => {
                let scale: Vec<f32> = scale
                    .iter()
                    .zip(variance)
                    .map(|(scale, variance)| scale / (variance + BATCH_NORM_EPSILON).sqrt())
                    .collect();
                let shift =
                    shift.iter().zip(mean).zip(&scale).map(|((shift, mean), scale)| shift - mean * scale);
                return self.normalize(step, scale.clone(), shift.collect());
            }
            (Operation::Conv(conv), Some(LayerWeights::Linear { weights, biases })) => {
                linear(LinearGeometry::Conv(*conv), weights, biases)
            }
            (
                &Operation::FullyConnected { inputs, outputs },
                Some(LayerWeights::Linear { weights, biases }),
            ) => linear(LinearGeometry::FullyConnected { inputs, outputs }, weights, biases),
            (Operation::Relu { .. }, _) if self.is_dropped(step) => return self.values[step.inputs[0].0],
            (Operation::Relu { site, ceiling }, _) => {
                let mask = self.mask.map_or(SiteMask::KeepAll, |mask| simplest(mask.site(*site), size));
                FloatOperation::Activate { mask, ceiling: *ceiling }
            }
            (Operation::SharedSigns { signs, .. }, slopes) => self.gate(step, signs, slopes),
            (Operation::AveragePool(pool), _) => FloatOperation::Average(Window::Pool(pool.clone())),
            (Operation::GlobalAveragePool, _) => FloatOperation::Average(Window::Whole),
            (Operation::MaxPool(pool), _) => FloatOperation::Maximum(pool.clone()),
            (Operation::Add, _) => FloatOperation::Add,
            (Operation::Concat, _) => FloatOperation::Concat,
            (&Operation::Slice { start, channels }, _) => FloatOperation::Slice { start, channels },
            (Operation::DropFirstRowAndColumn, _) => FloatOperation::DropFirstRowAndColumn,
            _ => unreachable!("weights were checked against the spec"),
        };
        self.push(step, operation)
    }

    fn push(&mut self, step: &Step, operation: FloatOperation) -> ValueId {
        self.nodes.push(Node {
            name: step.name.clone(),
            place: step.place,
            operation,
            inputs: step.inputs.iter().map(|input| self.values[input.0]).collect(),
            shape: self.walk.shape(step.output),
        });
        self.node_readings.push(self.readings[step.output.0]);
        ValueId(self.nodes.len())
    }

    /// A batch norm goes into the linear layers that make its input, if nothing else reads them.
    fn normalize(&mut self, step: &Step, scale: Vec<f32>, shift: Vec<f32>) -> ValueId {
        let value = self.values[step.inputs[0].0];
        let Some(layers) = self.foldable(value) else {
            return self.push(step, FloatOperation::Linear(FloatLinear::affine(scale, shift)));
        };
        let mut start = 0;
        for layer in layers {
            let layer = &mut self.nodes[layer.0];
            let end = start + layer.shape.channels;
            if let FloatOperation::Linear(linear) = &mut layer.operation {
                linear.scale_outputs(&scale[start..end], &shift[start..end]);
            }
            start = end;
        }
        self.node_readings[value.0] = self.readings[step.output.0];
        value
    }

    /// The linear layers that make a value alone or side by side, each read by nothing else.
    fn foldable(&self, value: ValueId) -> Option<Vec<StepId>> {
        let sole_maker = |value: ValueId| value.maker().filter(|_| self.node_readings[value.0] == 1);
        let maker = sole_maker(value)?;
        let node = &self.nodes[maker.0];
        match &node.operation {
            FloatOperation::Linear(_) => Some(vec![maker]),
            FloatOperation::Concat => {
                let is_linear =
                    |maker: &StepId| matches!(self.nodes[maker.0].operation, FloatOperation::Linear(_));
                node.inputs.iter().map(|input| sole_maker(*input).filter(is_linear)).collect()
            }
            _ => None,
        }
    }
}

fn linear(geometry: LinearGeometry, weights: &[f32], biases: &[f32]) -> FloatOperation {
    FloatOperation::Linear(FloatLinear { geometry, weights: weights.to_vec(), biases: biases.to_vec() })
}

/// A mask that keeps all is written as such; nobody need look at its bits.
fn simplest(mask: &SiteMask, shape: Shape) -> SiteMask {
    let is_whole = |bits: &Bits| bits.ones() == bits.len() as u64;
    match mask {
        SiteMask::Channels(bits) | SiteMask::Pixels(bits) if is_whole(bits) => SiteMask::KeepAll,
        _ if mask.relu_count(shape) == 0 => SiteMask::DropAll,
        _ => mask.clone(),
    }
}
