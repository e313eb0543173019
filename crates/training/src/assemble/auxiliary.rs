//! The auxiliary head of cell networks: a second classifier after two thirds of the cells, there while training only.
//!
//! ReLU, average pooling to 2x2, 1x1 convolution to 128 channels, batch norm, ReLU, 2x2 convolution to 768, batch
//! norm, ReLU, fully connected (Sphynx's final training, after DARTS). It is not counted as ReLUs of the network.

use network::spec::NetworkSpec;
use network::walk::{Part, ValueId};
use recipes::recipe::Initialization;

use super::initialize::Fan;
use super::parameters::{Declared, Parameters};
use super::plan::{self, Norm, Plan};
use super::{AssembleError, Mode, Setting};
use crate::tensor::{Kind, Tensor};

const NARROW: usize = 128;
const WIDE: usize = 768;
const NORMS: [(&str, usize); 2] = [("auxiliary.norm1", NARROW), ("auxiliary.norm2", WIDE)];

/// Where it stands: the value, its channels and its side.
fn place(spec: &NetworkSpec) -> Result<(ValueId, usize, usize), AssembleError> {
    let walk = spec.walk();
    let blocks: usize = spec.draft().stages.iter().map(|stage| stage.blocks.len()).sum();
    let mut seen = Vec::new();
    let mut value = None;
    for step in walk.steps().iter().filter(|step| matches!(step.place.part, Part::Stage(_))) {
        if seen.last() != Some(&step.place) {
            seen.push(step.place);
        }
        if seen.len() == 2 * blocks / 3 + 1 {
            value = Some(step.output);
        }
    }
    let absent = || AssembleError::NoAuxiliary { network: spec.name().to_owned(), blocks };
    let value = value.filter(|_| blocks >= 2).ok_or_else(absent)?;
    let shape = walk.shape(value);
    Ok((value, shape.channels, shape.height.min(shape.width)))
}

pub(super) fn declare(
    spec: &NetworkSpec,
    initialization: Initialization,
) -> Result<Vec<Declared>, AssembleError> {
    let (_, channels, _) = place(spec)?;
    let classes = spec.draft().classes;
    let conv = |name: &str, inputs: usize, outputs: usize, side: usize| {
        let fan = Fan { inputs: inputs * side * side, outputs: outputs * side * side, is_convolution: true };
        plan::linear(name, &[outputs, inputs, side, side], false, fan, initialization)
    };
    let fan = Fan { inputs: WIDE, outputs: classes, is_convolution: false };
    let mut declared = conv("auxiliary.conv1", channels, NARROW, 1);
    declared.extend(conv("auxiliary.conv2", NARROW, WIDE, 2));
    declared.extend(plan::linear("auxiliary.fc1", &[classes, WIDE], true, fan, initialization));
    declared.extend(NORMS.iter().flat_map(|(name, channels)| plan::norm(name, *channels)));
    Ok(declared)
}

/// Its batch norms, where it is there.
pub(super) fn norms(parameters: &Parameters) -> Vec<(String, usize)> {
    let is_there = parameters.find("auxiliary.fc1.weight").is_some();
    NORMS.iter().filter(|_| is_there).map(|(name, channels)| ((*name).to_owned(), *channels)).collect()
}

/// The head, with the numbers of its parameters.
pub(super) struct AuxiliaryHead {
    /// What it reads.
    pub(super) value: ValueId,
    side: i64,
    weights: [usize; 4],
    norms: [Norm; 2],
    kind: Kind,
}

impl AuxiliaryHead {
    pub(super) fn new(
        spec: &NetworkSpec,
        parameters: &Parameters,
        plan: &Plan,
        setting: Setting,
    ) -> Option<Self> {
        let (value, _, side) = place(spec).ok()?;
        let find = |name: &str| parameters.find(name);
        let weights = [
            find("auxiliary.conv1.weight")?,
            find("auxiliary.conv2.weight")?,
            find("auxiliary.fc1.weight")?,
            find("auxiliary.fc1.bias")?,
        ];
        let norms = NORMS.map(|(name, _)| plan::extra_norm(plan, name, parameters));
        Some(Self { value, side: side as i64, weights, norms, kind: plan::loss_kind(setting) })
    }

    pub(super) fn forward(&self, input: &Tensor, parameters: &Parameters, mode: Mode<'_>) -> Tensor {
        let [first, second, weight, bias] = self.weights.map(|index| parameters.leaf(index));
        let conv = |input: &Tensor, weight: &Tensor| {
            input.conv2d(weight, None::<&Tensor>, [1, 1], [0, 0], [1, 1], 1)
        };
        let input = input.relu();
        // A window of 5 at a stride that gives 2x2: 3 on the 8x8 maps of CIFAR, 6 on the 16x16 of Tiny ImageNet, as in the
        // authors' code; smaller maps are divided evenly.
        let pooled = match self.side {
            7.. => {
                let stride = (self.side * 3 / 8).max((self.side - 5) / 2 + 1);
                input.avg_pool2d([5, 5], [stride; 2], [0, 0], false, false, None)
            }
            _ => input.adaptive_avg_pool2d([2, 2]),
        };
        let narrow = self.norms[0].apply(&conv(&pooled, first), parameters, mode).relu();
        let wide = self.norms[1].apply(&conv(&narrow, second), parameters, mode).relu();
        wide.flatten(1, -1).linear(weight, Some(bias)).to_kind(self.kind)
    }
}
