//! Hourly quotas in PostgreSQL.

use super::{PostgresTransaction, failed};
use crate::store::StoreError;
use crate::store::quotas::QuotaRows;

pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS sordino_quotas (
        owner BYTEA NOT NULL, quota BIGINT NOT NULL, full_at BIGINT NOT NULL, PRIMARY KEY (owner, quota));";

impl QuotaRows for PostgresTransaction<'_> {
    fn quota(&mut self, owner: &[u8; 32], quota: i64) -> Result<Option<i64>, StoreError> {
        let text = "SELECT full_at FROM sordino_quotas WHERE owner = $1 AND quota = $2";
        let found = self.inner.query_opt(text, &[&&owner[..], &quota]).map_err(failed("look up a quota"))?;
        Ok(found.map(|row| row.get(0)))
    }

    fn set_quota(&mut self, owner: &[u8; 32], quota: i64, full_at: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO sordino_quotas VALUES ($1, $2, $3)
            ON CONFLICT (owner, quota) DO UPDATE SET full_at = excluded.full_at";
        self.execute("note a quota", text, &[&&owner[..], &quota, &full_at]).map(drop)
    }

    fn forget_quotas(&mut self, now: i64) -> Result<(), StoreError> {
        self.execute("forget quotas", "DELETE FROM sordino_quotas WHERE full_at <= $1", &[&now]).map(drop)
    }
}
