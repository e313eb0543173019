//! The service: many clients, several models, one process that survives them all.
//!
//! ```text
//! server     accepts connections, bounds their number, ends gracefully
//! session    one client: handshake, requests, refusals
//! entrance   what stands before all computing: quotas, and a place
//! offer      the certificate and models that new clients get
//! queue      who computes now and who waits: places and memory, clients in turn
//! seat       one session's place, given up while the client is waited for
//! limits     clients, computing, memory, time; for all, and for one client
//! quotas     what one client may have in an hour
//! proxy      whose connection a balancer passes on
//! stores     where prepared inferences outlive their session: one trait
//! identity   the certificate made on first start, the salt of commitments
//! store      such a store: durable, sealed, spent once, in SQLite or PostgreSQL
//! process_memory  no core dumps, no swap, as many open files as there may be
//! machine_memory  how much there is, control groups considered
//! http       as much of it as metrics and page need
//! metrics    counters, shown to programs and to the operator
//! settings   flags and the TOML file, each setting once
//! models     files become models that can be served
//! web        the page for browsers, and the WebSocket of its client
//! ```

#![forbid(unsafe_code)]

mod entrance;
mod http;
pub mod identity;
pub mod limits;
mod machine_memory;
pub mod metrics;
pub mod models;
mod offer;
pub mod process_memory;
pub mod proxy;
mod queue;
pub mod quotas;
mod seat;
pub mod server;
mod session;
pub mod settings;
pub mod store;
mod stores;
pub mod web;

pub use limits::{ByteSize, ClientLimits, ClientMemoryTooSmall, Limits, thread_count};
pub use offer::NoRoomToReload;
pub use server::{Service, ServiceParts, TooLittleMemory};
pub use settings::Settings;
pub use stores::{ClientName, Owner, Store, StoreFault};

// What the items above take and give, so that a program needs no other crate of ours.
pub use inference::InferenceError;
pub use inference::connection::refusal::{Refusal, RefusalCode};
pub use inference::connection::{CertifiedKey, Fingerprint, Identity, TlsAcceptor, TlsError};
pub use inference::plan::{ReluRounding, Reveal, Terms};
pub use inference::requests::{Room, StoredId};
pub use inference::server::{PreparedServer, ServedModel, WeightMemory};
pub use inference::setup::messages::ModelName;
pub use network::inference_model::{InferenceModel, ModelFileError};
