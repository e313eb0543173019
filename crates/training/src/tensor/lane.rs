//! Work that runs beside other work of the same thread on a GPU.
//!
//! ```text
//! thread's queue   ── batch, teacher ─┬─ first network ──┬─ next step
//! lane                                └─ second network ─┘
//! ```
//!
//! Small networks leave most of a GPU idle. A lane is a second queue: what [`Lane::run`] gives to it begins after
//! everything the thread gave before, and the thread's queue goes on without it until [`Lane::join`]. On a processor
//! there is nothing to divide, and the work is done on the spot.
#![allow(unsafe_code, reason = "the border to libtorch")]

use std::ffi::c_void;
use std::ptr;

use super::gpu::{self, Gpu, GraphFunction};
use super::{Device, TensorError};

/// A queue beside the thread's own.
pub(crate) struct Lane(Option<Queue>);

struct Queue {
    gpu: &'static Gpu,
    lane: *mut c_void,
}

// SAFETY: a queue belongs to the device, not to a thread; its use is serialized by `&mut`.
unsafe impl Send for Queue {}

impl Lane {
    /// A lane of a device.
    ///
    /// # Errors
    /// When the GPU refuses one.
    pub(crate) fn new(device: Device) -> Result<Self, TensorError> {
        let Some(gpu) = gpu::shim().filter(|_| device == Device::Cuda) else { return Ok(Self(None)) };
        let mut lane = ptr::null_mut();
        // SAFETY: the shim writes a pointer it made.
        gpu.check(unsafe { (gpu.lane_new)(&raw mut lane) })
            .map_err(|detail| TensorError::Refused { detail })?;
        Ok(Self(Some(Queue { gpu, lane })))
    }

    /// Gives work to the lane. What it makes must be used by the lane alone until it is joined.
    ///
    /// # Panics
    /// When the GPU refuses, as the tensor library itself does.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        match &mut self.0 {
            None => work(),
            Some(queue) => {
                let inside = queue.enter();
                let made = work();
                drop(inside);
                made
            }
        }
    }

    /// Lets the thread's queue wait for the lane.
    ///
    /// # Panics
    /// As [`Self::run`].
    pub(crate) fn join(&mut self) {
        if let Some(queue) = &self.0 {
            queue.call(&queue.gpu.lane_join).unwrap_or_else(|words| panic!("{words}"));
        }
    }
}

/// As long as it lives, the thread's work goes to the lane; it ends even when the work panics.
struct Inside<'a>(&'a Queue);

impl Queue {
    fn enter(&self) -> Inside<'_> {
        self.call(&self.gpu.lane_enter).unwrap_or_else(|words| panic!("{words}"));
        Inside(self)
    }

    fn call(&self, function: &GraphFunction) -> Result<(), String> {
        // SAFETY: the lane was made by the shim and lives as long as `self`.
        self.gpu.check(unsafe { function(self.lane) })
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // It only names the queue that this thread used before, which cannot fail once it was entered.
        let _ = self.0.call(&self.0.gpu.lane_leave);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: made by the shim, deleted once.
        unsafe { (self.gpu.lane_delete)(self.lane) };
    }
}
