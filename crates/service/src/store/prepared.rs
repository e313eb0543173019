//! The store as the service sees it.

use crypto::secret::Secret;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::requests::{Room, StoredId};
use inference::server::PreparedServer;

use network::text::with_causes;
use sealed::ClientToken;
use tracing::warn;

use super::{PreparedStore, StoreError};
use crate::quotas::{Drawn, Quota};
use crate::stores::{ClientName, Owner, Store, StoreFault};
use sealed::seal::OVERHEAD;

impl Store for PreparedStore {
    fn close(&self) {
        if let Err(error) = self.expire() {
            warn!(reason = %with_causes(&error), "the store of prepared inferences");
        }
    }

    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), StoreFault> {
        let count = u64::from(count);
        Ok(self.expect_room(owner.client.0.as_bytes(), count, row_bytes(owner).saturating_mul(count))?)
    }

    fn put(
        &self,
        owner: &Owner,
        token_hash: &[u8; 32],
        id: StoredId,
        prepared: PreparedServer,
    ) -> Result<u64, StoreFault> {
        Ok(self.put(owner.client.0.as_bytes(), id, token_hash, prepared)?)
    }

    fn take(
        &self,
        owner: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[StoredId],
    ) -> Result<Vec<PreparedServer>, StoreFault> {
        let token = ClientToken::from_bytes(*token.expose());
        Ok(PreparedStore::take(self, ids, &token, &owner.served)?)
    }

    fn draw(
        &self,
        client: &ClientName,
        quota: Quota,
        count: u32,
        per_hour: u32,
    ) -> Result<Option<Drawn>, StoreFault> {
        Ok(Some(PreparedStore::draw(self, client.0.as_bytes(), quota, count, per_hour)?))
    }

    fn left(&self, client: &ClientName, quota: Quota, per_hour: u32) -> Result<Option<u32>, StoreFault> {
        Ok(Some(PreparedStore::left(self, client.0.as_bytes(), quota, per_hour)?))
    }

    fn room(&self, owner: &Owner) -> Result<Room, StoreFault> {
        Ok(PreparedStore::room(self, owner.client.0.as_bytes(), row_bytes(owner))?)
    }

    fn list(&self, token: &Secret<[u8; 32]>) -> Result<Vec<StoredId>, StoreFault> {
        Ok(PreparedStore::list(self, &ClientToken::from_bytes(*token.expose()))?)
    }

    fn discard(&self, token: &Secret<[u8; 32]>) -> Result<u64, StoreFault> {
        Ok(PreparedStore::discard(self, &ClientToken::from_bytes(*token.expose()))?)
    }
}

/// What the server's half of one inference takes.
fn row_bytes(owner: &Owner) -> u64 {
    (owner.served.plan().stored_server_bytes() + OVERHEAD) as u64
}

impl From<StoreError> for StoreFault {
    /// What a client can do something about is told to it; the rest is the operator's.
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unknown { id } | StoreError::Unusable { id, .. } => {
                Self::Refused(Refusal::about(RefusalCode::Spent, id, error.to_string()))
            }
            StoreError::Full { .. } => Self::Refused(Refusal::new(RefusalCode::Limit, error.to_string())),
            _ => Self::Failed(Box::new(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_tell_which_inference_is_refused() {
        let id = StoredId([0xa7; 16]);
        let source = inference::stored::StoredError::Length { expected: 1, came: 2 };
        for error in [StoreError::Unknown { id }, StoreError::Unusable { id, source }] {
            let StoreFault::Refused(refusal) = StoreFault::from(error) else { panic!("a refusal") };
            let heard = Refusal::from_bytes(&refusal.to_bytes());
            assert_eq!((heard.code, heard.subject()), (RefusalCode::Spent, Some(id)), "{heard}");
        }
    }
}
