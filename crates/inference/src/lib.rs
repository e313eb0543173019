//! The journey of an image through two parties and two phases.
//!
//! The client owns an image and learns the logits; the server owns the weights and learns nothing. The shape is
//! DELPHI's (Mishra et al., USENIX Security 2020): everything that does not need the image happens before it exists.
//!
//! ```text
//!                 client                                   server
//! set-up          nonce, keys, base transfers   <------->  nonce, outline, base transfers
//! offline         blinds r, encrypted           ------->
//!   (per flight)                                <-------   W r - s, encrypted; keeps s
//!                 choices of its share's bits   ------->   (oblivious transfer)
//!                                               <-------   garbled circuits, truncation offers
//! online          image - r                     ------->   linear layers on its shares
//!   (per round)                                 <-------   labels of its shares
//!                 shares of the activations     ------->
//!                                               <-------   its share of the logits
//! ```
//!
//! At every value the server holds `x - b` and the client `b`; the client knows `b` for all values before the image
//! exists. A ReLU that a mask drops costs no gate, label or table: its position is truncated instead, for a few bytes
//! in the same round trip ([`crypto::garble::truncate`]).
//!
//! ```text
//! plan         what both parties derive from the outline: steps, rounds, bytes
//! local        linear steps on one party's shares
//! labels       the stream of wire labels from oblivious transfer
//! client  server   the parties: set-up, prepare, classify
//! kept         prepared material as bytes, for an online phase over another connection
//! setup        hellos, session ids, commitments
//! requests     what a client asks for after the set-up
//! connection   messages between them: framed, checked, counted
//! workers      the threads of one party
//! transcript   what was sent, when, in which phase
//! verify       both parties in one process, held against the reference
//! ```

pub mod client;
pub mod connection;
mod error;
pub mod kept;
mod labels;
mod local;
pub mod plan;
pub mod requests;
pub mod server;
pub mod setup;
pub mod transcript;
pub mod verify;
mod workers;

pub use error::InferenceError;
