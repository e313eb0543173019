//! How a network gets its weights and loses its ReLUs. All of it needs libtorch.
//!
//! ```text
//! tensor      the tensor framework; the only module that names it
//! assemble    from a spec to a network that can be trained
//! augment     crops, flips, changes and mixtures of images, on the device
//! distill     losses: cross-entropy, and what a teacher adds
//! learn       the loop: batches, gradients, optimizer, averages
//! run         a recipe becomes a run
//! optimize    a recipe with a method becomes trained networks of few ReLUs
//! ```
//!
//! What a run reads and writes is described in the crate `recipes`, what it came to in `results`.

pub mod assemble;
mod augment;
mod distill;
pub mod learn;
pub mod optimize;
pub mod run;
pub mod tensor;
