//! Which parameters each step reads, and what is read for the last time where.

use std::collections::BTreeMap;

use network::spec::NetworkSpec;
use network::walk::{Operation, Step, Walk};
use recipes::recipe::Initialization;

use super::initialize::{Fan, FirstWeights};
use super::parameters::{Declared, Parameters, Role, Start};
use super::signs::Signs;
use super::{NumberKinds, Setting};
use crate::tensor::{Kind, Tensor};

/// The parameters of every step with weights.
pub(super) fn declare(spec: &NetworkSpec, initialization: Initialization) -> Vec<Declared> {
    spec.walk().steps().iter().flat_map(|step| declare_step(spec.walk(), step, initialization)).collect()
}

fn declare_step(walk: &Walk, step: &Step, initialization: Initialization) -> Vec<Declared> {
    match &step.operation {
        Operation::Conv(conv) => {
            let fan = Fan {
                inputs: conv.taps(),
                outputs: conv.outputs / conv.groups * conv.filter * conv.filter,
                is_convolution: true,
            };
            let inputs = conv.inputs / conv.groups;
            let shape = vec![conv.outputs, inputs, conv.filter, conv.filter];
            linear(&step.name, &shape, conv.bias, fan, initialization)
        }
        Operation::FullyConnected { inputs, outputs } => {
            let fan = Fan { inputs: *inputs, outputs: *outputs, is_convolution: false };
            linear(&step.name, &[*outputs, *inputs], true, fan, initialization)
        }
        Operation::BatchNorm { affine: true } => norm(&step.name, walk.shape(step.output).channels),
        Operation::SharedSigns { signs, .. } if signs.slopes => {
            let channels = walk.shape(step.output).channels;
            vec![declared(&step.name, "slope", (Role::Norm, &[channels]), Start::Constant(0.0))]
        }
        _ => Vec::new(),
    }
}

pub(crate) fn linear(
    name: &str,
    shape: &[usize],
    has_bias: bool,
    fan: Fan,
    initialization: Initialization,
) -> Vec<Declared> {
    let mut declared = vec![declared(name, "weight", (Role::Weight, shape), initialization.weights(fan))];
    if has_bias {
        declared.push(self::declared(name, "bias", (Role::Bias, &shape[..1]), initialization.biases(fan)));
    }
    declared
}

pub(crate) fn norm(name: &str, channels: usize) -> Vec<Declared> {
    let part = |part, value| declared(name, part, (Role::Norm, &[channels]), Start::Constant(value));
    vec![part("weight", 1.0), part("bias", 0.0)]
}

fn declared(name: &str, part: &str, (role, shape): (Role, &[usize]), values: Start) -> Declared {
    let shape = shape.iter().map(|side| *side as i64).collect();
    Declared { name: format!("{name}.{part}"), role, shape, values }
}

/// What a step reads besides values.
pub(super) enum Reads {
    Nothing,
    /// Numbers of parameters.
    Linear {
        weight: usize,
        bias: Option<usize>,
    },
    Norm(Norm),
    Signs(Signs),
}

/// A batch norm: learned numbers or constants, and the statistics it keeps.
pub(crate) struct Norm {
    pub(super) learned: Option<(usize, usize)>,
    pub(super) ones: Tensor,
    pub(super) zeros: Tensor,
    pub(super) mean: Tensor,
    pub(super) variance: Tensor,
}

/// The steps' reading list.
pub(super) struct Plan {
    pub(super) reads: Vec<Reads>,
    /// For each value, the last step that reads it.
    pub(super) last_reader: Vec<usize>,
    /// For each edge that drop-path may silence: the adding step and the position among its inputs.
    pub(super) droppable: BTreeMap<(usize, usize), usize>,
    statistics: Tensor,
    statistic_names: Vec<(String, i64, i64)>,
}

impl Plan {
    pub(super) fn new(spec: &NetworkSpec, parameters: &Parameters, setting: Setting) -> Self {
        let walk = spec.walk();
        let is_norm = |step: &&Step| matches!(step.operation, Operation::BatchNorm { .. });
        let norms = walk.steps().iter().filter(is_norm);
        let norms = norms.map(|step| (step.name.clone(), walk.shape(step.output).channels));
        let norms: Vec<_> = norms.chain(super::auxiliary::norms(parameters)).collect();
        let statistics = Statistics::new(&norms, setting);
        let reads = |step: &Step| match &step.operation {
            Operation::SharedSigns { signs, .. } => {
                Reads::Signs(Signs::new(walk, step, signs, parameters, setting))
            }
            _ => statistics.reads(step, parameters),
        };
        let reads = walk.steps().iter().map(reads).collect();
        let mut last_reader = vec![0; walk.value_count()];
        for (index, step) in walk.steps().iter().enumerate() {
            step.inputs.iter().for_each(|input| last_reader[input.0] = index);
        }
        let Statistics { row, names, .. } = statistics;
        Self { reads, last_reader, droppable: droppable(walk), statistics: row, statistic_names: names }
    }

    pub(super) fn statistics(&self) -> &Tensor {
        &self.statistics
    }

