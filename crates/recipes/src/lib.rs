//! What one training result needs, as data: read, checked and written without a tensor library.
//!
//! ```text
//! array       numbers with a shape, as checkpoints hold them
//! random      numbers from a seed, the same on every machine
//! data        images and classes: CIFAR, folders of images, a synthetic set; the held-out split
//! schedule    learning rates and warm-ups as pure functions of the step
//! recipe      the TOML file that names all that one result needs
//! ours        recipes that come with the product and that others begin with
//! method      fewer ReLUs for the accuracy: what DeepReDuce, SNL, DeepReShape and Sphynx do for a budget
//! claim       who works in a folder, where several workers share a file system
//! checkpoint  a run on disk: written atomically, sharded, checked by digest
//! log         what happened, one JSON object per line
//! trial       networks and frozen models on images whose classes are known
//! file        files read up to a limit, written whole; the one error of both
//! ```
//!
//! The crate `training` does what is described here; checkpoints can be frozen without it.

#![forbid(unsafe_code)]

pub mod array;
pub mod checkpoint;
pub mod claim;
pub mod data;
pub mod file;
pub mod log;
pub mod method;
pub mod ours;
pub mod random;
pub mod recipe;
pub mod schedule;
pub mod trial;
