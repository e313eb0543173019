//! DARTS and PC-DARTS networks as their authors evaluate them, for the counts of Sphynx Table 1.
//!
//! Every convolution is preceded by a ReLU, also those that preprocess a cell's inputs on four times the
//! channels; a separable convolution is two of them. With `share=yes` the convolutions that read one node share
//! its ReLU (Sphynx section 5.2 and appendix E.1), which also drops those of the preprocessing (`pre-relu=no`) and
//! quadruples the channels at reduce cells (`balance=relu`).

use super::cells::{CellPlace, CellRow, joined, wire};
use super::genotype::{self, CellOperation, Genotype};
use super::name::Name;
use super::{Parts, ZooError};
use crate::spec::{Cell, Conv, FactorizedReduce, Layer, Pool};

pub(super) fn build(name: &mut Name, genotype: &Genotype) -> Result<Parts, ZooError> {
    let initial = name.count("c", 36)?;
    let depth = name.count("d", 20)?;
    let reduce = name.counts("reduce")?.unwrap_or_else(|| genotype::thirds(depth));
    let plan = CellPlan {
        genotype,
        shares: name.choice("share", &[("no", false), ("yes", true)])?,
        activates_inputs: name.choice("pre-relu", &[("yes", true), ("no", false)])?,
    };
    let growth = name.choice("balance", &[("flop", 2), ("relu", 4)])?;
    let row = CellRow::new(name, initial, depth, growth, reduce)?;
    let stem = vec![Layer::Conv(Conv::new(3 * initial, 3)), Layer::BatchNorm];
    let mut parts = Parts::pooled(stem, Vec::new());
    parts.stages = row.stages(false, |place| plan.cell(place));
    Ok(parts)
}

struct CellPlan<'a> {
    genotype: &'a Genotype,
    /// Whether the convolutions that read one node share its ReLU.
    shares: bool,
    /// Whether the 1x1 convolutions of the inputs have ReLUs.
    activates_inputs: bool,
}

impl CellPlan<'_> {
    fn cell(&self, place: CellPlace) -> Cell {
        let CellPlace { channels, reduces, previous_reduced, .. } = place;
        let mut newer = vec![Layer::Relu, Layer::Conv(Conv::new(channels, 1)), Layer::BatchNorm];
        let mut older = if previous_reduced { reduce_layers(channels) } else { newer.clone() };
        if !self.activates_inputs {
            newer.remove(0);
            older.remove(0);
        }
        let wiring = place.wiring(self.genotype);
        let mut nodes = wire(wiring, reduces, |operation, stride| edge(operation, channels, stride));
        if self.shares {
            for edge in nodes.iter_mut().flatten() {
                if edge.layers.first().is_some_and(Layer::is_relu) {
                    edge.layers.remove(0);
                    edge.activated = true;
                }
            }
        }
        Cell { older, newer, nodes, concat: joined(self.genotype), post: Vec::new() }
    }
}

fn edge(operation: CellOperation, channels: usize, stride: usize) -> Vec<Layer> {
    let separable = |conv: Conv| {
        let pointwise = Layer::Conv(Conv::new(channels, 1));
        vec![Layer::Relu, Layer::Conv(conv.depthwise()), pointwise, Layer::BatchNorm]
    };
    let conv = |filter, stride| Conv::new(channels, filter).stride(stride);
    let pair = |filter| [separable(conv(filter, stride)), separable(conv(filter, 1))].concat();
    let dilated = |filter| separable(conv(filter, stride).dilation(2));
    match operation {
        CellOperation::Skip if stride == 1 => Vec::new(),
        CellOperation::Skip => reduce_layers(channels),
        CellOperation::Conv3 => pair(3),
        CellOperation::Conv5 => pair(5),
        CellOperation::Dilated3 => dilated(3),
        CellOperation::Dilated5 => dilated(5),
        CellOperation::Average => vec![Layer::AveragePool(Pool::new(3, stride).padding(1))],
        CellOperation::Max => vec![Layer::MaxPool(Pool::new(3, stride).padding(1))],
    }
}

fn reduce_layers(channels: usize) -> Vec<Layer> {
    vec![Layer::Relu, Layer::FactorizedReduce(FactorizedReduce { out: channels }), Layer::BatchNorm]
}
