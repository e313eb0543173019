//! One cell under search.
//!
//! For each node all edges that leave it are computed together. What comes out lies side by side for the nodes that they
//! enter, and is added to what those got before. With PC-DARTS only the first quarter of the channels takes part; the
//! others pass by, and all are shuffled.

use network::zoo::genotype::CellKind;
use recipes::method::sphynx::Post;

use super::maps::Order;
use super::network::{Declarations, Lookup};
use super::weights::{CellWeights, OperationWeights, strides, targets};
use crate::assemble::{Mode, Norm, Parameters};
use crate::tensor::{Device, Kind, Tensor};

/// PC-DARTS: one channel of so many takes part.
const PARTS: usize = 4;

/// The convolutions of an edge: name, filter, dilation, whether a second one follows. In the order of their scales.
const CONVOLUTIONS: [(&str, usize, i64, bool); 4] =
    [("conv3", 3, 1, true), ("conv5", 5, 1, true), ("dilated3", 3, 2, false), ("dilated5", 5, 2, false)];

/// How the second convolutions of all edges that leave a node are one. Both compute the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeFilters {
    /// Channels in groups, one for each edge.
    Grouped,
    /// All channels with all, and zeros between edges: up to four times the multiplications, but of the kind that GPUs
    /// are built for. Groups of five channels are not.
    Dense,
    /// Dense where an edge has few channels, grouped where it has many.
    BySize,
}

impl EdgeFilters {
    /// Channels of an edge from which on a group of them is work enough.
    const MANY: usize = 32;

    fn are_dense(self, channels: usize) -> bool {
        match self {
            Self::Grouped => false,
            Self::Dense => true,
            Self::BySize => channels < Self::MANY,
        }
    }
}

/// Where a cell stands and what it must know of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellPlace {
    pub(super) index: usize,
    pub(super) kind: CellKind,
    /// Channels of each node.
    pub(super) channels: usize,
    /// Channels of the two inputs, the older first.
    pub(super) inputs: [usize; 2],
    /// Whether the older input is twice as large as the newer one.
    pub(super) previous_reduced: bool,
    pub(super) nodes: usize,
    pub(super) is_partial: bool,
    pub(super) post: Post,
    pub(super) preprocesses: bool,
    pub(super) filters: EdgeFilters,
    pub(super) order: Order,
}

impl CellPlace {
    fn name(&self, part: &str) -> String {
        format!("cell{}.{part}", self.index)
    }

    /// The channels that take part in operations.
    fn active(&self) -> usize {
        if self.is_partial { (self.channels / PARTS).max(1) } else { self.channels }
    }

    fn stride(&self, source: usize) -> i64 {
        if strides(self.kind, source) { 2 } else { 1 }
    }

    /// Whether an input goes into the cell as it is.
    fn passes(&self, input: usize) -> bool {
        let resized = input == 0 && self.previous_reduced;
        !self.preprocesses && !resized && self.inputs[input] == self.channels
    }

    pub(super) fn declare(&self, declared: &mut Declarations) {
        for (input, name) in ["older", "newer"].into_iter().enumerate() {
            if self.passes(input) {
                continue;
            }
            let name = self.name(name);
            if input == 0 && self.previous_reduced {
                declare_reduce(declared, &name, [self.inputs[input], self.channels], 1);
            } else {
                declared.conv(&name, [self.channels, self.inputs[input], 1], false);
            }
            declared.norm(&name, self.channels);
        }
        for source in 0..=self.nodes {
            self.declare_source(declared, source);
        }
        let post = self.name("post");
        declared.conv(&post, [self.channels, self.nodes * self.channels, 1], self.post == Post::Authors);
        declared.norm(&post, self.channels);
    }

    fn declare_source(&self, declared: &mut Declarations, source: usize) {
        let (active, count) = (self.active(), targets(source, self.nodes).len());
        let name = |part: &str| self.name(&format!("node{source}.{part}"));
        for (part, filter, _, is_pair) in CONVOLUTIONS {
            declared.conv(&name(part), [count * active, active, filter], false);
            if is_pair {
                declared.norm(&name(part), count * active);
                declared.conv(&name(&format!("{part}.second")), [count * active, active, filter], false);
            }
        }
        declared.norm(&name("average"), active);
        let has_reduce = self.stride(source) == 2;
        if has_reduce {
            declare_reduce(declared, &name("skip"), [active, active], count);
        }
        let operations = CONVOLUTIONS.len() + usize::from(has_reduce);
        declared.norm(&name("operations"), operations * count * active);
    }
}

