//! Shared signs: one comparison decides for a group of channels.
//!
//! ```text
//! forward    out_j = (b + a_j) x_j       b = [x_leader >= 0]
//! backward   x_j: b + a_j     a_j: x_j     x_leader also: 4 s (1 - s) x_j of every follower j, s = sigmoid(4 x_leader)
//! ```
//!
//! Gradients by values and slopes are exact. A sign has none, so a leader learns what its sign does to the others from
//! a soft sign in its place. For its own value it needs none: that is a ReLU.
//!
//! A slope is learned as a real number and used as the nearest multiple of 1/16, from the first step on. Rounding passes
//! gradients straight through. So what is learned, evaluated, kept and frozen is one network at all times, a recorded step
//! is the same in every epoch, and as the rate falls to zero slopes settle by themselves.

use network::spec::{Grouping, MAX_SLOPE, SLOPE_UNITS, SharedSigns};
use network::walk::{Step, Walk};

use super::activation::Activation;
use super::{NumberKinds, Parameters, Setting};
use crate::tensor::{Tensor, no_grad};

/// How steep the soft sign is that leaders learn from.
const STEEPNESS: f64 = 4.0;

/// What one activation with shared signs reads.
pub(super) struct Signs {
    /// The number of the parameter that holds the slopes.
    slope: Option<usize>,
    layout: Layout,
}

/// Where the groups lie. `follows` is 0 for leaders and 1 for all others.
enum Layout {
    Contiguous { signs: i64, values: i64, follows: Tensor },
    Listed { leaders: Tensor, sign_of_channel: Tensor, follows: Tensor },
}

impl Signs {
    pub(super) fn new(
        walk: &Walk,
        step: &Step,
        signs: &SharedSigns,
        parameters: &Parameters,
        setting: Setting,
    ) -> Self {
        let channels = walk.shape(step.output).channels;
        let layout = Layout::new(&signs.grouping, channels, setting);
        Self { slope: parameters.find(&format!("{}.slope", step.name)), layout }
    }

    pub(super) fn apply(&self, input: &Tensor, activation: &Activation, parameters: &Parameters) -> Tensor {
        let slope = self.slope.map(|slope| public(parameters.leaf(slope)).to_kind(input.kind()));
        let leaders = match activation {
            Activation::Identity => return pass(input, slope.as_ref()),
            _ => self.layout.leaders(input),
        };
        let hard = leaders.ge(0.0);
        let soft = self.layout.has_followers().then(|| without_value(&(&leaders * STEEPNESS).sigmoid()));
        let (hard, soft) = match activation {
            Activation::Mask { dropped } => {
                let open = hard.logical_or(dropped).to_kind(input.kind());
                (open, soft.map(|soft| soft.masked_fill(dropped, 0.0)))
            }
            Activation::Scored { keep } => {
                let keep = parameters.leaf(*keep).to_kind(input.kind());
                (1.0 - (&keep * hard.logical_not()), soft.map(|soft| soft * keep))
            }
            Activation::Relu | Activation::Identity => (hard.to_kind(input.kind()), soft),
        };
        self.layout.multiply(input, &hard, soft.as_ref(), slope.as_ref())
    }
}

/// All of the input, and its slopes' share.
fn pass(input: &Tensor, slope: Option<&Tensor>) -> Tensor {
    match slope {
        None => input.shallow_clone(),
        Some(slope) => input * (slope.view([1, -1, 1, 1]) + 1.0),
    }
}

/// Zero, with the gradient of the argument.
fn without_value(tensor: &Tensor) -> Tensor {
    tensor - tensor.detach()
}

/// Learned slopes as a frozen model has them: the nearest multiples of 1/16, with the gradient of the learned ones.
fn public(learned: &Tensor) -> Tensor {
    let units = f64::from(SLOPE_UNITS);
    let limit = f64::from(MAX_SLOPE) * units;
    let rounded = no_grad(|| (learned * units).round().clamp(-limit, limit) / units);
    rounded + without_value(learned)
}

impl Layout {
    fn new(grouping: &Grouping, channels: usize, setting: Setting) -> Self {
        let Setting { device, precision, .. } = setting;
        let follows = |leads: &dyn Fn(usize) -> bool, count: usize, shape: &[i64]| {
            let numbers: Vec<f32> = (0..count).map(|index| if leads(index) { 0.0 } else { 1.0 }).collect();
            device.floats(&numbers, shape).to_kind(precision.compute_kind())
        };
        let integers = |numbers: Vec<usize>| {
            let numbers: Vec<i64> = numbers.into_iter().map(|number| number as i64).collect();
            device.integers(&numbers, &[numbers.len() as i64])
        };
        match grouping {
            Grouping::Contiguous { values_per_sign } => Self::Contiguous {
                signs: grouping.signs(channels) as i64,
                values: *values_per_sign as i64,
                follows: follows(&|index| index == 0, *values_per_sign, &[1, 1, -1, 1, 1]),
            },
            Grouping::Listed(groups) => {
                let leaders: Vec<usize> = groups.iter().map(|group| group[0]).collect();
                Self::Listed {
                    follows: follows(&|channel| leaders.contains(&channel), channels, &[1, -1, 1, 1]),
                    leaders: integers(leaders),
                    sign_of_channel: integers(grouping.sign_of_channel(channels)),
                }
            }
        }
    }

    fn has_followers(&self) -> bool {
        match self {
            Self::Contiguous { values, .. } => *values > 1,
            Self::Listed { .. } => true,
        }
    }

    /// The channels that lead, one for each sign.
    fn leaders(&self, input: &Tensor) -> Tensor {
        match self {
            Self::Contiguous { values: 1, .. } => input.shallow_clone(),
            Self::Contiguous { signs, values, .. } => in_groups(input, *signs, *values).select(2, 0),
            Self::Listed { leaders, .. } => input.index_select(1, leaders),
        }
    }

    /// Every value by what its sign lets through, and by its slope.
    fn multiply(
        &self,
        input: &Tensor,
        hard: &Tensor,
        soft: Option<&Tensor>,
        slope: Option<&Tensor>,
    ) -> Tensor {
        match self {
            Self::Contiguous { signs, values, follows } => {
                let factor = plus(hard.unsqueeze(2), soft.map(|soft| soft.unsqueeze(2) * follows));
                let factor = plus(factor, slope.map(|slope| slope.view([1, *signs, *values, 1, 1])));
                (in_groups(input, *signs, *values) * factor).reshape(input.size())
            }
            Self::Listed { sign_of_channel, follows, .. } => {
                let spread = |signs: &Tensor| signs.index_select(1, sign_of_channel);
                let factor = plus(spread(hard), soft.map(|soft| spread(soft) * follows));
                input * plus(factor, slope.map(|slope| slope.view([1, -1, 1, 1])))
            }
        }
    }
}

/// A sum that may be larger than its first term, so that it is made anew.
fn plus(factor: Tensor, term: Option<Tensor>) -> Tensor {
    match term {
        Some(term) => factor + term,
        None => factor,
    }
}

/// Channels as (sign, value); no copy in either order of memory.
fn in_groups(input: &Tensor, signs: i64, values: i64) -> Tensor {
    let [images, _, height, width] = input.size()[..] else { unreachable!("maps have four dimensions") };
    input.reshape([images, signs, values, height, width])
}

#[cfg(test)]
mod tests;
