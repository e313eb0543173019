//! What a database must be able to do. All decisions are made above it, in one place for every database.

use super::StoreError;
use super::quotas::QuotaRows;

/// One prepared inference as the database sees it: names and sealed bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: [u8; 16],
    /// A hash of what the client must present.
    pub(super) token: [u8; 32],
    /// Whose limit it counts against.
    pub(super) owner: [u8; 32],
    /// A keyed hash of what it was prepared for.
    pub(super) model: [u8; 32],
    /// Seconds since 1970.
    pub(super) expires: i64,
    pub(super) sealed: Vec<u8>,
}

/// What the database knows about itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) version: i64,
    /// Random, made with the store.
    pub(super) store: [u8; 16],
    /// Tells whether a key is the one of this store.
    pub(super) key_check: [u8; 32],
    /// Counts spends.
    pub(super) generation: i64,
    /// Random, of the last spend.
    pub(super) mark: [u8; 16],
    /// The last moment that any row so far may live to.
    pub(super) horizon: i64,
    /// Where the data lives; changes when a shared database fails over or is loaded anew.
    pub(super) place: String,
}

/// Rows in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many.
    pub count: u64,
    /// Their sealed bytes.
    pub bytes: u64,
}

/// Work inside a transaction.
pub(super) type Work<'a> = &'a mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>;

/// A database, used by any number of processes.
pub(super) trait Rows: Send + Sync {
    /// Runs the work alone: no other transaction of any process runs at the same time. When this returns without an
    /// error, what was done survives a crash of the machine; when the work fails, nothing was done.
    fn transaction(&self, work: Work<'_>) -> Result<(), StoreError>;

    /// Runs work that changes nothing, on one state of the database, while others may change it: it waits for nobody, and
    /// nobody waits for it.
    fn reading(&self, work: Work<'_>) -> Result<(), StoreError>;

    /// Whether processes on other machines use it too.
    fn is_shared(&self) -> bool;

    /// Lets go of copies of removed rows that the database keeps beside its tables, where that is ours to do.
    fn forget_journal(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// One transaction.
pub(super) trait Transaction: QuotaRows {
    fn state(&mut self) -> Result<State, StoreError>;
    /// Adds the row and moves the horizon.
    fn insert(&mut self, row: &Row) -> Result<(), StoreError>;
    /// Destroys the row and gives back what it held.
    fn remove(&mut self, id: &[u8; 16], wanted: &Wanted) -> Result<Option<Row>, StoreError>;
    fn remove_expired(&mut self, now: i64) -> Result<u64, StoreError>;
    fn remove_all(&mut self) -> Result<u64, StoreError>;
    /// The names of rows of one token that live longer than `now`, so many at most.
    fn names_of(&mut self, token: &[u8; 32], now: i64, most: u32) -> Result<Vec<[u8; 16]>, StoreError>;
    /// Destroys every row of one token.
    fn remove_of(&mut self, token: &[u8; 32]) -> Result<u64, StoreError>;
    /// Rows of one client, or of all, that live longer than `now`.
    fn usage(&mut self, owner: Option<&[u8; 32]>, now: i64) -> Result<Usage, StoreError>;
    /// Notes that something was spent, under the next generation, until no row of that time can be alive.
    fn note_spend(&mut self, generation: i64, mark: &[u8; 16], until: i64) -> Result<(), StoreError>;
    fn has_spend(&mut self, generation: i64, mark: &[u8; 16]) -> Result<bool, StoreError>;
    /// Forgets notes that prove nothing any more, but for the last.
    fn forget_spends(&mut self, now: i64) -> Result<(), StoreError>;
    /// Whether a machine of this name has joined.
    fn has_machine(&mut self, machine: &[u8; 16]) -> Result<bool, StoreError>;
    /// Lets a machine join, or notes that it was here.
    fn note_machine(&mut self, machine: &[u8; 16], now: i64) -> Result<(), StoreError>;
}

/// What a row must be to be given out.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(dead_code, reason = "no database reads it")
)]
pub(super) struct Wanted {
    pub(super) token: [u8; 32],
    pub(super) model: [u8; 32],
    /// It must live longer than this.
    pub(super) now: i64,
}

/// The format of the tables.
pub(super) const TABLES_VERSION: i64 = 1;
