//! Where the numbers live: all parameters in one row of memory, ordered by what the optimizer does with them.
//!
//! ```text
//! masters  [ weights | biases | norms | keep scores ]   f32: what the optimizer moves and a checkpoint holds
//! compute  [ weights | biases ]                          bf16 copy the convolutions read, only in that precision
//! ```
//!
//! An optimizer step, a clip, an average or a copy is then a few operations on one tensor instead of a few for each
//! of a hundred. Every parameter is a view into the row. Filters lie with their input channels innermost on a GPU,
//! and on a processor in bf16, as those convolutions want them.

use std::collections::HashMap;

use recipes::random::Stream;

use super::{NumberKinds, Precision, Setting};
use crate::tensor::{Kind, Tensor, no_grad, to_floats};

/// Every parameter begins at a multiple of this many numbers, so that kernels can read it in wide words.
const ALIGNMENT: i64 = 64;

/// What a parameter is to the optimizer; in the order of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The weights of a convolution or fully connected layer.
    Weight,
    /// Its constants.
    Bias,
    /// Scale or shift of a batch norm, or slope of an activation.
    Norm,
    /// How much of a ReLU stays: never decayed.
    Keep,
}

impl Role {
    const ALL: [Self; 4] = [Self::Weight, Self::Bias, Self::Norm, Self::Keep];

    /// Whether convolutions read it, in their own precision.
    fn is_computed_with(self) -> bool {
        matches!(self, Self::Weight | Self::Bias)
    }
}

/// A parameter before it has memory.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) shape: Vec<i64>,
    pub(crate) values: Start,
}

/// The first values of a parameter.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Constant(f32),
    Normal { deviation: f64 },
    Uniform { bound: f32 },
}

impl Start {
    /// Numbers fixed by the parameter's name and a seed.
    fn draw(&self, name: &str, seed: u64, count: usize) -> Vec<f32> {
        let mut stream = Stream::new(name, seed);
        match self {
            Self::Constant(value) => vec![*value; count],
            Self::Uniform { bound } => (0..count).map(|_| stream.between(-bound, *bound)).collect(),
            Self::Normal { deviation } => {
                let mut values = Vec::with_capacity(count + 1);
                while values.len() < count {
                    let (first, second) = normal_pair(&mut stream);
                    values.extend([(first * deviation) as f32, (second * deviation) as f32]);
                }
                values.truncate(count);
                values
            }
        }
    }
}

/// Two standard normal numbers (Box and Muller).
fn normal_pair(stream: &mut Stream) -> (f64, f64) {
    let radius = (-2.0 * (1.0 - f64::from(stream.unit())).ln()).sqrt();
    let angle = std::f64::consts::TAU * f64::from(stream.unit());
    (radius * angle.cos(), radius * angle.sin())
}

/// A parameter in the row.
#[derive(Debug)]
struct Slot {
    name: String,
    role: Role,
    shape: Vec<i64>,
    start: i64,
    length: i64,
}

impl Slot {
    /// Its length up to where the next one may begin.
    fn padded(&self) -> i64 {
        (self.length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT
    }

    /// The parameter as a view into a row.
    fn view(&self, row: &Tensor, innermost_channels: bool) -> Tensor {
        let piece = row.narrow(0, self.start, self.length);
        match self.shape.as_slice() {
            [outputs, inputs, height, width] if innermost_channels => {
                piece.view([*outputs, *height, *width, *inputs]).permute([0, 3, 1, 2])
            }
            shape => piece.view(shape),
        }
    }

    /// A gradient of the parameter's shape as a flat piece in the order of the row.
    fn flatten(&self, gradient: &Tensor, innermost_channels: bool) -> Tensor {
        match self.shape.len() {
            4 if innermost_channels => gradient.permute([0, 2, 3, 1]).reshape([-1]),
            _ => gradient.reshape([-1]),
        }
    }
}

/// All parameters of one network.
pub struct Parameters {
    slots: Vec<Slot>,
    index: HashMap<String, usize>,
    masters: Tensor,
    /// The copy convolutions read, and room for its gradient.
    compute: Option<(Tensor, Tensor)>,
    gradient: Tensor,
    /// What the forward pass reads.
    leaves: Vec<Tensor>,
    padding: Tensor,
    innermost_channels: bool,
}

/// Where the parameters of one role lie in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Their role.
    pub role: Role,
    /// The first number.
    pub start: i64,
    /// How many, padding included.
    pub length: i64,
}

