//! The service: what lives longer than one connection.
//!
//! ```text
//! store           the server's halves of prepared inferences: durable, sealed, spent once
//! prepared_file   the client's halves in a file: sealed, destroyed one by one before use
//! secret_file     keys and files that only their owner may read
//! ```

pub mod prepared_file;
mod seal;
pub mod secret_file;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
