//! The client in a browser: a WebAssembly module that speaks TLS and the protocol over whatever carries its bytes.
//!
//! ```text
//! page          asks: connect, look at an image, prepare, classify          hears: progress, answers
//!   worker      this module; waits for bytes where a program would wait for its socket
//!     socket    a WebSocket in a worker of its own; sees TLS records alone
//! ```
//!
//! ```text
//! abi        what the module takes from the page's script and gives to it (WebAssembly alone)
//! session    the questions and their answers, as JSON
//! overheard  what the server gets of a picture, for the page to show
//! secured    TLS 1.3 over any stream, to a server that is known by its fingerprint
//! provider   the cryptography of TLS in Rust alone, without tables and branches that depend on secrets
//! ```
//!
//! Nothing here knows a browser: the same code runs in tests over a socket. `scripts/web-client` builds the module.

#[cfg(target_arch = "wasm32")]
mod abi;
pub mod overheard;
pub mod provider;
pub mod secured;
pub mod session;