/// A factorized reduce for several edges: the first halves of all, then the second halves.
fn declare_reduce(declared: &mut Declarations, name: &str, [inputs, outputs]: [usize; 2], edges: usize) {
    for (half, outputs) in [("first", outputs / 2), ("shifted", outputs - outputs / 2)] {
        if outputs > 0 {
            declared.conv(&format!("{name}.{half}"), [edges * outputs, inputs, 1], false);
        }
    }
}

/// A cell with its parameters.
pub(super) struct SearchCell {
    place: CellPlace,
    inputs: [Input; 2],
    sources: Vec<Source>,
    post: (usize, Option<usize>, Norm),
    /// PC-DARTS: the order in which channels leave an edge.
    shuffle: Option<Tensor>,
}

enum Input {
    Same,
    Conv(usize, Norm),
    Reduce(Reduce, Norm),
}

struct Reduce {
    halves: [Option<usize>; 2],
    edges: i64,
}

/// All edges that leave one node.
struct Source {
    stride: i64,
    count: i64,
    skip: Option<Reduce>,
    convolutions: [Convolution; 4],
    /// Where filters are dense: 1 within an edge, 0 between two.
    blocks: Option<Tensor>,
    /// 1 where a channel meets itself.
    identity: Tensor,
    order: Order,
    /// Of what skip and convolutions make, side by side.
    norm: Norm,
    average: Norm,
}

struct Convolution {
    padding: i64,
    dilation: i64,
    first: usize,
    /// What follows: a batch norm and another convolution.
    second: Option<(Norm, usize)>,
}

impl SearchCell {
    pub(super) fn new(place: CellPlace, lookup: &Lookup<'_>, device: Device) -> Self {
        let weight = |name: &str| lookup.weight(name).expect("it was declared for the same place");
        let input = |input: usize, name: &str| {
            let name = place.name(name);
            match (place.passes(input), input == 0 && place.previous_reduced) {
                (true, _) => Input::Same,
                (false, true) => Input::Reduce(Reduce::new(&name, 1, lookup), lookup.norm(&name)),
                (false, false) => Input::Conv(weight(&name), lookup.norm(&name)),
            }
        };
        let post = place.name("post");
        Self {
            inputs: [input(0, "older"), input(1, "newer")],
            sources: (0..=place.nodes).map(|source| Source::new(&place, source, lookup, device)).collect(),
            post: (weight(&post), lookup.bias(&post), lookup.norm(&post)),
            shuffle: place.is_partial.then(|| {
                let order = shuffled(place.channels);
                device.integers(&order, &[order.len() as i64])
            }),
            place,
        }
    }

    pub(super) fn forward(
        &self,
        inputs: [&Tensor; 2],
        parameters: &Parameters,
        operations: &OperationWeights<'_>,
        mode: Mode<'_>,
    ) -> Tensor {
        let weights = operations.of(self.place.kind, self.place.active() as i64);
        let input = |index: usize| self.inputs[index].forward(inputs[index], parameters, mode);
        let leave = |source: usize, value: &Tensor| self.leave(source, value, parameters, &weights, mode);
        // What nodes got so far, side by side; the first of them is complete.
        let mut open = leave(0, &input(0)) + leave(1, &input(1));
        let mut nodes = Vec::with_capacity(self.place.nodes);
        for source in 2..=self.place.nodes {
            let channels = self.place.channels as i64;
            let sizes = [channels, self.sources[source].count * channels];
            let mut parts = open.split_with_sizes(sizes, 1).into_iter();
            let (Some(node), Some(others)) = (parts.next(), parts.next()) else {
                unreachable!("it was divided into two")
            };
            let node = self.place.order.apart(&node);
            open = others + leave(source, &node);
            nodes.push(node);
        }
        nodes.push(open);
        self.end(&Tensor::cat(&nodes, 1), parameters, mode)
    }

