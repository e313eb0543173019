//! What a network costs, computed from its walk: ReLUs, max pools, multiply-adds and parameters.
//!
//! The papers count one ReLU per scalar that passes through an active ReLU layer, one multiply-add per weight and
//! output pixel of convolutions and fully connected layers (they call these FLOPs), and leave max pools out of
//! the ReLU count, so they have a column of their own here.
//!
//! Where channels share signs, a comparison is what the papers call a ReLU, and the values that follow another channel's
//! sign are counted apart as gated values. Such a network is never described by its comparisons alone.

mod counts;

use std::iter::Sum;
use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::mask::ActivationMask;
use crate::mask::SiteMask;
use crate::shape::Shape;
use crate::walk::{Network, Operation, Part, Place, Step, Walk};

pub use counts::{Counts, LineCounts};

/// The price of an operation, a block, a stage or a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Comparisons: one for each scalar that passes through an active ReLU, one for each group of shared signs.
    pub relus: u64,
    /// Scalars that pass by the sign of another channel.
    #[serde(skip_serializing_if = "is_zero")]
    pub gated_values: u64,
    /// Scalars that a maximum pooling puts out.
    pub maxpools: u64,
    /// Multiply-adds of convolutions and fully connected layers.
    pub macs: u64,
    /// Weights, biases, scales and shifts of batch norms, and slopes.
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
            Operation::SharedSigns { signs, .. } => {
                cost.relus = output.pixels() * signs.grouping.signs(output.channels) as u64;
                cost.gated_values = output.scalars() - cost.relus;
                cost.parameters = if signs.slopes { output.channels as u64 } else { 0 };
            }
            Operation::MaxPool(_) => cost.maxpools = output.scalars(),
            _ => {}
        }
        cost
    }

    /// The price of one step with a mask on its ReLUs.
    pub fn of_masked_step(walk: &Walk, step: &Step, mask: &ActivationMask) -> Self {
        let mut cost = Self::of_step(walk, step);
        match &step.operation {
            Operation::Relu { site, .. } => cost.relus = mask.relu_count_at(*site),
            Operation::SharedSigns { site, signs } => {
                cost.relus = mask.relu_count_at(*site);
                let comparisons = walk.sites()[site.0].shape;
                let groups = signs.grouping.groups(walk.shape(step.output).channels);
                cost.gated_values = gated_values(&groups, comparisons, mask.site(*site));
            }
            _ => {}
        }
        cost
    }

    /// The price of the whole network.
    pub fn of(network: &dyn Network) -> Self {
        let walk = network.walk();
        walk.steps().iter().map(|step| Self::of_step(walk, step)).sum()
    }

    /// The price of the whole network with a mask on its ReLUs.
    pub fn masked(network: &dyn Network, mask: &ActivationMask) -> Self {
        let walk = network.walk();
        walk.steps().iter().map(|step| Self::of_masked_step(walk, step, mask)).sum()
    }

    /// The price of each part, in order: stem, stages, head. A part without operations is left out.
    pub fn by_part(network: &dyn Network) -> Vec<(Part, Self)> {
        by_place(network, |place| place.part)
    }

    /// The price of each block, in order.
    pub fn by_block(network: &dyn Network) -> Vec<(Place, Self)> {
        by_place(network, |place| place)
    }
}

/// What [`Cost`] is in JSON, line by line of one network.
///
/// A network without shared signs has `relus`. One with them has `comparisons` and `gated_values` on every line, those
/// without either included, and nothing called ReLUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CostFigures {
    /// No value follows another channel's sign.
    Relus(Cost),
    /// Some do.
    SharedSigns {
        /// Signs that are computed.
        comparisons: u64,
        /// Values that follow another channel's sign.
        gated_values: u64,
        /// As in [`Cost`].
        maxpools: u64,
        /// As in [`Cost`].
        macs: u64,
        /// As in [`Cost`].
        parameters: u64,
    },
}

impl Cost {
    /// For a line of a network whose total is `total`.
    pub fn figures(self, total: Self) -> CostFigures {
        let Self { relus, gated_values, maxpools, macs, parameters } = self;
        match total.shares_signs() {
            true => CostFigures::SharedSigns { comparisons: relus, gated_values, maxpools, macs, parameters },
            false => CostFigures::Relus(self),
        }
    }

