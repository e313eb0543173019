//! DARTS and PC-DARTS networks as their authors evaluate them, for the counts of Sphynx Table 1.
//!
//! Every convolution is preceded by a ReLU, also those that preprocess a cell's inputs on four times the
//! channels; a separable convolution is two of them. With `share=yes` the convolutions that read one node share
//! its ReLU (Sphynx section 5.2 and appendix E.1).

use super::cells::{CellPlace, CellRow, wire};
use super::genotype::{self, Genotype, Op};
use super::name::Name;
use super::{Parts, ZooError};
use crate::spec::{Cell, Conv, FactorizedReduce, Layer, Pool};

pub(super) fn build(name: &mut Name, genotype: &Genotype) -> Result<Parts, ZooError> {
    let initial = name.count("c", 36)?;
    let depth = name.count("d", 20)?;
    let reduce = name.counts("reduce")?.unwrap_or_else(|| genotype::thirds(depth));
    let shares = name.choice("share", &[("no", false), ("yes", true)])?;
    let row = CellRow::new(name, initial, depth, 2, reduce)?;
    let stem = vec![Layer::Conv(Conv::new(3 * initial, 3)), Layer::BatchNorm];
    let mut parts = Parts::pooled(stem, Vec::new());
    parts.stages = row.stages(false, |place| cell(genotype, place, shares));
    Ok(parts)
}

fn cell(genotype: &Genotype, place: CellPlace, shares: bool) -> Cell {
    let CellPlace { channels, reduces, previous_reduced } = place;
    let edges = if reduces { &genotype.reduce } else { &genotype.normal };
    let one_by_one = vec![Layer::Relu, Layer::Conv(Conv::new(channels, 1)), Layer::BatchNorm];
    let older = if previous_reduced { reduce_layers(channels) } else { one_by_one.clone() };
    let mut nodes = wire(edges, reduces, |op, stride| edge(op, channels, stride));
    if shares {
        for edge in nodes.iter_mut().flatten() {
            if edge.layers.first().is_some_and(Layer::is_relu) {
                edge.layers.remove(0);
                edge.activated = true;
            }
        }
    }
    Cell { older, newer: one_by_one, nodes, concat: vec![2, 3, 4, 5], post: Vec::new() }
}

fn edge(op: Op, channels: usize, stride: usize) -> Vec<Layer> {
    let separable = |conv: Conv| {
        let pointwise = Layer::Conv(Conv::new(channels, 1));
        vec![Layer::Relu, Layer::Conv(conv.depthwise()), pointwise, Layer::BatchNorm]
    };
    let conv = |filter, stride| Conv::new(channels, filter).stride(stride);
    match op {
        Op::Skip if stride == 1 => Vec::new(),
        Op::Skip => reduce_layers(channels),
        Op::Conv(filter) => [separable(conv(filter, stride)), separable(conv(filter, 1))].concat(),
        Op::Dilated(filter) => separable(conv(filter, stride).dilation(2)),
        Op::Average => vec![Layer::AveragePool(Pool::new(3, stride).padding(1))],
        Op::Max => vec![Layer::MaxPool(Pool::new(3, stride).padding(1))],
    }
}

fn reduce_layers(channels: usize) -> Vec<Layer> {
    vec![Layer::Relu, Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::BatchNorm]
}
