//! The tools of private inference, in the order a value meets them.
//!
//! This crate knows no network, socket or clock. Randomness enters as an argument, messages are data. `he`, `ot` and
//! `garble` have an ideal twin, kept by a trusted third party: their own tests compare with it, and with the feature
//! `testing` a benchmark and a fuzz target start from it. What each tool promises, to whom, and why, stands in
//! `docs/src/security`.
//!
//! ```text
//! secret  random  domain   how secrets are held, drawn and kept apart
//! cpu                      which kernels this processor may run
//! wide                     safe loops, compiled for each instruction set
//! ring                     Z_2^l: shares, packing, the integer kernels of the online phase
//! he                       RLWE: the linear layers of the offline phase
//! ot                       oblivious transfer: how the client gets its wire labels
//! garble                   garbled circuits: ReLU, truncation, maximum, argmax
//! ```

// What serves the kernels of x86-64 alone has no reader on other processors.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_mut, unused_variables))]

pub mod cpu;
pub mod domain;
pub mod garble;
pub mod he;
pub mod ot;
pub mod random;
pub mod ring;
pub mod secret;
mod wide;
