//! What a network costs, computed from its walk: ReLUs, max pools, multiply-adds and parameters.
//!
//! The papers count one ReLU per scalar that passes through an active ReLU layer, one multiply-add per weight and
//! output pixel of convolutions and fully connected layers (they call these FLOPs), and leave max pools out of
//! the ReLU count, so they have a column of their own here.

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::mask::ActivationMask;
use crate::spec::NetworkSpec;
use crate::walk::{Operation, Part, Place, Step, Walk};

/// The price of an operation, a block, a stage or a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Scalars that pass through an active ReLU.
    pub relus: u64,
    /// Scalars that a maximum pooling puts out.
    pub maxpools: u64,
    /// Multiply-adds of convolutions and fully connected layers.
    pub macs: u64,
    /// Weights, biases, and scales and shifts of batch norms.
    pub parameters: u64,
}

impl Cost {
    /// The price of one step, all its ReLUs kept.
    pub fn of_step(walk: &Walk, step: &Step) -> Self {
        let output = walk.shape(step.output);
        let mut cost = Self::default();
        match &step.operation {
            Operation::Conv(conv) => {
                let taps = conv.taps() as u64;
                cost.macs = taps * output.scalars();
                cost.parameters =
                    taps * conv.outputs as u64 + if conv.bias { conv.outputs as u64 } else { 0 };
            }
            Operation::FullyConnected { inputs, outputs } => {
                cost.macs = *inputs as u64 * *outputs as u64;
                cost.parameters = cost.macs + *outputs as u64;
            }
            Operation::BatchNorm { affine: true } => cost.parameters = 2 * output.channels as u64,
            Operation::Relu { .. } => cost.relus = output.scalars(),
            Operation::MaxPool(_) => cost.maxpools = output.scalars(),
            _ => {}
        }
        cost
    }

    /// The price of the whole network.
    pub fn of(spec: &NetworkSpec) -> Self {
        let walk = spec.walk();
        walk.steps().iter().map(|step| Self::of_step(walk, step)).sum()
    }

    /// The price of the whole network with a mask on its ReLUs.
    pub fn masked(spec: &NetworkSpec, mask: &ActivationMask) -> Self {
        Self { relus: mask.relu_count(), ..Self::of(spec) }
    }

    /// The price of each part, in order: stem, stages, head. A part without operations is left out.
    pub fn by_part(spec: &NetworkSpec) -> Vec<(Part, Self)> {
        by_place(spec, |place| place.part)
    }

    /// The price of each block, in order.
    pub fn by_block(spec: &NetworkSpec) -> Vec<(Place, Self)> {
        by_place(spec, |place| place)
    }
}

fn by_place<K: PartialEq>(spec: &NetworkSpec, key: impl Fn(Place) -> K) -> Vec<(K, Cost)> {
    let walk = spec.walk();
    let priced = walk.steps().iter().map(|step| (key(step.place), Cost::of_step(walk, step)));
    merge_runs(priced, |total, cost| *total += cost)
}

/// Merges neighbors with the same key, as the steps of one stage are.
pub fn merge_runs<K: PartialEq, V>(
    items: impl IntoIterator<Item = (K, V)>,
    merge: impl Fn(&mut V, V),
) -> Vec<(K, V)> {
    let mut runs: Vec<(K, V)> = Vec::new();
    for (key, value) in items {
        match runs.last_mut() {
            Some((last, total)) if *last == key => merge(total, value),
            _ => runs.push((key, value)),
        }
    }
    runs
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            relus: self.relus.saturating_add(other.relus),
            maxpools: self.maxpools.saturating_add(other.maxpools),
            macs: self.macs.saturating_add(other.macs),
            parameters: self.parameters.saturating_add(other.parameters),
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zoo;

    #[test]
    fn counts_are_additive_over_blocks_and_parts() {
        for entry in zoo::catalog() {
            let spec = zoo::build(entry.name, entry.input, 100).unwrap();
            let whole = Cost::of(&spec);
            assert_eq!(Cost::by_part(&spec).into_iter().map(|(_, cost)| cost).sum::<Cost>(), whole);
            assert_eq!(Cost::by_block(&spec).into_iter().map(|(_, cost)| cost).sum::<Cost>(), whole);
        }
    }

    #[test]
    fn max_pools_have_their_own_column() {
        let spec = zoo::build("vgg16", 32, 10).unwrap();
        // 16x16x64, 8x8x128, 4x4x256, 2x2x512, 1x1x512
        assert_eq!(Cost::of(&spec).maxpools, 16_384 + 8_192 + 4_096 + 2_048 + 512);
    }
}
