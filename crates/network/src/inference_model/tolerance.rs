//! How many low bits of a linear layer's output nobody will miss.
//!
//! The encryption of a linear layer adds a small error. What reads the output drops low bits of it: an `Activate` its
//! `shift`, the logits their `logit_drop`. The *tolerance* of a layer is the number of its own last places, in bits, that make
//! one unit of what is kept. Whoever keeps the error's standard deviation within [`DEVIATION`] of that unit, layer by layer,
//! disturbs what an `Activate` reads by about that much. Between a layer and its readers, variances are followed; the bits
//! below are those of a variance, two to each bit of a number:
//!
//! | step that reads a value | bits that it leaves |
//! | --- | --- |
//! | `Activate`, `Gate` | twice its shift |
//! | `Maximum` | none |
//! | the logits | twice `logit_drop` |
//! | `Linear` | its output's, less twice its largest channel shift, less its gain, less one for its own error |
//! | `Add` | its output's, less twice the input's shift and the logarithm of how many inputs have errors |
//! | `Concat` | its output's, less twice the input's shift |
//! | `SumPool`, `GlobalSum` | its output's, less the logarithm of the terms |
//! | `ScalePixels` | its output's, less twice the logarithm of the largest factor |
//! | others | its output's |
//!
//! The least of all readers counts, and nothing below zero does. The gain of a layer is the sum of its squared weights; these
//! are secret, and are taken to be a quarter of their bound in the root mean square, which is what training and random
//! weights come to. Errors of different values are taken to be uncorrelated. Nothing but accuracy depends on either:
//! [`bound`](crate::reference::bound) follows the true weights.

use super::{ModelOperation, ModelOutline, ModelStep};
use crate::walk::StepId;

/// The standard deviation of a layer's error over the unit that its readers keep, at most.
pub const DEVIATION: f64 = 1.0 / 8.0;
/// The bound on weights over their root mean square, squared.
const WEIGHT_RATIO: u64 = 16;

impl ModelOutline {
    /// The tolerance of every linear step, in order: both parties derive the same.
    pub fn tolerances(&self) -> Vec<(StepId, u32)> {
        let erring = self.erring_values();
        // Of every value the bits that all its readers leave; none where nobody reads it.
        let mut left: Vec<Option<i64>> = vec![None; self.value_count()];
        left[self.output().0] = Some(2 * i64::from(self.logit_drop));
        let mut tolerances = Vec::new();
        for (id, step) in self.numbered_steps().rev() {
            let after = left[id.output().0].unwrap_or(0);
            if let ModelOperation::Linear { channel_shifts, .. } = &step.operation {
                let bits = after - largest(channel_shifts) - i64::from(erring[step.inputs[0].0]);
                tolerances.push((id, (bits / 2).max(0) as u32));
            }
            for (number, value) in step.inputs.iter().enumerate() {
                let bits = self.left_by(step, number, after, &erring);
                left[value.0] = Some(left[value.0].map_or(bits, |others| others.min(bits)));
            }
        }
        tolerances.reverse();
        tolerances
    }

    /// What one reader leaves of one of its inputs.
    fn left_by(&self, step: &ModelStep, number: usize, after: i64, erring: &[bool]) -> i64 {
        match &step.operation {
            ModelOperation::Activate { shift, .. } => 2 * i64::from(*shift),
            ModelOperation::Gate(gate) => 2 * i64::from(gate.shift),
            ModelOperation::Maximum { .. } => 0,
            ModelOperation::Linear { geometry, channel_shifts } => {
                let bound = u64::from(self.weight_bits.bound().unsigned_abs());
                let gain = (geometry.taps() as u64).saturating_mul(bound * bound / WEIGHT_RATIO);
                after - largest(channel_shifts) - logarithm(gain) - 1
            }
            ModelOperation::Add { shifts } => {
                let with_errors = step.inputs.iter().filter(|value| erring[value.0]).count();
                after - 2 * i64::from(shifts[number]) - logarithm(with_errors as u64)
            }
            ModelOperation::Concat { shifts } => after - 2 * i64::from(shifts[number]),
            ModelOperation::Slice { .. } | ModelOperation::DropFirstRowAndColumn => after,
            ModelOperation::SumPool(pool) => after - logarithm((pool.window * pool.window) as u64),
            ModelOperation::GlobalSum => after - logarithm(self.shape(step.inputs[number]).pixels()),
            ModelOperation::ScalePixels { factors } => {
                after - 2 * logarithm(factors.iter().copied().max().unwrap_or(1).into())
            }
        }
    }

    /// Which values have errors of linear layers in them that no interactive step has rounded away.
    fn erring_values(&self) -> Vec<bool> {
        let mut erring = vec![false];
        for step in &self.steps {
            let is_linear = matches!(step.operation, ModelOperation::Linear { .. });
            let inherits =
                !step.operation.is_interactive() && step.inputs.iter().any(|value| erring[value.0]);
            erring.push(is_linear || inherits);
        }
        erring
    }
}

