//! The server's halves of prepared inferences: kept durably, given out once.
//!
//! ```text
//! put    limits, then a sealed row                                       one transaction
//! take   the row leaves the database, the spend is noted                 one transaction, durable
//!        the machine's witness remembers the spend                       durable
//!        only then the caller gets the material, and may say "accepted"
//! ```
//!
//! Rows are sealed by AES-256-GCM under a key of their own, derived from the store's key file and the row's random id;
//! everything else in the row is associated data. Two databases are behind the same logic: SQLite for the processes of
//! one machine ([`StoreLocation::File`]), PostgreSQL for several ([`StoreLocation::Postgres`]). What a restored copy of
//! either can and cannot do stands in `docs/src/security/prepared-ahead.md`.

mod error;
#[cfg(feature = "postgres")]
mod postgres;
mod prepared;
mod quotas;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
#[cfg(all(feature = "sqlite", feature = "postgres"))]
mod tests;
mod tidy;
mod witness;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crypto::domain;
use crypto::random::Seed;
use crypto::secret::Secret;
use inference::requests::{MAX_COUNT, Room, StoredId};
use inference::server::{PreparedServer, ServedModel, StoredServer};
use network::digest::Digest;
use serde::Deserialize;
use tracing::info;

pub use error::StoreError;
pub use rows::Usage;
use rows::{Row, Rows, State, TABLES_VERSION, Transaction, Wanted};
use witness::{Testimony, Witness};

use sealed::secret_file::read_or_make_key;
use sealed::{ClientToken, seal};

/// Where rows live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreLocation {
    /// An SQLite database on a local disk, for the processes of one machine.
    File(PathBuf),
    /// A PostgreSQL server, by its URL or parameters, for processes on any number of machines.
    Postgres(String),
}

impl From<&str> for StoreLocation {
    fn from(place: &str) -> Self {
        let is_shared = place.starts_with("postgres://") || place.starts_with("postgresql://");
        if is_shared { Self::Postgres(place.to_owned()) } else { Self::File(place.into()) }
    }
}

/// What becomes of the rows of a store when a machine joins that it does not know.
///
/// Such a machine has no witness, so it cannot tell whether the database is an old copy in which spent rows wait again.
/// Where nothing waits it joins without being told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum StoreJoin {
    /// They stay: the operator knows that the database was never put back.
    Keep,
    /// They are dropped.
    Drop,
}

/// The longest time that a prepared inference may wait: a week. Old copies of the database are dangerous for so long.
pub const MAX_LIFETIME: Duration = Duration::from_secs(7 * 24 * 3600);

/// How a store is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Where its rows live.
    pub location: StoreLocation,
    /// The key that seals them; made if there is none. Processes on several machines need copies of one.
    pub key_file: PathBuf,
    /// What this machine remembers of the store. It belongs on another volume than the database, or at least in no
    /// backup that holds the database.
    pub witness_file: PathBuf,
    /// How this machine joins a store that does not know it. Without a word it is refused by a shared store in which
    /// something waits, and drops what waits in one of its own.
    pub join: Option<StoreJoin>,
    /// How long a prepared inference may wait; at most [`MAX_LIFETIME`].
    pub lifetime: Duration,
    /// Prepared inferences of one client.
    pub per_client: u64,
    /// Bytes of those.
    pub per_client_bytes: u64,
    /// Prepared inferences of all clients.
    pub total: u64,
    /// Bytes of all of them.
    pub total_bytes: u64,
}

impl StoreOptions {
    /// The defaults for a folder: an SQLite database, its key and its witness; 24 hours, 100 and 1 GiB for each
    /// client, 10,000 and 16 GiB in all.
    pub fn in_folder(folder: &std::path::Path) -> Self {
        Self {
            location: StoreLocation::File(folder.join("prepared.sqlite")),
            key_file: folder.join("prepared.key"),
            witness_file: folder.join("prepared.witness"),
            join: None,
            lifetime: Duration::from_secs(24 * 3600),
            per_client: 100,
            per_client_bytes: 1 << 30,
            total: 10_000,
            total_bytes: 16 << 30,
        }
    }
}

