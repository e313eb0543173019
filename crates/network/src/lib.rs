//! What a network is: pure data, described once and walked by everyone.
//!
//! The trainer, the ReLU counter, the freezer and the private-inference protocol all read the same
//! [`spec::NetworkSpec`] through the same traversal, [`walk::Walk`]. Nothing here trains or sends; the executors in
//! [`mod@reference`] are slow and obvious, there to be compared with.
//!
//! ```text
//! shape       channels, height, width
//! spec        stem, stages, blocks, layers as plain data; TOML; a spec that exists has shapes that fit
//! walk        the one traversal: every elementary operation in order, with shapes and skip connections
//! imported    networks made elsewhere: a walk with its weights, built operation by operation
//! cost        ReLUs, max pools, multiply-adds and parameters, per operation, block, stage and network
//! mask        which ReLUs are kept, scalar by scalar; a compact checked file
//! zoo         named families as functions to specs
//! transform   cull, thin, reshape, reuse: pure functions from spec to spec
//! design      which network to build for a budget: criticality, equalization, capacity
//! image       pixels, and how they become numbers
//! weights     float weights keyed by the names of the walk's steps; random ones, safetensors files
//! freeze      float weights to integers: batch norms folded, scales, widths and rings chosen
//! inference_model   the frozen network: integers only, and what of it the client may know
//! reference   networks in the clear: in floating point, and on integers as the protocol computes
//! text        numbers and errors as people read them
//! ```

#![forbid(unsafe_code)]

pub mod bytes;
pub mod cost;
pub mod design;
pub mod digest;
pub mod freeze;
pub mod image;
pub mod imported;
pub mod inference_model;
pub mod mask;
pub mod reference;
pub mod shape;
pub mod spec;
pub mod text;
pub mod transform;
pub mod walk;
pub mod weights;
pub mod zoo;
