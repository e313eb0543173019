//! After the image is known: one round trip for each round of nonlinear steps, everything else local.
//!
//! ```text
//!                 client                                   server
//! once            image - r                     ------->   linear layers on its shares
//! per round                                     <-------   openings: labels of its shares, masked differences
//!                 replies: shares of the values ------->   linear layers on its shares
//! once                                          <-------   its share of the logits, or labels of it for the argmax
//! ```
//!
//! Several images share every leg, and the server's every pass over its weights.

pub(crate) mod client;
pub(crate) mod messages;
pub(crate) mod server;