/// The server's halves of prepared inferences. Shared by threads; any number of processes may open the same one.
pub struct PreparedStore {
    rows: Box<dyn Rows>,
    key: Secret<[u8; 32]>,
    witness: Witness,
    options: StoreOptions,
    clock: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl PreparedStore {
    /// Opens the store, or makes it where there is none.
    ///
    /// # Errors
    /// When database or key file cannot be used or do not belong together, or this machine is unknown to a shared
    /// store. When an old copy was put back: then its rows are gone, and opening it again succeeds.
    pub fn open(options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_at(options, Box::new(system_clock))
    }

    fn open_at(options: StoreOptions, clock: Box<dyn Fn() -> i64 + Send + Sync>) -> Result<Self, StoreError> {
        if options.lifetime > MAX_LIFETIME {
            let (most, came) = (MAX_LIFETIME.as_secs(), options.lifetime.as_secs());
            return Err(StoreError::Lifetime { most, came });
        }
        let key = read_or_make_key(&options.key_file)?;
        let mut fresh = State {
            version: TABLES_VERSION,
            store: *Seed::from_system()?.expose().first_chunk().expect("a seed is longer"),
            key_check: [0; 32],
            generation: 0,
            mark: [0; 16],
            horizon: 0,
            place: String::new(),
        };
        fresh.key_check = *seal::derive_key(domain::STORE_KEY_CHECK, key.expose(), b"").expose();
        let (rows, is_new) = open_rows(&options.location, &fresh)?;
        let witness = Witness::new(&options.witness_file);
        let store = Self { rows, key, witness, options, clock };
        store.expect_own_key(&fresh.key_check)?;
        store.adopt(is_new)?;
        Ok(store)
    }

    fn expect_own_key(&self, key_check: &[u8; 32]) -> Result<(), StoreError> {
        self.rows.transaction(&mut |transaction| {
            let state = transaction.state()?;
            if state.version != TABLES_VERSION {
                return Err(StoreError::Version { expected: TABLES_VERSION, came: state.version });
            }
            if state.key_check != *key_check {
                return Err(StoreError::OtherKey { path: self.options.key_file.clone() });
            }
            Ok(())
        })
    }

    /// Lets this machine join a database that it sees for the first time, and makes it a witness.
    fn adopt(&self, is_new: bool) -> Result<(), StoreError> {
        let now = (self.clock)();
        let mut adoption = None;
        self.rows.transaction(&mut |transaction| {
            let state = transaction.state()?;
            let testimony = self.witness.examine(&state, transaction, now)?;
            transaction.remove_expired(now)?;
            let waiting = transaction.usage(None, now)?.count;
            let has_name = self.witness.machine()?.is_some();
            adoption = Some(match testimony {
                Testimony::Sound if has_name => Adoption::Known,
                // A witness of the first format vouches for the database and has no name yet.
                Testimony::Sound => Adoption::Joins(state, fresh_mark()?),
                Testimony::Restored if is_new => Adoption::Joins(state, fresh_mark()?),
                Testimony::Strange if waiting == 0 || self.options.join == Some(StoreJoin::Keep) => {
                    Adoption::Joins(state, fresh_mark()?)
                }
                Testimony::Strange if self.rows.is_shared() && self.options.join.is_none() => {
                    let path = self.witness.path().to_owned();
                    return Err(StoreError::UnknownMachine { waiting, path });
                }
                Testimony::Strange | Testimony::Restored => Adoption::Drops,
            });
            match &adoption {
                Some(Adoption::Joins(_, machine)) => transaction.note_machine(machine, now),
                _ => Ok(()),
            }
        })?;
        match adoption {
            Some(Adoption::Joins(state, machine)) => {
                self.witness.remember(&state, machine)?;
                info!("this machine joined the store of prepared inferences");
                Ok(())
            }
            Some(Adoption::Drops) => self.drop_all(),
            Some(Adoption::Known) | None => Ok(()),
        }
    }

    /// Whether a client may have so many more kept, to be asked before the work of preparing them.
    ///
    /// # Errors
    /// When a limit would be passed.
    pub fn expect_room(&self, owner: &[u8], count: u64, bytes: u64) -> Result<(), StoreError> {
        let owner = self.owner(owner);
        self.guarded(|transaction, _, now| {
            transaction.remove_expired(now)?;
            self.check_limits(transaction, &owner, (count, bytes), now)
        })
    }

    /// Keeps a prepared inference under a random name for the client that will present the token with this hash. Says
    /// when it expires, in seconds since 1970.
    /// `owner` names whose limit it counts against: the fingerprint of the client's certificate, or its address.
    ///
    /// # Errors
    /// When a limit would be passed or the database fails.
    pub fn put(
        &self,
        owner: &[u8],
        id: StoredId,
        token_hash: &[u8; 32],
        prepared: PreparedServer,
    ) -> Result<u64, StoreError> {
        let model = prepared.stored_digest();
        self.put_bytes(owner, id, token_hash, model, prepared.into_stored().into_bytes().expose())
    }

    fn put_bytes(
        &self,
        owner: &[u8],
        StoredId(id): StoredId,
        token_hash: &[u8; 32],
        model: Digest,
        plain: &[u8],
    ) -> Result<u64, StoreError> {
        let expires = (self.clock)().saturating_add(self.lifetime());
        let mut row = Row {
            id,
            token: self.token(token_hash),
            owner: self.owner(owner),
            model: self.model(model),
            expires,
            sealed: Vec::new(),
        };
        row.sealed = seal::seal(&self.row_key(&id), &associated_data(&row), plain)?;
        self.guarded(|transaction, _, now| {
            transaction.remove_expired(now)?;
            self.check_limits(transaction, &row.owner, (1, row.sealed.len() as u64), now)?;
            transaction.insert(&row)
        })?;
        Ok(expires.unsigned_abs())
    }

    /// Takes prepared inferences out of the store, all or none. When this returns they are spent, durably and for
    /// every process; the caller may say so to the client.
    ///
    /// # Errors
    /// When one of them is not there for this token and model; then none is spent. When one was tampered with or the
    /// database fails, all may be spent.
    pub fn take(
        &self,
        ids: &[StoredId],
        token: &ClientToken,
        model: &ServedModel,
    ) -> Result<Vec<PreparedServer>, StoreError> {
        let revive = |(id, bytes)| {
            let revived = StoredServer::from_bytes(bytes).revive(model);
            revived.map_err(|source| StoreError::Unusable { id, source })
        };
        self.take_bytes(ids, token, model.stored_digest())?.into_iter().map(revive).collect()
    }

    fn take_bytes(
        &self,
        ids: &[StoredId],
        token: &ClientToken,
        model: Digest,
    ) -> Result<Vec<Taken>, StoreError> {
        let mark = fresh_mark()?;
        let mut taken = Vec::with_capacity(ids.len());
        let mut spent = None;
        self.guarded(|transaction, state, now| {
            taken.clear();
            let wanted = Wanted { token: self.token(&token.hash()), model: self.model(model), now };
            for id in ids {
                let row = transaction.remove(&id.0, &wanted)?;
                taken.push(row.ok_or(StoreError::Unknown { id: *id })?);
            }
            let generation = state.generation + 1;
            transaction.note_spend(generation, &mark, state.horizon)?;
            transaction.forget_spends(now)?;
            spent = Some(State { generation, mark, place: state.place.clone(), ..*state });
            Ok(())
        })?;
        // Before anyone hears of it: a copy of the database from before this spend must not go unnoticed.
        if let Some(state) = spent {
            self.remember(&state)?;
        }
        taken.into_iter().map(|row| self.open_row(row)).collect()
    }

    fn open_row(&self, row: Row) -> Result<Taken, StoreError> {
        let id = StoredId(row.id);
        let opened = seal::open(&self.row_key(&row.id), &associated_data(&row), &row.sealed);
        Ok((id, opened.map_err(|_| StoreError::Damaged { id })?))
    }

    /// Removes what has expired, and what journals keep of removed rows, and lets the witness catch up with other machines;
    /// to be called now and then.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn expire(&self) -> Result<u64, StoreError> {
        let (mut removed, mut seen) = (0, None);
        self.guarded(|transaction, state, now| {
            removed = transaction.remove_expired(now)?;
            if let Some(machine) = self.witness.machine()? {
                transaction.note_machine(&machine, now)?;
            }
            seen = Some(State { place: state.place.clone(), ..*state });
            Ok(())
        })?;
        if let Some(state) = seen
            && self.witness.generation()? != Some(state.generation)
        {
            self.remember(&state)?;
        }
        self.rows.forget_journal()?;
        Ok(removed)
    }

