//! How a network gets its weights and loses its ReLUs.
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
//! optimize    fewer ReLUs for the accuracy: DeepReDuce, SNL, DeepReShape
//! trial       networks and frozen models on images whose classes are known
//! reproduce   the papers' tables and figures as recipes, with what they print and what we measured
//! pareto      results as one HTML page: accuracy against ReLUs and measured latency, beside the papers' points
//! ```
//!
//! With the feature `libtorch`, which the others do without, so that checkpoints can be frozen anywhere:
//!
//! ```text
//! tensor      the tensor framework; the only module that names it
//! assemble    from a spec to a network that can be trained
//! augment     crops, flips, changes and mixtures of images, on the device
//! distill     losses: cross-entropy, and what a teacher adds
//! learn       the loop: batches, gradients, optimizer, averages
//! run         a recipe becomes a run
//! ```

pub mod array;
#[cfg(feature = "libtorch")]
pub mod assemble;
#[cfg(feature = "libtorch")]
pub mod augment;
pub mod checkpoint;
pub mod data;
#[cfg(feature = "libtorch")]
pub mod distill;
#[cfg(feature = "libtorch")]
pub mod learn;
pub mod log;
pub mod optimize;
pub mod pareto;
pub mod random;
pub mod recipe;
pub mod report;
pub mod reproduce;
#[cfg(feature = "libtorch")]
pub mod run;
pub mod schedule;
#[cfg(feature = "libtorch")]
pub mod tensor;
pub mod trial;

#[cfg(test)]
mod scratch;
