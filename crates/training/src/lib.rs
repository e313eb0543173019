//! How a network gets its weights and loses its ReLUs.
//!
//! ```text
//! array       numbers with a shape, as checkpoints hold them
//! random      numbers from a seed, the same on every machine
//! tensor      the tensor framework; the only module that names it
//! assemble    from a spec to a network that can be trained
//! augment     crops, flips and mixtures of images, on the device
//! distill     losses: cross-entropy, and what a teacher adds
//! learn       the loop: batches, gradients, optimizer, averages
//! ```

pub mod array;
pub mod assemble;
pub mod augment;
pub mod distill;
pub mod learn;
pub mod random;
pub mod tensor;
