//! The service: many clients, several models, one process that survives them all.
//!
//! ```text
//! server     accepts connections, bounds their number, ends gracefully
//! session    one client: handshake, requests, refusals
//! queue      who computes now and who waits, first come first served
//! limits     clients, computing, memory, time
//! keeper     where prepared inferences outlive their session
//! identity   the certificate made on first start, the salt of commitments
//! store      such a keeper: durable, sealed, spent once, in SQLite or PostgreSQL
//! process_memory  no core dumps, no swap
//! metrics    counters, and the small HTTP that shows them
//! settings   flags and the TOML file, each setting once
//! models     files become models that can be served
//! ```

pub mod identity;
pub mod keeper;
pub mod limits;
pub mod metrics;
pub mod models;
pub mod process_memory;
mod queue;
pub mod server;
mod session;
pub mod settings;
pub mod store;

pub use keeper::{ClientName, KeepError, Keeper, Owner};
pub use limits::{ByteSize, Limits};
pub use server::{Service, ServiceParts};
pub use settings::Settings;
