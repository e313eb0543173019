//! Sphynx networks (section 4): cells whose only ReLU stands at their end.
//!
//! A cell preprocesses its two inputs by 1x1 convolutions, adds and concatenates along the published wiring, and
//! ends with a 1x1 convolution and the ReLU, on a quarter of the concatenated channels. Channels grow fourfold at
//! each reduce cell, so that every cell has the same number of ReLUs (ReLU balancing). A "vanilla" convolution is
//! two stacked ones; batch norms of the three 1x1 convolutions have no learned scale.

use super::cells::{CellPlace, CellRow, wire};
use super::genotype::{self, Genotype, Op};
use super::name::Name;
use super::{Parts, StemForm, ZooError};
use crate::spec::{Cell, Conv, FactorizedReduce, Layer, Pool, Stem};

/// The published networks: channels, cells, positions of the reduce cells (Sphynx Table 16). It lacks (12, 10) and
/// (15, 10), which are the 491.5K and 614.4K of Tables 2 and 4; their reduce cells are those of all depths of 10.
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
    let row = CellRow::new(name, channels, depth, growth, reduce)?;
    let plan = CellPlan { genotype, is_separable };
    let mut parts = Parts::pooled(Vec::new(), Vec::new());
    parts.stem = stem(form, channels);
    parts.stages = row.stages(form == StemForm::ImageNet, |place| plan.cell(place));
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
}

impl CellPlan<'_> {
    fn cell(&self, place: CellPlace) -> Cell {
        let CellPlace { channels, reduces, previous_reduced } = place;
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
        let conv = |filter, stride| Conv::new(channels, filter).stride(stride);
        let linear = |conv: Conv| match self.is_separable {
            false => vec![Layer::Conv(conv), Layer::BatchNorm],
            true => {
                vec![Layer::Conv(conv.depthwise()), Layer::Conv(Conv::new(channels, 1)), Layer::BatchNorm]
            }
        };
        match op {
            Op::Skip if stride == 1 => Vec::new(),
            Op::Skip => vec![Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::BatchNorm],
            Op::Conv(filter) => [linear(conv(filter, stride)), linear(conv(filter, 1))].concat(),
            Op::Dilated(filter) => linear(conv(filter, stride).dilation(2)),
            Op::Average | Op::Max => {
                vec![Layer::AveragePool(Pool::new(3, stride).padding(1)), Layer::BatchNorm]
            }
        }
    }
}
