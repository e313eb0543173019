//! Networks in the clear: slow, obvious, there to be compared with.
//!
//! [`float`] runs a spec with its float weights and a mask in plain f32: the source of calibration and the oracle of
//! the trainer. [`run`] executes a frozen model on integers and wraps where the protocol wraps; [`run_with`] repeats
//! the protocol's own rounding from the client's shares, so that a private inference must equal it bit for bit. [`bound`]
//! says how far the two may be apart.

pub mod bound;
pub mod float;
mod integer;
pub(crate) mod kernels;
mod narrow;

pub use integer::{Coins, Difference, Trace, run, run_with, trace, weights_alone};
