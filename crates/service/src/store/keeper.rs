//! The store as the service sees it.

use crypto::secret::Secret;
use inference::connection::refusal::{Refusal, RefusalCode};
use inference::requests::KeptId;
use inference::server::PreparedServer;

use sealed::ClientToken;

use super::{PreparedStore, StoreError};
use crate::keeper::{KeepError, Keeper, Owner};
use sealed::seal::OVERHEAD;

impl Keeper for PreparedStore {
    fn has_room(&self, owner: &Owner, count: u32) -> Result<(), KeepError> {
        let bytes = (owner.served.plan().kept_server_bytes() + OVERHEAD) as u64;
        let count = u64::from(count);
        Ok(self.expect_room(owner.client.0.as_bytes(), count, bytes.saturating_mul(count))?)
    }

    fn keep(
        &self,
        owner: &Owner,
        token_hash: &[u8; 32],
        id: KeptId,
        prepared: PreparedServer,
    ) -> Result<u64, KeepError> {
        Ok(self.put(owner.client.0.as_bytes(), id, token_hash, prepared)?)
    }

    fn take(
        &self,
        owner: &Owner,
        token: &Secret<[u8; 32]>,
        ids: &[KeptId],
    ) -> Result<Vec<PreparedServer>, KeepError> {
        let token = ClientToken::from_bytes(*token.expose());
        Ok(PreparedStore::take(self, ids, &token, &owner.served)?)
    }
}

impl From<StoreError> for KeepError {
    /// What a client can do something about is told to it; the rest is the operator's.
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::Unknown { .. } | StoreError::Kept { .. } => RefusalCode::Spent,
            StoreError::Full { .. } => RefusalCode::Limit,
            _ => return Self::Failed(Box::new(error)),
        };
        Self::Refused(Refusal::new(code, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_tell_which_inference_is_refused() {
        let id = KeptId([0xa7; 16]);
        let source = inference::kept::KeptError::Length { expected: 1, came: 2 };
        for error in [StoreError::Unknown { id }, StoreError::Kept { id, source }] {
            let KeepError::Refused(refusal) = KeepError::from(error) else { panic!("a refusal") };
            let heard = Refusal::from_bytes(&refusal.to_bytes());
            assert_eq!(KeptId::spent_by(&heard), Some(id), "{heard}");
        }
    }
}
