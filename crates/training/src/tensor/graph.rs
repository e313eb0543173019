//! A training step recorded once and replayed: one launch instead of hundreds.
//!
//! Small networks at small batches keep the GPU waiting for the processor, which launches each kernel by itself. A
//! CUDA graph holds all launches of a step; replaying it costs the processor one call. A recorded step reads and
//! writes the same memory each time, so everything that changes from step to step is a tensor it reads.
#![allow(unsafe_code, reason = "the border to libtorch")]

use std::ffi::c_void;
use std::ptr;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use super::gpu::{self, Gpu, GraphFunction};
use super::{Device, TensorError, guarded};

/// Whoever records, or runs what is not recorded, has the GPU alone: choosing algorithms takes and gives back memory, for
/// which the GPU finishes all that other threads have queued, so they must not queue an epoch more meanwhile (it took
/// minutes when they did).
static GPU_IN_USE: RwLock<()> = RwLock::new(());

fn alone() -> RwLockWriteGuard<'static, ()> {
    GPU_IN_USE.write().unwrap_or_else(PoisonError::into_inner)
}

/// As long as it lives, no other thread gives recorded steps to the GPU.
pub(crate) struct Alone {
    _guard: RwLockWriteGuard<'static, ()>,
}

impl Device {
    /// Has a GPU to itself, for work that takes memory as it goes; nothing is needed on a processor. Must not be held
    /// while a step is recorded, replayed or dropped, which would wait for it for ever.
    pub(crate) fn alone(self) -> Option<Alone> {
        (self == Self::Cuda).then(|| Alone { _guard: alone() })
    }
}

/// What recording asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// One step.
    Step,
    /// Everything as it was before the first step.
    Undo,
}

/// A recorded step.
pub struct CapturedStep {
    gpu: &'static Gpu,
    graph: *mut c_void,
}

// SAFETY: the graph belongs to the device, not to a thread; replays are serialized by `&mut`.
unsafe impl Send for CapturedStep {}

impl CapturedStep {
    /// Runs the step a few times on a side stream, so that algorithms are chosen and memory is had, has what those
    /// runs did undone, and records the step.
    ///
    /// # Errors
    /// When there is no GPU, or the step does something that cannot be recorded.
    pub fn record(warm_ups: usize, mut run: impl FnMut(Phase)) -> Result<Self, GraphError> {
        let gpu = gpu::shim().ok_or(GraphError::NoGpu)?;
        let mut graph = ptr::null_mut();
        // SAFETY: the shim writes a pointer it made.
        gpu.check(unsafe { (gpu.graph_new)(&raw mut graph) }).map_err(GraphError::Refused)?;
        let captured = Self { gpu, graph };
        // After `captured`, whose end takes it again: locals end in reverse order.
        let _alone = alone();
        captured.call(&gpu.graph_enter)?;
        let warm = guarded(|| {
            (0..warm_ups).for_each(|_| run(Phase::Step));
            run(Phase::Undo);
        });
        captured.call(&gpu.graph_leave)?;
        warm?;
        captured.call(&gpu.graph_begin)?;
        let recorded = guarded(|| run(Phase::Step));
        // Ended even after a failed step, or no other work could follow.
        let ended = captured.call(&gpu.graph_end);
        recorded?;
        ended?;
        Ok(captured)
    }

    /// Gives the recorded step to the device.
    ///
    /// # Errors
    /// When the device refuses it.
    pub fn replay(&mut self) -> Result<(), GraphError> {
        let _beside_others = GPU_IN_USE.read().unwrap_or_else(PoisonError::into_inner);
        self.call(&self.gpu.graph_replay)
    }

    fn call(&self, function: &GraphFunction) -> Result<(), GraphError> {
        // SAFETY: the graph was made by the shim and lives as long as `self`.
        self.gpu.check(unsafe { function(self.graph) }).map_err(GraphError::Refused)
    }
}

impl Drop for CapturedStep {
    fn drop(&mut self) {
        let _alone = alone();
        // SAFETY: made by the shim, deleted once.
        unsafe { (self.gpu.graph_delete)(self.graph) };
    }
}

/// A step that cannot be recorded or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// There is no GPU.
    #[error("a step can only be recorded on a GPU")]
    NoGpu,
    /// The device refused.
    #[error("the GPU refused to record or replay a step: {0}")]
    Refused(String),
    /// The step itself failed.
    #[error(transparent)]
    Step(#[from] TensorError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_nothing_is_recorded() {
        if gpu::shim().is_none() {
            let outcome = CapturedStep::record(1, |_| panic!("never run"));
            assert!(matches!(outcome, Err(GraphError::NoGpu)));
        }
    }
}
