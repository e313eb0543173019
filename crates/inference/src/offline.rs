//! Before the image is known: linear layers under encryption, then offers for everything nonlinear.
//!
//! ```text
//!                 client                                   server
//! per flight      blinds r, encrypted           ------->
//!                                               <-------   W r - s, encrypted; keeps s
//! once            choices of its share's bits   ------->   (oblivious transfer)
//! per part                                      <-------   garbled circuits, truncation offers
//! ```
//!
//! The client walks its own shares through the network: fresh blinds after each nonlinear step, and what the encrypted
//! layers answer in between. What both are left with serves exactly one inference.

pub(crate) mod client;
pub(crate) mod messages;
pub(crate) mod server;
