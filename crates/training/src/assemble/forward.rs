//! The forward pass: the walk's steps, one after the other.

use network::spec::Pool;
use network::walk::{ConvGeometry, Operation, Step, ValueId};
use network::weights::BATCH_NORM_EPSILON;

use super::plan::{Norm, Reads};
use super::{NumberKinds, Parameters, TrainableNetwork};
use crate::tensor::Tensor;

/// How much of a new batch goes into the running statistics.
const NORM_MOMENTUM: f64 = 0.1;

/// What a forward pass is for.
#[derive(Clone, Copy, Debug)]
pub enum Mode<'a> {
    /// Batch norms use their running statistics; nothing changes.
    Evaluate,
    /// Batch norms use the batch and update their statistics.
    Train {
        /// For each edge of a cell and each image what to multiply it with (0, or 1 over the chance to stay); nothing
        /// is dropped without it.
        drop_path: Option<&'a Tensor>,
    },
}

impl Mode<'_> {
    pub(crate) fn is_training(self) -> bool {
        matches!(self, Self::Train { .. })
    }
}

/// What comes out.
#[derive(Debug)]
pub struct Output {
    /// One row per image, at full precision.
    pub logits: Tensor,
    /// Those of the auxiliary head, while training with one.
    pub auxiliary: Option<Tensor>,
}

impl TrainableNetwork {
    /// Runs a batch of normalized images (images, channels, rows, columns).
    ///
    /// # Panics
    /// When the framework refuses, as on a GPU without memory; [`crate::tensor::guarded`] makes that an error.
    pub fn forward(&self, images: &Tensor, mode: Mode<'_>) -> Output {
        self.forward_watched(images, mode, &mut |_, _, _| {})
    }

    /// The same; every step is shown with what it reads first and with what it makes.
    pub(crate) fn forward_watched(
        &self,
        images: &Tensor,
        mode: Mode<'_>,
        watch: &mut dyn FnMut(&Step, &Tensor, &Tensor),
    ) -> Output {
        let walk = self.spec.walk();
        let mut values: Vec<Option<Tensor>> = (0..walk.value_count()).map(|_| None).collect();
        let images = images.to_kind(self.setting.precision.compute_kind());
        values[0] = Some(if self.setting.innermost_channels { images } else { images.contiguous() });
        let mut auxiliary = None;
        for (index, step) in walk.steps().iter().enumerate() {
            let output = self.step(index, step, &values, mode);
            let input = values[step.inputs[0].0].as_ref().expect("a value is kept until its last reader");
            watch(step, input, &output);
            if let Some(head) = self.auxiliary.as_ref().filter(|head| head.value == step.output) {
                auxiliary = mode.is_training().then(|| head.forward(&output, &self.parameters, mode));
            }
            values[step.output.0] = Some(output);
            for input in &step.inputs {
                if self.plan.last_reader[input.0] == index {
                    values[input.0] = None;
                }
            }
        }
        let logits = values.pop().flatten().expect("the last step made the logits");
        let logits = logits.flatten(1, -1).to_kind(super::plan::loss_kind(self.setting));
        Output { logits, auxiliary }
    }

