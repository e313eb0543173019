//! Where prepared inferences outlive their session.

use std::fmt;
use std::sync::Arc;

use crypto::secret::Secret;
use inference::connection::refusal::Refusal;
use inference::requests::KeptId;
use inference::server::{PreparedServer, ServedModel};
use inference::setup::hello::ModelName;

/// Whose a kept inference is, and for which model.
#[derive(Clone)]
pub struct Owner {
    /// The model's name.
    pub model: ModelName,
    /// The model.
    pub served: Arc<ServedModel>,
    /// The client, for limits.
    pub client: ClientName,
}

/// Who a client is to the server: the fingerprint of its certificate, or the address it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientName(pub String);

impl fmt::Display for ClientName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A durable store of prepared inferences. Its calls come from the threads of sessions.
pub trait Keeper: Send + Sync {
    /// Whether this client may store so many more.
    ///
    /// # Errors
    /// When it may not, or the store fails.
    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), KeepError>;

    /// Stores one durably before it returns. Only who shows the token with this BLAKE3 hash may take it. Says when it
    /// expires, in seconds since 1970.
    ///
    /// # Errors
    /// When the store fails.
    fn keep(
        &self,
        owner: &Owner,
        token_hash: &[u8; 32],
        id: KeptId,
        prepared: PreparedServer,
    ) -> Result<u64, KeepError>;

    /// Takes all of them or none. They are durably spent before it returns.
    ///
    /// # Errors
    /// When one is unknown, spent, expired, of another model or of another token, or the store fails.
    fn take(
        &self,
        owner: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[KeptId],
    ) -> Result<Vec<PreparedServer>, KeepError>;
}

/// Why something is not kept or not given back.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The client is told.
    #[error("{0}")]
    Refused(Refusal),
    /// The operator is told; the client hears that this side failed.
    #[error("the store of prepared inferences failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
