//! A step that is recorded on a GPU at its first use and run as it is elsewhere.

use crate::learn::{LearnError, WARM_UPS};
use crate::tensor::{
    CapturedStep, Device, GraphError, Phase, Tensor, TensorError, choose_fastest_convolutions, guarded,
    no_grad,
};

/// What a step works on.
pub(super) trait Recordable {
    /// Everything that a step changes.
    fn changed(&self) -> Vec<Tensor>;
    /// Reads again what was put back.
    fn refresh(&mut self);
}

/// One kind of step.
#[derive(Default)]
pub(super) enum Recorded {
    /// Not tried yet.
    #[default]
    NotYet,
    /// Recorded.
    Step(CapturedStep),
    /// It cannot be; why, on a device that records others.
    No(Option<String>),
}

impl Recorded {
    /// Why a GPU could not record it.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self {
            Self::No(reason) => reason.as_deref(),
            Self::NotYet | Self::Step(_) => None,
        }
    }

    /// Makes a step. Nothing in it may wait for the device or read from it.
    ///
    /// # Errors
    /// When the device runs out of memory, or refuses.
    pub(super) fn run<S: Recordable>(
        &mut self,
        device: Device,
        state: &mut S,
        step: impl Fn(&mut S),
    ) -> Result<(), LearnError> {
        if matches!(self, Self::NotYet) {
            *self = record(device, state, &step)?;
        }
        match self {
            Self::Step(captured) => Ok(captured.replay()?),
            Self::NotYet | Self::No(_) => {
                let _alone = device.alone();
                Ok(guarded(|| step(state))?)
            }
        }
    }
}

fn record<S: Recordable>(
    device: Device,
    state: &mut S,
    step: impl Fn(&mut S),
) -> Result<Recorded, LearnError> {
    if device == Device::Cpu {
        return Ok(Recorded::No(None));
    }
    choose_fastest_convolutions();
    let before = guarded(|| no_grad(|| state.changed().iter().map(Tensor::copy).collect::<Vec<_>>()))?;
    let undo = |state: &mut S| {
        no_grad(|| {
            for (mut tensor, before) in state.changed().into_iter().zip(&before) {
                tensor.copy_(before);
            }
            state.refresh();
        });
    };
    let outcome = CapturedStep::record(WARM_UPS, |phase| match phase {
        Phase::Step => step(state),
        Phase::Undo => undo(state),
    });
    match outcome {
        Ok(step) => Ok(Recorded::Step(step)),
        Err(GraphError::Step(error @ TensorError::OutOfMemory { .. })) => Err(error.into()),
        // A step that cannot be recorded is run as it is.
        Err(error) => {
            guarded(|| undo(state))?;
            Ok(Recorded::No(Some(error.to_string())))
        }
    }
}
