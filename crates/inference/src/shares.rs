//! One party's share of every value, as far as it is known.

use crypto::ring::{RingVector, Share};
use network::inference_model::{ModelOutline, ModelStep};
use network::walk::{StepId, ValueId};

use crate::InferenceError;
use crate::local;

/// One party's share of every value, as far as it is known.
pub(crate) struct Shares(Vec<Option<Share>>);

impl Shares {
    /// None is known yet.
    pub(crate) fn of_outline(outline: &ModelOutline) -> Self {
        Self((0..outline.value_count()).map(|_| None).collect())
    }

    /// The share of a value, which the schedule says is known.
    pub(crate) fn of(&self, value: ValueId) -> &RingVector {
        let share = self.0[value.0].as_ref();
        share.expect("the schedule asks for shares in the order they become known").expose()
    }

    pub(crate) fn set(&mut self, value: ValueId, share: RingVector) {
        self.0[value.0] = Some(Share::new(share));
    }

    /// Follows a step that needs nothing but the party's own shares.
    pub(crate) fn follow(&mut self, outline: &ModelOutline, id: StepId) -> Result<(), InferenceError> {
        let step: &ModelStep = outline.step(id);
        let inputs: Vec<&RingVector> = step.inputs.iter().map(|input| self.of(*input)).collect();
        let share = local::apply(outline, step, &inputs)?;
        self.set(id.output(), share);
        Ok(())
    }

    /// Takes a share out, for what comes after the walk.
    pub(crate) fn take(&mut self, value: ValueId) -> Share {
        self.0[value.0].take().expect("the schedule says that it is known")
    }
}
