//! Oblivious transfer: how the client gets the wire labels of its bits while the server stays unaware of them.
pub mod base;
pub mod error;
pub mod extension;
pub mod ideal;
mod kernel;
mod tree;
pub mod values;

pub use tree::TreeSums;
