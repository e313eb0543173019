//! What a network is: pure data, described once and walked by everyone.
//!
//! The trainer, the ReLU counter, the freezer and the private-inference protocol all read the same
//! [`spec::NetworkSpec`] through the same traversal, [`walk::Walk`]. Nothing here trains, sends or computes on
//! images.
//!
//! ```text
//! shape       channels, height, width
//! spec        stem, stages, blocks, layers as plain data; TOML; a spec that exists has shapes that fit
//! walk        the one traversal: every elementary operation in order, with shapes and skip connections
//! cost        ReLUs, max pools, multiply-adds and parameters, per operation, block, stage and network
//! mask        which ReLUs are kept, scalar by scalar; a compact checked file
//! zoo         named families as functions to specs
//! transform   cull, thin, reshape, reuse: pure functions from spec to spec
//! design      which network to build for a budget: criticality, equalization, capacity
//! ```

pub mod cost;
pub mod design;
pub mod mask;
pub mod shape;
pub mod spec;
pub mod transform;
pub mod walk;
pub mod zoo;
