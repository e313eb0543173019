//! Secrets at rest, for both sides of an inference that was prepared ahead.
//!
//! ```text
//! secret_file   keys and files that only their owner may read
//! keyring       the same key from the kernel's keyring
//! seal          AES-256-GCM under keys that each seal one thing
//! token         what a client shows to get its inferences back
//! ```

#![forbid(unsafe_code)]

pub mod keyring;
pub mod seal;
pub mod secret_file;
mod token;

pub use token::ClientToken;
