//! RLWE with coefficient packing.

mod error;
pub mod ideal;
mod kernel;
mod modulus;
mod ntt;
mod packing;
mod parameters;

pub use error::HeError;
pub use packing::{ConvolutionShape, Layout, LinearShape};
pub use parameters::{HeOutline, HeParameters, WeightBits};
