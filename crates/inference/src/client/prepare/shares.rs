//! The client's shares: fresh blinds, answers of linear layers, and what follows from them.

use crypto::random::Generator;
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, ModelOutline};
use network::walk::ValueId;

use crate::InferenceError;
use crate::local;

/// The client's share of every value, as far as it is known.
pub(super) struct ClientShares<'a> {
    outline: &'a ModelOutline,
    values: Vec<Option<Share>>,
    /// Fresh uniform words for every value that a step with messages makes; reduced to whatever ring is needed.
    pub(super) blinds: Vec<Secret<Vec<u64>>>,
}

impl<'a> ClientShares<'a> {
    pub(super) fn new(outline: &'a ModelOutline, generator: &mut Generator) -> Result<Self, InferenceError> {
        let mut shares =
            Self { outline, values: (0..=outline.steps.len()).map(|_| None).collect(), blinds: Vec::new() };
        let width = RingWidth::new(outline.image_ring_bits)?;
        let image = words(outline.input.scalars() as usize, generator);
        shares.values[0] = Some(Share::new(RingVector::from_unsigned(width, image.expose())));
        for (index, step) in outline.steps.iter().enumerate() {
            let is_fresh =
                matches!(step.operation, ModelOperation::Activate { .. } | ModelOperation::Maximum { .. });
            let count = if is_fresh { step.shape.scalars() as usize } else { 0 };
            let fresh = words(count, generator);
            if is_fresh {
                let width = RingWidth::new(step.ring_bits)?;
                let share = RingVector::from_unsigned(width, fresh.expose());
                shares.values[index + 1] = Some(Share::new(share));
            }
            shares.blinds.push(fresh);
        }
        shares.run_local_steps()?;
        Ok(shares)
    }

    pub(super) fn of(&self, value: ValueId) -> &RingVector {
        let share = self.values[value.0].as_ref();
        share.expect("the plan asks for shares in the order they become known").expose()
    }

    /// Takes W r - s and brings it to the scale of the step's output.
    pub(super) fn set_linear(&mut self, index: usize, share: &[u64]) -> Result<(), InferenceError> {
        let step = &self.outline.steps[index];
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("the plan lists linear steps")
        };
        let share = RingVector::from_unsigned(RingWidth::new(step.ring_bits)?, share);
        let share = local::shift_channels(share, channel_shifts, step.shape)?;
        self.values[index + 1] = Some(Share::new(share));
        Ok(())
    }

    /// Follows every local step whose inputs are known.
    pub(super) fn run_local_steps(&mut self) -> Result<(), InferenceError> {
        for (index, step) in self.outline.steps.iter().enumerate() {
            if self.values[index + 1].is_some() || !local::is_local(&step.operation) {
                continue;
            }
            let inputs: Option<Vec<&RingVector>> =
                step.inputs.iter().map(|input| self.values[input.0].as_ref().map(Share::expose)).collect();
            if let Some(inputs) = inputs {
                let value = local::apply(self.outline, step, &inputs)?;
                self.values[index + 1] = Some(Share::new(value));
            }
        }
        Ok(())
    }
}

fn words(count: usize, generator: &mut Generator) -> Secret<Vec<u64>> {
    Secret::new((0..count).map(|_| generator.next_u64()).collect())
}
