//! Where prepared inferences outlive their session: the one trait of all stores.

use std::fmt;
use std::sync::Arc;

use crypto::secret::Secret;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::requests::{Room, StoredId};
use inference::server::{PreparedServer, ServedModel};
use inference::setup::messages::ModelName;

/// Whose a stored inference is, and for which model.
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
pub trait Store: Send + Sync {
    /// Whether this client may store so many more.
    ///
    /// # Errors
    /// When it may not, or the store fails.
    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), StoreFault>;

    /// Stores one durably before it returns. Only who shows the token with this BLAKE3 hash may take it. Says when it
    /// expires, in seconds since 1970.
    ///
    /// # Errors
    /// When the store fails.
    fn put(
        &self,
        owner: &Owner,
        token_hash: &[u8; 32],
        id: StoredId,
        prepared: PreparedServer,
    ) -> Result<u64, StoreFault>;

    /// Takes all of them or none. They are durably spent before it returns.
    ///
    /// # Errors
    /// When one is unknown, spent, expired, of another model or of another token, or the store fails.
    fn take(
        &self,
        owner: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[StoredId],
    ) -> Result<Vec<PreparedServer>, StoreFault>;

    /// How much it would store for this client now.
    ///
    /// # Errors
    /// When the store fails, or cannot say.
    fn room(&self, _owner: &Owner) -> Result<Room, StoreFault> {
        Err(cannot_say())
    }

    /// What it stores for who shows this token, of all models, and as many as a reply can name.
    ///
    /// # Errors
    /// When the store fails, or cannot say.
    fn list(&self, _token: &Secret<[u8; 32]>) -> Result<Vec<StoredId>, StoreFault> {
        Err(cannot_say())
    }

    /// Drops all that it stores for who shows this token, of all models; says how many they were.
    ///
    /// # Errors
    /// When the store fails, or cannot do so.
    fn discard(&self, _token: &Secret<[u8; 32]>) -> Result<u64, StoreFault> {
        Err(cannot_say())
    }
}

fn cannot_say() -> StoreFault {
    let text = "this server's store neither lists nor discards; what is in it goes when it expires";
    StoreFault::Refused(Refusal::new(RefusalCode::NotStored, text))
}

/// Why something is not stored or not given back.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// The client is told.
    #[error("{0}")]
    Refused(Refusal),
    /// The operator is told; the client hears that this side failed.
    #[error("the store of prepared inferences failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}