    /// Statistics by name, as views.
    pub(super) fn named_statistics(&self) -> impl Iterator<Item = (&str, Tensor)> {
        self.statistic_names
            .iter()
            .map(|(name, start, length)| (name.as_str(), self.statistics.narrow(0, *start, *length)))
    }

    pub(super) fn statistic(&self, name: &str) -> Option<Tensor> {
        self.named_statistics().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn drop_path_edges(&self) -> usize {
        self.droppable.len()
    }
}

/// Running means and variances of all batch norms, in one row.
pub(crate) struct Statistics {
    pub(crate) row: Tensor,
    pub(crate) names: Vec<(String, i64, i64)>,
    ones: Tensor,
    zeros: Tensor,
}

impl Statistics {
    pub(crate) fn new(norms: &[(String, usize)], setting: Setting) -> Self {
        let mut names = Vec::new();
        let mut values = Vec::new();
        for (name, channels) in norms {
            for (part, value) in [("running_mean", 0.0), ("running_var", 1.0)] {
                names.push((format!("{name}.{part}"), values.len() as i64, *channels as i64));
                // Each begins at a multiple of 16 numbers.
                values.extend(std::iter::repeat_n(value, channels.next_multiple_of(16)));
            }
        }
        let kind = setting.precision.master_kind();
        let widest = norms.iter().map(|(_, channels)| *channels as i64).max().unwrap_or(0);
        Self {
            row: setting.device.floats(&values, &[values.len() as i64]).to_kind(kind),
            names,
            ones: setting.device.zeros(&[widest], kind) + 1.0,
            zeros: setting.device.zeros(&[widest], kind),
        }
    }

    fn reads(&self, step: &Step, parameters: &Parameters) -> Reads {
        let parameter = |part: &str| parameters.find(&format!("{}.{part}", step.name));
        match &step.operation {
            Operation::Conv(_) | Operation::FullyConnected { .. } => Reads::Linear {
                weight: parameter("weight").expect("it was declared from the same walk"),
                bias: parameter("bias"),
            },
            Operation::BatchNorm { .. } => Reads::Norm(self.norm(&step.name, parameters)),
            _ => Reads::Nothing,
        }
    }

    pub(crate) fn norm(&self, name: &str, parameters: &Parameters) -> Norm {
        let find = |part: &str| {
            let name = format!("{name}.{part}");
            let (_, start, length) = self
                .names
                .iter()
                .find(|(known, ..)| *known == name)
                .expect("it was listed from the same walk");
            self.row.narrow(0, *start, *length)
        };
        let parameter = |part: &str| parameters.find(&format!("{name}.{part}"));
        let mean = find("running_mean");
        let channels = mean.size()[0];
        Norm {
            learned: parameter("weight").zip(parameter("bias")),
            ones: self.ones.narrow(0, 0, channels),
            zeros: self.zeros.narrow(0, 0, channels),
            variance: find("running_var"),
            mean,
        }
    }
}

/// A batch norm that is no step: of the auxiliary head.
pub(super) fn extra_norm(plan: &Plan, name: &str, parameters: &Parameters) -> Norm {
    let statistic =
        |part: &str| plan.statistic(&format!("{name}.{part}")).expect("it was listed beside the walk's");
    let parameter = |part: &str| parameters.find(&format!("{name}.{part}"));
    let mean = statistic("running_mean");
    Norm {
        learned: parameter("weight").zip(parameter("bias")),
        ones: mean.ones_like(),
        zeros: mean.zeros_like(),
        variance: statistic("running_var"),
        mean,
    }
}

/// The edges of cells that end in an operation: an identity is never dropped (DARTS, and Sphynx after it).
fn droppable(walk: &Walk) -> BTreeMap<(usize, usize), usize> {
    let mut edges = BTreeMap::new();
    for (index, step) in walk.steps().iter().enumerate() {
        let Some(node) = step.name.strip_suffix("add1").filter(|_| step.operation == Operation::Add) else {
            continue;
        };
        let prefix = format!("{node}edge");
        for (position, input) in step.inputs.iter().enumerate() {
            let maker = input.0.checked_sub(1).map(|maker| &walk.steps()[maker].name);
            if maker.is_some_and(|name| name.starts_with(&prefix)) {
                edges.insert((index, position), edges.len());
            }
        }
    }
    edges
}

/// The kind numbers are summed up in.
pub(super) fn loss_kind(setting: Setting) -> Kind {
    setting.precision.master_kind()
}

#[cfg(test)]
mod tests {
    use super::*;
    use network::zoo;

    #[test]
    fn only_operations_on_edges_of_cells_can_be_dropped() {
        let spec = zoo::build("sphynx:c=2,d=3,reduce=1", 8, 10).unwrap();
        let edges = droppable(spec.walk());
        // A normal cell has 4 operations among its 8 edges, a reduce cell 8 with the strided skips, less the two
        // skips between nodes.
        assert_eq!(edges.len(), 4 + 6 + 4);
        assert!(droppable(zoo::build("resnet10:m=2", 8, 10).unwrap().walk()).is_empty());
    }
}
