//! Garbled circuits: ReLU, truncation, maximum and argmax over additive shares.
//!
//! The server garbles, the client evaluates (DELPHI, USENIX Security 2020, section 4.2). Half-gates of Zahur,
//! Rosulek, Evans (EUROCRYPT 2015) with the re-keyed hash of Guo, Katz, Wang, Weng, Yu (CRYPTO 2020), many
//! lanes in lock-step; outputs become additive shares by projection rows after Ball, Malkin, Rosulek (CCS
//! 2016).
//!
//! ```text
//!          server: Layer, Offset, zero labels Q               client: Layer, labels T = Q xor b offset
//! offline  ChunkGarbler::garble        -- HashKey, GarbledChunk -->        ChunkEvaluator::receive
//!          PreparedGarbler                                                 PreparedEvaluator
//! online   PreparedGarbler::encode(a)  -------- ActiveLabels ------>        PreparedEvaluator::evaluate(r)
//!          WaitingGarbler::finish      <---------- Reply -----------        S - r
//!          y - r                                                           r
//! ```
//!
//! A [`circuit::Circuit`] is data and describes one lane. A [`layer::Layer`] is many lanes, cut into chunks
//! of 64 that stream: each has its own hash counters, labels, tables and messages, whose lengths follow from
//! the circuit and the number of lanes. What is prepared is spent by value, once.
//!
//! Linearized positions are truncated without a circuit: see [`truncate`]. Where a ReLU may round by shares, a chain of
//! carries gives its sign and a gate multiplies by it, at a tenth of a circuit's bytes: see [`gates`].

pub mod argmax;
mod bits;
pub mod circuit;
pub mod clip;
mod error;
pub mod evaluator;
pub mod garbler;
pub mod gates;
pub mod hash;
#[cfg(any(test, feature = "testing"))]
pub mod ideal;
mod kernel;
pub mod label;
pub mod layer;
pub mod maximum;
pub mod messages;
mod projection;
pub mod relu;
mod sections;
#[cfg(test)]
mod testing;
pub mod truncate;
mod workspace;

#[cfg(test)]
mod attacks;
#[cfg(test)]
mod tests;

pub use error::{Counted, GarbleError, Message};
pub use workspace::Workspace;