    /// What leaves a node, side by side for the nodes that read it.
    fn leave(
        &self,
        source: usize,
        value: &Tensor,
        parameters: &Parameters,
        weights: &CellWeights<'_>,
        mode: Mode<'_>,
    ) -> Tensor {
        let edges = &self.sources[source];
        let Some((shuffle, shares)) = self.shuffle.as_ref().zip(weights.edges) else {
            return edges.forward(value, source, parameters, weights, mode);
        };
        let (active, channels) = (self.place.active() as i64, self.place.channels as i64);
        let mixed = edges.forward(&value.narrow(1, 0, active), source, parameters, weights, mode);
        let rest = value.narrow(1, active, channels - active);
        let rest =
            if edges.stride == 2 { rest.avg_pool2d([2, 2], [2, 2], [0, 0], false, true, None) } else { rest };
        let [batch, _, height, width] = mixed.size()[..] else { unreachable!("maps have four dimensions") };
        let mixed = mixed.reshape([batch, edges.count, active, height, width]);
        let rest = rest.unsqueeze(1) * shares[source].view([1, -1, 1, 1, 1]);
        let all = Tensor::cat(&[mixed, rest], 2).index_select(2, shuffle);
        all.reshape([batch, edges.count * channels, height, width])
    }

    fn end(&self, joined: &Tensor, parameters: &Parameters, mode: Mode<'_>) -> Tensor {
        let (weight, bias, norm) = &self.post;
        let conv = |input: &Tensor| {
            let bias = bias.map(|bias| parameters.leaf(bias));
            input.conv2d(parameters.leaf(*weight), bias, [1, 1], [0, 0], [1, 1], 1)
        };
        match self.place.post {
            Post::Paper => norm.apply(&conv(joined), parameters, mode).relu(),
            Post::Authors => norm.apply(&conv(&joined.relu()), parameters, mode),
        }
    }
}

impl Input {
    fn forward(&self, input: &Tensor, parameters: &Parameters, mode: Mode<'_>) -> Tensor {
        match self {
            Self::Same => input.shallow_clone(),
            Self::Conv(weight, norm) => {
                let conv = input.conv2d(parameters.leaf(*weight), None::<&Tensor>, [1, 1], [0, 0], [1, 1], 1);
                norm.apply(&conv, parameters, mode)
            }
            Self::Reduce(reduce, norm) => norm.apply(&reduce.forward(input, parameters), parameters, mode),
        }
    }
}

impl Reduce {
    fn new(name: &str, edges: i64, lookup: &Lookup<'_>) -> Self {
        Self { halves: ["first", "shifted"].map(|half| lookup.weight(&format!("{name}.{half}"))), edges }
    }

    /// Of each square of four values the upper left one makes the first half of the channels, the lower right one the second:
    /// one convolution whose filters have a single tap.
    fn forward(&self, input: &Tensor, parameters: &Parameters) -> Tensor {
        let corners = [[0, 1, 0, 1], [1, 0, 1, 0]];
        let halves = self.halves.iter().zip(corners).filter_map(|(weight, corner)| {
            let filters = parameters.leaf((*weight)?).constant_pad_nd(corner);
            let [outputs, inputs, height, width] = filters.size()[..] else {
                unreachable!("filters have four dimensions")
            };
            Some(filters.view([self.edges, outputs / self.edges, inputs, height, width]))
        });
        let halves: Vec<Tensor> = halves.collect();
        let filters = Tensor::cat(&halves, 1).flatten(0, 1);
        input.conv2d(&filters, None::<&Tensor>, [2, 2], [0, 0], [1, 1], 1)
    }
}

impl Source {
    fn new(place: &CellPlace, source: usize, lookup: &Lookup<'_>, device: Device) -> Self {
        let name = |part: &str| place.name(&format!("node{source}.{part}"));
        let weight = |name: &str| lookup.weight(name).expect("it was declared for the same place");
        let count = targets(source, place.nodes).len() as i64;
        let is_dense = place.filters.are_dense(place.active()) && count > 1;
        Self {
            stride: place.stride(source),
            count,
            blocks: is_dense.then(|| blocks(count as usize, place.active(), lookup.kind(), device)),
            identity: identity(place.active(), lookup.kind(), device),
            order: place.order,
            skip: (place.stride(source) == 2).then(|| Reduce::new(&name("skip"), count, lookup)),
            convolutions: CONVOLUTIONS.map(|(part, filter, dilation, is_pair)| Convolution {
                padding: dilation * (filter as i64 - 1) / 2,
                dilation,
                first: weight(&name(part)),
                second: is_pair.then(|| (lookup.norm(&name(part)), weight(&name(&format!("{part}.second"))))),
            }),
            norm: lookup.norm(&name("operations")),
            average: lookup.norm(&name("average")),
        }
    }