impl Parameters {
    pub(crate) fn new(mut declared: Vec<Declared>, seed: u64, setting: Setting) -> Self {
        declared.sort_by_key(|parameter| parameter.role);
        let Setting { device, precision, innermost_channels } = setting;
        let slots = lay_out(&declared);
        let total = slots.last().map_or(0, |slot| slot.start + slot.padded());
        let masters = device.zeros(&[total], precision.master_kind());
        for (slot, parameter) in slots.iter().zip(&declared) {
            let values = parameter.values.draw(&slot.name, seed, slot.length as usize);
            let values = Tensor::from_slice(&values).view(slot.shape.as_slice());
            slot.view(&masters, innermost_channels).copy_(&values);
        }
        let computed: i64 = slots.iter().filter(|slot| slot.role.is_computed_with()).map(Slot::padded).sum();
        let compute = (precision == Precision::Bf16)
            .then(|| (device.zeros(&[computed], Kind::BFloat16), device.zeros(&[computed], Kind::BFloat16)));
        let leaf = |slot: &Slot| {
            let row =
                compute.as_ref().filter(|_| slot.role.is_computed_with()).map_or(&masters, |(row, _)| row);
            slot.view(row, innermost_channels).detach().set_requires_grad(true)
        };
        let mut parameters = Self {
            leaves: slots.iter().map(leaf).collect(),
            index: slots.iter().enumerate().map(|(index, slot)| (slot.name.clone(), index)).collect(),
            gradient: device.zeros(&[total], precision.master_kind()),
            padding: device.zeros(&[ALIGNMENT], precision.master_kind()),
            compute,
            masters,
            slots,
            innermost_channels,
        };
        parameters.refresh();
        parameters
    }

    /// The number of a parameter.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// A parameter as the forward pass reads it.
    pub(crate) fn leaf(&self, index: usize) -> &Tensor {
        &self.leaves[index]
    }

    /// Names and full-precision values, in the order of the row; writing to a value needs a [`Self::refresh`] after.
    pub fn named(&self) -> impl Iterator<Item = (&str, Tensor)> {
        self.slots.iter().map(|slot| (slot.name.as_str(), slot.view(&self.masters, self.innermost_channels)))
    }

    /// Names and views into another row of the same layout, such as an optimizer's.
    pub fn named_in<'a>(&'a self, row: &'a Tensor) -> impl Iterator<Item = (&'a str, Tensor)> {
        self.slots.iter().map(move |slot| (slot.name.as_str(), slot.view(row, self.innermost_channels)))
    }

    /// How many numbers are learned.
    pub fn count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.length as u64).sum()
    }

    /// The whole row.
    pub fn masters(&self) -> &Tensor {
        &self.masters
    }

    /// Where each role lies; roles without parameters are left out.
    pub fn segments(&self) -> Vec<Segment> {
        let of = |role: Role| {
            let mut slots = self.slots.iter().filter(|slot| slot.role == role).peekable();
            let start = slots.peek()?.start;
            Some(Segment { role, start, length: slots.map(Slot::padded).sum() })
        };
        Role::ALL.into_iter().filter_map(of).collect()
    }

    /// Copies the masters to where convolutions read them; nothing to do in full precision.
    pub fn refresh(&mut self) {
        if let Some((compute, _)) = &mut self.compute {
            let length = compute.size()[0];
            no_grad(|| compute.copy_(&self.masters.narrow(0, 0, length)));
        }
    }

    /// The gradient of a loss by every parameter, as one row.
    pub fn gradient(&mut self, loss: &Tensor) -> &Tensor {
        let gradients = Tensor::run_backward(&[loss], &self.leaves, false, false);
        no_grad(|| self.gather(&gradients));
        &self.gradient
    }

    /// The gradients of a loss by every parameter of several rows at once: one pass back for all.
    pub(crate) fn gradients<const ROWS: usize>(loss: &Tensor, mut rows: [&mut Self; ROWS]) -> [Tensor; ROWS] {
        let leaves: Vec<&Tensor> = rows.iter().flat_map(|row| &row.leaves).collect();
        let mut gradients = Tensor::run_backward(&[loss], &leaves, false, false);
        for row in rows.iter_mut().rev() {
            let own = gradients.split_off(gradients.len() - row.leaves.len());
            no_grad(|| row.gather(&own));
        }
        rows.map(|row| row.gradient.copy())
    }

    fn gather(&mut self, gradients: &[Tensor]) {
        let computed = self.compute.as_ref().map_or(0, |(row, _)| row.size()[0]);
        let split = self.slots.partition_point(|slot| slot.start < computed);
        let total = self.gradient.size()[0];
        if let Some((_, gradient)) = &self.compute {
            self.join(gradient, &gradients[..split], 0);
            self.gradient.narrow(0, 0, computed).copy_(gradient);
        }
        if computed < total {
            self.join(&self.gradient.narrow(0, computed, total - computed), &gradients[split..], split);
        }
    }

    /// Puts pieces side by side, with zeros where a parameter ends before the next begins.
    fn join(&self, row: &Tensor, gradients: &[Tensor], first: usize) {
        let padding = self.padding.to_kind(row.kind());
        let mut pieces = Vec::with_capacity(2 * gradients.len());
        for (slot, gradient) in self.slots[first..].iter().zip(gradients) {
            pieces.push(match gradient.defined() {
                true => slot.flatten(gradient, self.innermost_channels),
                false => padding.new_zeros([slot.length], (row.kind(), row.device())),
            });
            if slot.padded() > slot.length {
                pieces.push(padding.narrow(0, 0, slot.padded() - slot.length));
            }
        }
        let _ = Tensor::cat_out(row, &pieces, 0);
    }

    /// A parameter's numbers.
    pub(super) fn numbers(&self, name: &str) -> Option<Vec<f32>> {
        let slot = &self.slots[self.find(name)?];
        Some(to_floats(&slot.view(&self.masters, self.innermost_channels)))
    }
}