    /// What it compares and gates.
    pub fn counts(self) -> Counts {
        self.into()
    }

    /// Whether values follow the signs of other channels.
    pub fn shares_signs(self) -> bool {
        self.gated_values > 0
    }
}

/// For numbers that are written only where there are any.
pub const fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// How many values follow the signs that a mask keeps. `comparisons` has a channel for each group.
pub(crate) fn gated_values(groups: &[Vec<usize>], comparisons: Shape, mask: &SiteMask) -> u64 {
    let followers = |(sign, group): (usize, &Vec<usize>)| {
        mask.kept_pixels(comparisons, sign) * (group.len() as u64).saturating_sub(1)
    };
    groups.iter().enumerate().map(followers).sum()
}

fn by_place<K: PartialEq>(network: &dyn Network, key: impl Fn(Place) -> K) -> Vec<(K, Cost)> {
    let walk = network.walk();
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
            gated_values: self.gated_values.saturating_add(other.gated_values),
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
    use crate::spec::NetworkSpec;
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
    fn a_network_without_shared_signs_is_written_as_ever() {
        let cost = Cost::of(&zoo::build("resnet18", 32, 100).unwrap());
        let expected = r#"{"relus":557056,"maxpools":0,"macs":555468800,"parameters":11220132}"#;
        assert_eq!(serde_json::to_string(&cost).unwrap(), expected);
        assert_eq!(serde_json::to_string(&cost.figures(cost)).unwrap(), expected);
    }

    #[test]
    fn shared_signs_are_never_called_relus() {
        let total = Cost::of(&zoo::build("signet", 32, 100).unwrap());
        assert!(total.shares_signs());
        for line in [total, Cost::default()] {
            let written = serde_json::to_string(&line.figures(total)).unwrap();
            assert!(!written.contains("relus") && written.contains("\"gated_values\":"), "{written}");
        }
    }

    /// Four signs of groups of different size, two of which are kept on half of their pixels.
    #[test]
    fn a_mask_takes_the_values_with_the_sign() {
        let text = "name = \"listed\"\nclasses = 2\ninput = { channels = 7, height = 2, width = 2 }\n\
                    head = [\"classifier\"]\n[stem]\n\
                    layers = [{ shared_signs = { groups = [[6, 0, 1], [2], [3, 4], [5]] } }]\n";
        let spec = NetworkSpec::from_toml(text).unwrap();
        let whole = Cost::of(&spec);
        assert_eq!((whole.relus, whole.gated_values), (16, 12));
        let keep_all = ActivationMask::keep_all(&spec);
        assert_eq!(Cost::masked(&spec, &keep_all), whole);
        let kept = |sign: usize, pixel: usize| pixel.is_multiple_of(2) && matches!(sign, 0 | 2);
        let bits = (0..16).map(|index| kept(index / 4, index % 4));
        let mask = vec![SiteMask::Pixels(crate::mask::Bits::collect(bits))];
        let masked = Cost::masked(&spec, &ActivationMask::new(&spec, mask).unwrap());
        assert_eq!((masked.relus, masked.gated_values), (4, 2 * 2 + 2));
        let contiguous = text.replace("groups = [[6, 0, 1], [2], [3, 4], [5]]", "values_per_sign = 7");
        let spec = NetworkSpec::from_toml(&contiguous).unwrap();
        let mask = vec![SiteMask::Pixels(crate::mask::Bits::collect([true, false, false, true]))];
        let masked = Cost::masked(&spec, &ActivationMask::new(&spec, mask).unwrap());
        assert_eq!((masked.relus, masked.gated_values), (2, 12));
    }

    #[test]
    fn max_pools_have_their_own_column() {
        let spec = zoo::build("vgg16", 32, 10).unwrap();
        // 16x16x64, 8x8x128, 4x4x256, 2x2x512, 1x1x512
        assert_eq!(Cost::of(&spec).maxpools, 16_384 + 8_192 + 4_096 + 2_048 + 512);
    }
}
