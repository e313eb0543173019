//! The time that work takes. A browser's module has no clock of its own: there, whoever loads it brings one.

#[cfg(target_arch = "wasm32")]
mod brought;

#[cfg(target_arch = "wasm32")]
pub(crate) use brought::Instant;
#[cfg(target_arch = "wasm32")]
pub use brought::bring;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use std::time::Instant;