    /// All edges: (images, edges * channels, rows, columns).
    fn forward(
        &self,
        value: &Tensor,
        source: usize,
        parameters: &Parameters,
        weights: &CellWeights<'_>,
        mode: Mode<'_>,
    ) -> Tensor {
        let skipped = self.skip.iter().map(|reduce| reduce.forward(value, parameters));
        let convolved =
            self.convolutions.iter().map(|convolution| self.convolve(convolution, value, parameters, mode));
        let made: Vec<Tensor> = skipped.chain(convolved).collect();
        let scaled = self.norm.scaled(&Tensor::cat(&made, 1), &weights.scales[source], mode);
        self.order.sum_of(&scaled, made.len() as i64)
            + self.linear(value, &weights.linear[source], parameters, mode)
    }

    /// An operation without its last batch norm.
    fn convolve(
        &self,
        convolution: &Convolution,
        value: &Tensor,
        parameters: &Parameters,
        mode: Mode<'_>,
    ) -> Tensor {
        let Convolution { padding, dilation, first, second } = convolution;
        let conv = |input: &Tensor, weight: &Tensor, stride: i64, groups: i64| {
            input.conv2d(weight, None::<&Tensor>, [stride; 2], [*padding; 2], [*dilation; 2], groups)
        };
        let value = conv(value, parameters.leaf(*first), self.stride, 1);
        let Some((norm, weight)) = second else { return value };
        let (value, weight) = (norm.apply(&value, parameters, mode), parameters.leaf(*weight));
        match &self.blocks {
            None => conv(&value, weight, 1, self.count),
            Some(blocks) => conv(&value, &self.order.repeated(weight, blocks), 1, 1),
        }
    }

    /// Average pooling and, where the resolution stays, the identity: both are the same for all edges but for a factor. One
    /// convolution whose filters have one weight for each.
    fn linear(&self, value: &Tensor, weights: &Tensor, parameters: &Parameters, mode: Mode<'_>) -> Tensor {
        let pooled = value.avg_pool2d([3, 3], [self.stride; 2], [1, 1], false, false, None);
        let pooled = self.average.apply(&pooled, parameters, mode);
        let (maps, weights) = match self.skip {
            Some(_) => (pooled, weights.narrow(1, 0, 1)),
            None => (Tensor::cat(&[&pooled, value], 1), weights.shallow_clone()),
        };
        let filters = weights.unsqueeze(1).unsqueeze(3) * &self.identity;
        let filters = filters.flatten(0, 1).flatten(1, 2).unsqueeze(2).unsqueeze(3);
        maps.conv2d(&filters, None::<&Tensor>, [1, 1], [0, 0], [1, 1], 1)
    }
}

/// 1 where an output belongs to an edge: (outputs, edges, 1, 1, 1).
fn blocks(edges: usize, channels: usize, kind: Kind, device: Device) -> Tensor {
    let own = |place: usize| f32::from(u8::from(place / edges / channels == place % edges));
    let table: Vec<f32> = (0..edges * channels * edges).map(own).collect();
    device.floats(&table, &[(edges * channels) as i64, edges as i64, 1, 1, 1]).to_kind(kind)
}

/// 1 where two channels are the same: (1, channels, 1, channels).
fn identity(channels: usize, kind: Kind, device: Device) -> Tensor {
    let is_same = |place: usize| f32::from(u8::from(place / channels == place % channels));
    let table: Vec<f32> = (0..channels * channels).map(is_same).collect();
    device.floats(&table, &[1, channels as i64, 1, channels as i64]).to_kind(kind)
}

/// Channels in the order that brings every fourth of them to the front, whatever their number.
fn shuffled(channels: usize) -> Vec<i64> {
    let columns = channels.div_ceil(PARTS);
    (0..columns)
        .flat_map(|column| (column..channels).step_by(columns))
        .map(|channel| channel as i64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_has_the_block_of_its_edge() {
        let table = crate::tensor::to_floats(&blocks(3, 2, Kind::Float, Device::Cpu));
        assert_eq!(table, [1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1].map(|bit| bit as f32));
    }

    #[test]
    fn shuffling_keeps_every_channel_once() {
        assert_eq!(shuffled(8), [0, 2, 4, 6, 1, 3, 5, 7]);
        for channels in [1, 5, 20, 7, 16] {
            let mut order = shuffled(channels);
            order.sort_unstable();
            assert!(order.into_iter().eq(0..channels as i64));
        }
    }
}