    fn step(&self, index: usize, step: &Step, values: &[Option<Tensor>], mode: Mode<'_>) -> Tensor {
        let read = |value: &ValueId| values[value.0].as_ref().expect("a value is kept until its last reader");
        let input = read(&step.inputs[0]);
        match (&step.operation, &self.plan.reads[index]) {
            (Operation::Conv(conv), Reads::Linear { weight, bias }) => {
                let bias = bias.map(|bias| self.parameters.leaf(bias));
                convolve(input, conv, self.parameters.leaf(*weight), bias)
            }
            (Operation::FullyConnected { outputs, .. }, Reads::Linear { weight, bias }) => {
                let bias = bias.map(|bias| self.parameters.leaf(bias));
                let rows = input.flatten(1, -1).linear(self.parameters.leaf(*weight), bias);
                rows.view([-1, *outputs as i64, 1, 1])
            }
            (Operation::BatchNorm { .. }, Reads::Norm(norm)) => norm.apply(input, &self.parameters, mode),
            (Operation::Relu { site, ceiling }, _) => {
                self.activations[site.0].apply(input, *ceiling, &self.parameters)
            }
            (Operation::SharedSigns { site, .. }, Reads::Signs(signs)) => {
                signs.apply(input, &self.activations[site.0], &self.parameters)
            }
            (Operation::Add, _) => {
                let term =
                    |position: usize| self.dropped((index, position), read(&step.inputs[position]), mode);
                (1..step.inputs.len()).fold(term(0), |sum, position| sum + term(position))
            }
            (Operation::Concat, _) => Tensor::cat(&step.inputs.iter().map(read).collect::<Vec<_>>(), 1),
            (operation, _) => rearrange(input, operation),
        }
    }

    /// An edge of a cell, silenced for some images while training.
    fn dropped(&self, edge: (usize, usize), value: &Tensor, mode: Mode<'_>) -> Tensor {
        match (mode, self.plan.droppable.get(&edge)) {
            (Mode::Train { drop_path: Some(factors) }, Some(edge)) => {
                value * factors.get(*edge as i64).view([-1, 1, 1, 1]).to_kind(value.kind())
            }
            _ => value.shallow_clone(),
        }
    }
}

pub(super) fn convolve(
    input: &Tensor,
    conv: &ConvGeometry,
    weight: &Tensor,
    bias: Option<&Tensor>,
) -> Tensor {
    let both = |value: usize| [value as i64; 2];
    input.conv2d(weight, bias, both(conv.stride), both(conv.padding), both(conv.dilation), conv.groups as i64)
}

impl Norm {
    pub(crate) fn apply(&self, input: &Tensor, parameters: &Parameters, mode: Mode<'_>) -> Tensor {
        let (scale, shift) = match self.learned {
            Some((scale, shift)) => (parameters.leaf(scale), parameters.leaf(shift)),
            None => (&self.ones, &self.zeros),
        };
        self.normalize(input, scale, shift, mode)
    }

    /// The same with a scale for each channel that somebody else learns, and no shift.
    pub(crate) fn scaled(&self, input: &Tensor, scale: &Tensor, mode: Mode<'_>) -> Tensor {
        self.normalize(input, scale, &self.zeros, mode)
    }

    fn normalize(&self, input: &Tensor, scale: &Tensor, shift: &Tensor, mode: Mode<'_>) -> Tensor {
        input.batch_norm(
            Some(scale),
            Some(shift),
            Some(&self.mean),
            Some(&self.variance),
            mode.is_training(),
            NORM_MOMENTUM,
            f64::from(BATCH_NORM_EPSILON),
            true,
        )
    }
}

/// The steps without parameters.
fn rearrange(input: &Tensor, operation: &Operation) -> Tensor {
    let both = |value: usize| [value as i64; 2];
    match operation {
        Operation::AveragePool(Pool { window, stride, padding, count_padding }) => {
            input.avg_pool2d(both(*window), both(*stride), both(*padding), false, *count_padding, None)
        }
        Operation::MaxPool(Pool { window, stride, padding, .. }) => {
            input.max_pool2d(both(*window), both(*stride), both(*padding), [1, 1], false)
        }
        Operation::GlobalAveragePool => input.mean_dim([2_i64, 3].as_slice(), true, None),
        Operation::Slice { start, channels } => input.narrow(1, *start as i64, *channels as i64),
        Operation::DropFirstRowAndColumn => {
            let [.., height, width] = input.size()[..] else { unreachable!("maps have four dimensions") };
            input.narrow(2, 1, height - 1).narrow(3, 1, width - 1)
        }
        other => unreachable!("{} has its own arm", other.kind()),
    }
}
