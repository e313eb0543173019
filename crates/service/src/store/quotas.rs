//! Hourly quotas in the store: durable, and one for all servers that share it.

use super::{PreparedStore, StoreError};
use crate::quotas::{self, Drawn, Quota};

/// The table of buckets, in the words that both databases understand.
pub(super) trait QuotaRows {
    /// When a client's bucket will be full, in microseconds since 1970.
    fn quota(&mut self, owner: &[u8; 32], quota: i64) -> Result<Option<i64>, StoreError>;
    fn set_quota(&mut self, owner: &[u8; 32], quota: i64, full_at: i64) -> Result<(), StoreError>;
    /// Forgets buckets that are full.
    fn forget_quotas(&mut self, now: i64) -> Result<(), StoreError>;
}

impl PreparedStore {
    /// Draws from a client's bucket, which holds so many an hour. When it is given, that is durable for every process.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn draw(&self, owner: &[u8], quota: Quota, count: u32, per_hour: u32) -> Result<Drawn, StoreError> {
        let owner = self.owner(owner);
        let mut drawn = Drawn::Given;
        self.guarded(|transaction, _, now| {
            let now = now.saturating_mul(1_000_000);
            transaction.forget_quotas(now)?;
            let full_at = transaction.quota(&owner, quota.number())?.unwrap_or(now);
            drawn = match quotas::draw(full_at, now, count, per_hour) {
                Ok(full_at) => {
                    transaction.set_quota(&owner, quota.number(), full_at)?;
                    Drawn::Given
                }
                Err(drawn) => drawn,
            };
            Ok(())
        })?;
        Ok(drawn)
    }

    /// How many a client could draw at this moment.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn left(&self, owner: &[u8], quota: Quota, per_hour: u32) -> Result<u32, StoreError> {
        let owner = self.owner(owner);
        let mut left = 0;
        self.looked(|transaction, now| {
            let now = now.saturating_mul(1_000_000);
            let full_at = transaction.quota(&owner, quota.number())?.unwrap_or(now);
            left = quotas::left(full_at, now, per_hour);
            Ok(())
        })?;
        Ok(left)
    }
}
