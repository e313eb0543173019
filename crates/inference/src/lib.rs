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
//! One image's way, top-down:
//!
//! ```text
//! plan          what both parties derive from the outline: parameters, parts, messages, bytes
//! setup         hellos, session ids, commitments, keys and base transfers
//! offline       linear layers under encryption, offers for everything nonlinear
//! online        blinded image, openings and replies, the answer
//! ```
//!
//! The phases are folders with a `client`, a `server` and their `messages`; none of them knows a connection. They use
//!
//! ```text
//! conversation  messages in the order of the plan, bytes in pieces, no sockets
//! nonlinear     what needs messages: ReLUs, maxima, truncations, the argmax; a file a side for each
//! shares        one party's shares, and the local steps on them (local)
//! labels        the stream of wire labels from oblivious transfer
//! geometry      the network's layers in the words of the tools
//! stored        prepared material as bytes, for an online phase over another connection
//! roots         where seeds and nonces come from
//! ```
//!
//! and at the edge, where bytes move:
//!
//! ```text
//! client  server   sessions over a connection: set up, prepare, classify
//! requests      what a client asks for after the set-up
//! connection    frames, checked and counted; in memory or over TLS
//! workers       the threads of one party
//! clock         what measures time, here and in a browser
//! turns         who computes when, where several sessions share the processors
//! transcript    what was sent, when, in which phase
//! verify        both parties in one process, held against the reference
//! ```

#![forbid(unsafe_code)]

pub mod client;
pub mod clock;
pub mod connection;
mod conversation;
mod error;
mod geometry;
mod labels;
mod local;
mod nonlinear;
mod offline;
mod online;
pub mod plan;
pub mod requests;
mod roots;
pub mod server;
pub mod setup;
mod shares;
pub mod stored;
pub mod transcript;
pub mod turns;
#[cfg(test)]
mod vectors;
pub mod verify;
mod workers;

pub use error::InferenceError;
