//! What one training result needs, as data: read, checked and written without a tensor library.
//!
//! ```text
//! array       numbers with a shape, as checkpoints hold them
//! random      numbers from a seed, the same on every machine
//! data        images and classes: CIFAR, folders of images, a synthetic set; the held-out split
//! schedule    learning rates and warm-ups as pure functions of the step
//! recipe      the TOML file that names all that one result needs
//! method      fewer ReLUs for the accuracy: what DeepReDuce, SNL and DeepReShape do for a budget
//! checkpoint  a run on disk: written atomically, sharded, checked by digest
//! log         what happened, one JSON object per line
//! ```
//!
//! The crate `training` does what is described here; checkpoints can be frozen without it.

pub mod array;
pub mod checkpoint;
pub mod data;
pub mod log;
pub mod method;
pub mod random;
pub mod recipe;
pub mod schedule;

#[cfg(test)]
mod scratch;
