//! How a network gets weights and loses ReLUs.
//!
//! ```text
//! array       numbers with a shape, as checkpoints hold them
//! random      numbers from a seed, the same on every machine
//! data        images and classes: CIFAR, folders of images, a synthetic set; the held-out split
//! schedule    learning rates and warm-ups as pure functions of the step
//! recipe      the TOML file that names all that one result needs
//! checkpoint  a run on disk: written atomically, sharded, checked by digest
//! log         what happened, one JSON object per line
//! report      logs as one HTML page with curves
//! ```

pub mod array;
pub mod checkpoint;
pub mod data;
pub mod log;
pub mod random;
pub mod recipe;
pub mod report;
pub mod schedule;

#[cfg(test)]
mod scratch;
