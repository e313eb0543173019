//! Hourly quotas in SQLite.

use rusqlite::{OptionalExtension, params};

use super::SqliteTransaction;
use crate::store::StoreError;
use crate::store::quotas::QuotaRows;

pub(super) const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS quotas (
        owner BLOB NOT NULL, quota INTEGER NOT NULL, full_at INTEGER NOT NULL, PRIMARY KEY (owner, quota)) STRICT;";

impl QuotaRows for SqliteTransaction<'_> {
    fn quota(&mut self, owner: &[u8; 32], quota: i64) -> Result<Option<i64>, StoreError> {
        let text = "SELECT full_at FROM quotas WHERE owner = ?1 AND quota = ?2";
        let found = self.transaction.query_row(text, params![owner, quota], |row| row.get(0));
        self.said("look up a quota", found.optional())
    }

    fn set_quota(&mut self, owner: &[u8; 32], quota: i64, full_at: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO quotas VALUES (?1, ?2, ?3)
            ON CONFLICT (owner, quota) DO UPDATE SET full_at = excluded.full_at";
        self.execute("note a quota", text, params![owner, quota, full_at]).map(drop)
    }

    fn forget_quotas(&mut self, now: i64) -> Result<(), StoreError> {
        self.execute("forget quotas", "DELETE FROM quotas WHERE full_at <= ?1", [now]).map(drop)
    }
}