    /// What is kept, for one client or for all.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn usage(&self, owner: Option<&[u8]>) -> Result<Usage, StoreError> {
        let owner = owner.map(|owner| self.owner(owner));
        let mut usage = Usage::default();
        self.looked(|transaction, now| {
            usage = transaction.usage(owner.as_ref(), now)?;
            Ok(())
        })?;
        Ok(usage)
    }

    /// How many rows of so many bytes one client may still have, before any limit is reached.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn room(&self, owner: &[u8], bytes: u64) -> Result<Room, StoreError> {
        let owner = self.owner(owner);
        let options = &self.options;
        let mut room = Room { count: 0, stored: 0, bytes, lifetime: options.lifetime.as_secs() };
        self.looked(|transaction, now| {
            let (own, all) = (transaction.usage(Some(&owner), now)?, transaction.usage(None, now)?);
            let by_bytes = |limit: u64, used: u64| limit.saturating_sub(used) / bytes.max(1);
            let left = [
                options.per_client.saturating_sub(own.count),
                by_bytes(options.per_client_bytes, own.bytes),
                options.total.saturating_sub(all.count),
                by_bytes(options.total_bytes, all.bytes),
            ];
            room.count = left.into_iter().fold(u64::MAX, u64::min);
            room.stored = own.count;
            Ok(())
        })?;
        Ok(room)
    }

    /// The names of what is kept for the client that presents this token, of all models; as many as a reply can name.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn list(&self, token: &ClientToken) -> Result<Vec<StoredId>, StoreError> {
        let token = self.token(&token.hash());
        let mut names = Vec::new();
        self.looked(|transaction, now| {
            names = transaction.names_of(&token, now, MAX_COUNT)?;
            Ok(())
        })?;
        Ok(names.into_iter().map(StoredId).collect())
    }

    /// Drops what is kept for the client that presents this token, of all models. Nothing is spent by it: nobody used
    /// these, and who had a copy of the client's half could use each once at most if an old database came back.
    ///
    /// # Errors
    /// When the database fails or an old copy of it was put back.
    pub fn discard(&self, token: &ClientToken) -> Result<u64, StoreError> {
        let token = self.token(&token.hash());
        let mut count = 0;
        self.guarded(|transaction, _, _| {
            count = transaction.remove_of(&token)?;
            Ok(())
        })?;
        Ok(count)
    }

    /// A transaction on a database that the witness vouches for.
    fn guarded(
        &self,
        mut work: impl FnMut(&mut dyn Transaction, &State, i64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let now = (self.clock)();
        let mut is_restored = false;
        self.rows.transaction(&mut |transaction| {
            let state = transaction.state()?;
            let testimony = self.witness.examine(&state, transaction, now)?;
            // Who deletes the file under a running server gets no better treatment than who restores the database.
            is_restored = testimony != Testimony::Sound;
            if is_restored { Ok(()) } else { work(transaction, &state, now) }
        })?;
        if is_restored { self.drop_all() } else { Ok(()) }
    }

    /// Reads from a database that the witness vouches for, and keeps nobody waiting. What this machine spent after the
    /// reading began looks as if an old copy were there: so whatever looks like one is judged again, alone.
    fn looked(
        &self,
        mut work: impl FnMut(&mut dyn Transaction, i64) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let now = (self.clock)();
        let mut is_sound = false;
        self.rows.reading(&mut |transaction| {
            let state = transaction.state()?;
            is_sound = self.witness.examine(&state, transaction, now)? == Testimony::Sound;
            if is_sound { work(transaction, now) } else { Ok(()) }
        })?;
        if is_sound { Ok(()) } else { self.guarded(|transaction, _, now| work(transaction, now)) }
    }

    /// Drops every row: some may be spent, and nobody knows which.
    fn drop_all(&self) -> Result<(), StoreError> {
        let (mark, fresh) = (fresh_mark()?, fresh_mark()?);
        let machine = self.witness.machine()?.unwrap_or(fresh);
        let now = (self.clock)();
        let (mut dropped, mut clean) = (0, None);
        self.rows.transaction(&mut |transaction| {
            dropped = transaction.remove_all()?;
            let state = transaction.state()?;
            let known = self.witness.generation()?.unwrap_or(0);
            let generation = known.max(state.generation) + 1;
            transaction.note_spend(generation, &mark, state.horizon)?;
            transaction.note_machine(&machine, now)?;
            clean = Some(State { generation, mark, ..state });
            Ok(())
        })?;
        if let Some(state) = clean {
            self.witness.remember(&state, machine)?;
        }
        Err(StoreError::Restored { dropped })
    }

    /// Remembers a state under the name by which this machine joined.
    fn remember(&self, state: &State) -> Result<(), StoreError> {
        match self.witness.machine()? {
            Some(machine) => self.witness.remember(state, machine),
            // The file went away under us: the next transaction finds that out, and drops all rows.
            None => Ok(()),
        }
    }

    fn check_limits(
        &self,
        transaction: &mut dyn Transaction,
        owner: &[u8; 32],
        (count, bytes): (u64, u64),
        now: i64,
    ) -> Result<(), StoreError> {
        let (own, all) = (transaction.usage(Some(owner), now)?, transaction.usage(None, now)?);
        let limits = [
            (own.count.saturating_add(count), self.options.per_client, "prepared inferences of one client"),
            (
                own.bytes.saturating_add(bytes),
                self.options.per_client_bytes,
                "bytes of prepared inferences of one client",
            ),
            (all.count.saturating_add(count), self.options.total, "prepared inferences"),
            (all.bytes.saturating_add(bytes), self.options.total_bytes, "bytes of prepared inferences"),
        ];
        match limits.into_iter().find(|(wanted, limit, _)| wanted > limit) {
            Some((_, limit, what)) => Err(StoreError::Full { what, limit }),
            None => Ok(()),
        }
    }

    fn lifetime(&self) -> i64 {
        i64::try_from(self.options.lifetime.as_secs()).unwrap_or(i64::MAX)
    }

    fn row_key(&self, id: &[u8; 16]) -> Secret<[u8; 32]> {
        seal::derive_key(domain::STORE_ROW, self.key.expose(), id)
    }

    fn owner(&self, owner: &[u8]) -> [u8; 32] {
        *seal::derive_key(domain::STORE_OWNER, self.key.expose(), owner).expose()
    }

    /// Keyed, since a bare hash of the model in a database would let its readers test a guess of the weights.
    fn model(&self, model: Digest) -> [u8; 32] {
        *seal::derive_key(domain::STORE_MODEL, self.key.expose(), model.as_bytes()).expose()
    }

    fn token(&self, token_hash: &[u8; 32]) -> [u8; 32] {
        *seal::derive_key(domain::STORE_TOKEN, self.key.expose(), token_hash).expose()
    }
}