/// Twice the largest shift.
fn largest(shifts: &[u8]) -> i64 {
    2 * i64::from(shifts.iter().copied().max().unwrap_or(0))
}

/// To base two, rounded up.
fn logarithm(number: u64) -> i64 {
    i64::from(number.max(1).next_power_of_two().ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freeze::{FreezeOptions, freeze};
    use crate::image::Image;
    use crate::spec::NetworkSpec;
    use crate::transform::{cull_stage, drop_stem_relus};
    use crate::walk::StageIndex;
    use crate::weights::FloatWeights;
    use crate::zoo;

    fn outline(spec: &NetworkSpec) -> ModelOutline {
        let images = [Image::random(spec.draft().input, 1)];
        let weights = FloatWeights::random(spec, 1);
        freeze(spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0.outline().clone()
    }

    fn network(name: &str) -> NetworkSpec {
        zoo::build(name, 16, 10).unwrap()
    }

    /// The steps that read a value.
    fn readers(outline: &ModelOutline, id: StepId) -> Vec<&ModelStep> {
        outline.steps.iter().filter(|step| step.inputs.contains(&id.output())).collect()
    }

    #[test]
    fn a_layer_before_one_activation_tolerates_what_that_drops() {
        let outline = outline(&network("resnet10:m=4"));
        let mut seen = 0;
        for (id, tolerance) in outline.tolerances() {
            let ModelOperation::Linear { channel_shifts, .. } = &outline.step(id).operation else {
                panic!("only linear steps are listed")
            };
            let raised = i64::from(channel_shifts.iter().copied().max().unwrap());
            if let [ModelStep { operation: ModelOperation::Activate { shift, .. }, .. }] =
                readers(&outline, id)[..]
            {
                assert_eq!(i64::from(tolerance), (i64::from(*shift) - raised).max(0));
                seen += 1;
            }
        }
        assert!(seen >= 4);
    }

    #[test]
    fn the_last_layer_tolerates_what_the_logits_drop() {
        let outline = outline(&network("resnet10:m=4"));
        let (id, tolerance) = *outline.tolerances().last().unwrap();
        assert_eq!(id.output(), outline.output());
        assert!(tolerance > 0 && tolerance <= outline.logit_drop);
    }

    #[test]
    fn a_run_of_layers_gives_up_its_gain() {
        let spec = cull_stage(&drop_stem_relus(&network("resnet10:m=4")).unwrap(), StageIndex(1)).unwrap();
        let outline = outline(&spec);
        let tolerances = outline.tolerances();
        let of = |wanted: StepId| tolerances.iter().find(|(id, _)| *id == wanted).unwrap().1;
        let mut runs = 0;
        for (id, tolerance) in &tolerances {
            for reader in readers(&outline, *id) {
                let ModelOperation::Linear { geometry, .. } = &reader.operation else { continue };
                let next = outline.steps.iter().position(|step| std::ptr::eq(step, reader)).unwrap();
                let gain = (geometry.taps() * 32 * 32).ilog2() / 2;
                assert!(*tolerance <= of(StepId(next)).saturating_sub(gain), "{}", reader.name);
                runs += 1;
            }
        }
        assert!(runs > 0, "some layer reads another's output");
    }

    #[test]
    fn a_maximum_tolerates_nothing() {
        let spec = zoo::build("resnet10:m=4,stem=imagenet", 32, 10).unwrap();
        let mut outline = outline(&spec);
        // The stem's activation is taken out, so that the maximum reads the layer itself.
        let maximum =
            outline.steps.iter().position(|step| matches!(step.operation, ModelOperation::Maximum { .. }));
        outline.steps[maximum.unwrap()].inputs[0] = StepId(0).output();
        assert_eq!(outline.tolerances()[0], (StepId(0), 0));
    }

    #[test]
    fn of_two_branches_the_stricter_counts_and_both_errors_add() {
        let outline = outline(&network("resnet10:m=4"));
        let erring = outline.erring_values();
        let mut joined = 0;
        for (id, tolerance) in outline.tolerances() {
            for reader in readers(&outline, id) {
                let ModelOperation::Add { shifts } = &reader.operation else { continue };
                let number = reader.inputs.iter().position(|value| *value == id.output()).unwrap();
                let both = reader.inputs.iter().filter(|value| erring[value.0]).count() > 1;
                joined += u32::from(both);
                let sum = outline.steps.iter().position(|step| std::ptr::eq(step, reader)).unwrap();
                let [ModelStep { operation: ModelOperation::Activate { shift, .. }, .. }] =
                    readers(&outline, StepId(sum))[..]
                else {
                    continue;
                };
                let most = (2 * shift).saturating_sub(2 * u32::from(shifts[number]) + u32::from(both)) / 2;
                assert!(tolerance <= most, "{}: {tolerance} of {most}", reader.name);
            }
        }
        assert!(joined > 0, "some block adds two layers");
    }
}
