//! Sphynx networks (section 4): cells whose only ReLU stands at their end.
//!
//! A cell preprocesses its two inputs by 1x1 convolutions, adds and concatenates along the published wiring, and
//! ends with a 1x1 convolution and the ReLU, on a quarter of the concatenated channels. Channels grow fourfold at
//! each reduce cell, so that every cell has the same number of ReLUs (ReLU balancing). A "vanilla" convolution is
//! two stacked ones; batch norms of the three 1x1 convolutions have no learned scale.

use super::genotype::{self, CellEdges, Genotype, Op};
use super::name::Name;
use super::{Parts, StemForm, ZooError};
use crate::spec::{Block, Cell, Conv, Edge, FactorizedReduce, Layer, Pool, Stage, Stem};

/// The published networks: channels, cells, positions of the reduce cells (Sphynx Table 16).
pub const PUBLISHED: &[(usize, usize, [usize; 2])] = &[
    (5, 5, [0, 1]),
    (5, 6, [0, 1]),
    (5, 8, [1, 3]),
    (5, 10, [0, 5]),
    (7, 10, [0, 5]),
    (10, 10, [0, 5]),
    (12, 10, [0, 5]),
    (15, 10, [0, 5]),
    (15, 15, [2, 6]),
    (20, 10, [0, 5]),
];

pub(super) fn build(name: &mut Name) -> Result<Parts, ZooError> {
    let channels = name.count("c", 5)?;
    let depth = name.count("d", 10)?;
    let reduce = name.counts("reduce")?;
    let growth = name.choice("balance", &[("relu", 4), ("flop", 2)])?;
    let is_separable = name.choice("conv", &[("vanilla", false), ("separable", true)])?;
    let cells =
        [("sphynx", &genotype::SPHYNX), ("darts", &genotype::DARTS), ("pc-darts", &genotype::PC_DARTS)];
    let genotype = name.choice("cells", &cells)?;
    let form = StemForm::option(name)?;
    let reduce = reduce.unwrap_or_else(|| default_reduce(channels, depth, form));
    if let Some(late) = reduce.iter().find(|cell| **cell >= depth) {
        return Err(name.bad("reduce", late, format_args!("cells from 0 to {}", depth - 1)));
    }
    let plan = CellPlan { genotype, is_separable, growth, reduce };
    let mut parts = Parts::pooled(Vec::new(), Vec::new());
    let stem_halves = form == StemForm::ImageNet;
    parts.stem = stem(form, channels);
    parts.stages = plan.stages(channels, depth, stem_halves);
    Ok(parts)
}

/// The published positions where there are any, one and two thirds elsewhere.
fn default_reduce(channels: usize, depth: usize, form: StemForm) -> Vec<usize> {
    if form == StemForm::ImageNet && depth == 10 {
        return vec![1, 5];
    }
    let exact = PUBLISHED.iter().find(|row| row.0 == channels && row.1 == depth);
    let same_depth = PUBLISHED.iter().find(|row| row.1 == depth);
    exact.or(same_depth).map_or_else(|| genotype::thirds(depth), |row| row.2.to_vec())
}

fn stem(form: StemForm, channels: usize) -> Stem {
    match form {
        StemForm::Cifar => Stem {
            layers: vec![Layer::Conv(Conv::new(3 * channels, 3)), Layer::BatchNorm],
            second: Vec::new(),
        },
        // Appendix H: three strided convolutions; the first cell reads the last two.
        StemForm::ImageNet => Stem {
            layers: vec![
                Layer::Conv(Conv::new((channels / 2).max(1), 3).stride(2)),
                Layer::BatchNorm,
                Layer::Relu,
                Layer::Conv(Conv::new(channels, 3).stride(2)),
                Layer::BatchNorm,
            ],
            second: vec![Layer::Relu, Layer::Conv(Conv::new(channels, 3).stride(2)), Layer::BatchNorm],
        },
    }
}

struct CellPlan<'a> {
    genotype: &'a Genotype,
    is_separable: bool,
    growth: usize,
    reduce: Vec<usize>,
}

impl CellPlan<'_> {
    /// A stage begins with each reduce cell.
    fn stages(&self, channels: usize, depth: usize, mut previous_reduced: bool) -> Vec<Stage> {
        let mut stages: Vec<Stage> = Vec::new();
        let mut channels = channels;
        for index in 0..depth {
            let reduces = self.reduce.contains(&index);
            if reduces {
                channels = channels.saturating_mul(self.growth);
            }
            let cell = Block::Cell(self.cell(channels, reduces, previous_reduced));
            match stages.last_mut() {
                Some(stage) if !reduces => stage.blocks.push(cell),
                _ => stages.push(Stage { blocks: vec![cell] }),
            }
            previous_reduced = reduces;
        }
        stages
    }

    fn cell(&self, channels: usize, reduces: bool, previous_reduced: bool) -> Cell {
        let edges = if reduces { &self.genotype.reduce } else { &self.genotype.normal };
        let one_by_one = || vec![Layer::Conv(Conv::new(channels, 1)), Layer::PlainBatchNorm];
        let older = if previous_reduced {
            vec![Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::PlainBatchNorm]
        } else {
            one_by_one()
        };
        let mut post = one_by_one();
        post.push(Layer::Relu);
        Cell {
            older,
            newer: one_by_one(),
            nodes: wire(edges, reduces, |op, stride| self.edge(op, channels, stride)),
            concat: vec![2, 3, 4, 5],
            post,
        }
    }

    fn edge(&self, op: Op, channels: usize, stride: usize) -> Vec<Layer> {
        let conv = |kernel, stride| Conv::new(channels, kernel).stride(stride);
        let linear = |conv: Conv| match self.is_separable {
            false => vec![Layer::Conv(conv), Layer::BatchNorm],
            true => {
                vec![Layer::Conv(conv.depthwise()), Layer::Conv(Conv::new(channels, 1)), Layer::BatchNorm]
            }
        };
        match op {
            Op::Skip if stride == 1 => Vec::new(),
            Op::Skip => vec![Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::BatchNorm],
            Op::Conv(kernel) => [linear(conv(kernel, stride)), linear(conv(kernel, 1))].concat(),
            Op::Dilated(kernel) => linear(conv(kernel, stride).dilation(2)),
            Op::Average | Op::Max => {
                vec![Layer::AveragePool(Pool::new(3, stride).padding(1)), Layer::BatchNorm]
            }
        }
    }
}

/// The nodes of a cell: edges from its two inputs are strided where it reduces.
pub(super) fn wire(
    edges: &CellEdges,
    reduces: bool,
    layers: impl Fn(Op, usize) -> Vec<Layer>,
) -> Vec<Vec<Edge>> {
    let edge = |&(op, from): &(Op, usize)| {
        let stride = if reduces && from < 2 { 2 } else { 1 };
        Edge { from, activated: false, layers: layers(op, stride) }
    };
    edges.iter().map(|node| node.iter().map(edge).collect()).collect()
}