/// The rows, and whether they were made by this call.
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    expect(unused_variables, reason = "nothing opens")
)]
fn open_rows(location: &StoreLocation, fresh: &State) -> Result<(Box<dyn Rows>, bool), StoreError> {
    match location {
        #[cfg(feature = "sqlite")]
        StoreLocation::File(path) => {
            let (rows, is_new) = sqlite::SqliteRows::open(path, fresh)?;
            Ok((Box::new(rows), is_new))
        }
        #[cfg(not(feature = "sqlite"))]
        StoreLocation::File(_) => Err(StoreError::NotBuiltIn { database: "SQLite", feature: "sqlite" }),
        #[cfg(feature = "postgres")]
        StoreLocation::Postgres(address) => {
            let (rows, is_new) = postgres::PostgresRows::open(address, fresh)?;
            Ok((Box::new(rows), is_new))
        }
        #[cfg(not(feature = "postgres"))]
        StoreLocation::Postgres(_) => {
            Err(StoreError::NotBuiltIn { database: "PostgreSQL", feature: "postgres" })
        }
    }
}

/// What comes of a machine that opens a store.
enum Adoption {
    /// It has joined before, and misses nothing.
    Known,
    /// It joins under this name.
    Joins(State, [u8; 16]),
    /// It joins when all rows are gone.
    Drops,
}

/// Random, to tell one spend, or one machine, from all others.
fn fresh_mark() -> Result<[u8; 16], StoreError> {
    Ok(*Seed::from_system()?.expose().first_chunk().expect("a seed is longer than a mark"))
}

/// A row's name and what was sealed in it.
type Taken = (StoredId, Secret<Vec<u8>>);

/// All of a row but its sealed bytes.
fn associated_data(row: &Row) -> Vec<u8> {
    let parts: [&[u8]; 6] = [&[1], &row.id, &row.token, &row.owner, &row.model, &row.expires.to_le_bytes()];
    parts.concat()
}

fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