fn lay_out(declared: &[Declared]) -> Vec<Slot> {
    let mut start = 0;
    let slot = |parameter: &Declared| {
        let Declared { name, role, shape, .. } = parameter.clone();
        let slot = Slot { name, role, length: shape.iter().product(), shape, start };
        start += slot.padded();
        slot
    };
    declared.iter().map(slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Device;

    fn declare(name: &str, role: Role, shape: &[i64]) -> Declared {
        let values = Start::Normal { deviation: 1.0 };
        Declared { name: name.to_owned(), role, shape: shape.to_vec(), values }
    }

    fn example(precision: Precision) -> Parameters {
        let declared = vec![
            declare("norm", Role::Norm, &[3]),
            declare("conv", Role::Weight, &[3, 2, 2, 2]),
            declare("keep", Role::Keep, &[1, 3, 1, 1]),
            declare("bias", Role::Bias, &[3]),
        ];
        Parameters::new(declared, 1, Setting { device: Device::Cpu, precision, innermost_channels: true })
    }

    #[test]
    fn roles_lie_in_order_without_overlap() {
        let parameters = example(Precision::F32);
        let segments = parameters.segments();
        assert_eq!(segments.iter().map(|segment| segment.role).collect::<Vec<_>>(), Role::ALL);
        for pair in segments.windows(2) {
            assert_eq!(pair[0].start + pair[0].length, pair[1].start);
        }
        assert_eq!(parameters.count(), 24 + 3 + 3 + 3);
    }

    #[test]
    fn gradients_arrive_where_their_parameter_lies() {
        for precision in [Precision::F32, Precision::Bf16, Precision::F64] {
            let mut parameters = example(precision);
            // The gradient of the sum of k * parameter is k everywhere.
            let kind = precision.master_kind();
            let part = |index: usize| parameters.leaf(index).to_kind(kind).sum(kind) * (index as f64 + 1.0);
            let loss = part(0) + part(1) + part(2) + part(3);
            let gradient = parameters.gradient(&loss).shallow_clone();
            for (index, (name, value)) in parameters.named_in(&gradient).enumerate() {
                assert!(to_floats(&value).iter().all(|number| *number == index as f32 + 1.0), "{name}");
            }
            // Padding keeps nothing.
            let all: f32 = to_floats(&gradient).iter().sum();
            assert_eq!(all, 24.0 + 2.0 * 3.0 + 3.0 * 3.0 + 4.0 * 3.0);
        }
    }

    #[test]
    fn the_bf16_copy_follows_the_masters() {
        let mut parameters = example(Precision::Bf16);
        let conv = parameters.find("conv").unwrap();
        let (_, mut master) = parameters.named().nth(conv).unwrap();
        let _ = master.fill_(0.5);
        assert_ne!(to_floats(parameters.leaf(conv)), [0.5; 24]);
        parameters.refresh();
        assert_eq!(to_floats(parameters.leaf(conv)), [0.5; 24]);
        assert_eq!(parameters.leaf(conv).kind(), Kind::BFloat16);
        assert_eq!(parameters.leaf(parameters.find("norm").unwrap()).kind(), Kind::Float);
    }

    #[test]
    fn first_values_depend_on_name_and_seed_alone() {
        let start = Start::Normal { deviation: 2.0 };
        let values = start.draw("conv", 7, 10_000);
        assert_eq!(values, start.draw("conv", 7, 10_000));
        assert_ne!(values, start.draw("conv", 8, 10_000));
        let mean = values.iter().sum::<f32>() / 1e4;
        let variance = values.iter().map(|value| value * value).sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.1 && (variance - 4.0).abs() < 0.3, "{mean} {variance}");
    }
}
