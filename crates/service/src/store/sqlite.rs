//! Rows in an SQLite database: the processes of one machine share a file.
//!
//! Write-ahead log with `synchronous = FULL`: a commit has reached the disk when it returns. Transactions take the write
//! lock when they begin, so they run one after the other in all processes; those that only read take none. The file must lie
//! on a local disk.

mod quotas;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, TransactionBehavior, params};

use super::StoreError;
use super::rows::{Row, Rows, State, Transaction, Usage, Wanted, Work};
use sealed::secret_file::{create_private, expect_private, failing, sync_folder};

/// How long a transaction waits for those of other processes.
const PATIENCE: Duration = Duration::from_secs(30);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS state (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1), version INTEGER NOT NULL, store BLOB NOT NULL,
        key_check BLOB NOT NULL, generation INTEGER NOT NULL, mark BLOB NOT NULL,
        horizon INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS spends (generation INTEGER PRIMARY KEY, mark BLOB NOT NULL, until INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS machines (id BLOB PRIMARY KEY, joined INTEGER NOT NULL, seen INTEGER NOT NULL) STRICT;
    CREATE TABLE IF NOT EXISTS prepared (
        id BLOB PRIMARY KEY, token BLOB NOT NULL, owner BLOB NOT NULL, model BLOB NOT NULL,
        expires INTEGER NOT NULL, size INTEGER NOT NULL, sealed BLOB NOT NULL) STRICT;
    CREATE INDEX IF NOT EXISTS prepared_token ON prepared (token, expires);
    CREATE INDEX IF NOT EXISTS prepared_owner ON prepared (owner, size);
    CREATE INDEX IF NOT EXISTS prepared_expires ON prepared (expires, size);";

pub(super) struct SqliteRows {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteRows {
    /// Opens the database; says whether it was made by this call.
    pub(super) fn open(path: &Path, fresh: &State) -> Result<(Self, bool), StoreError> {
        // Made here, so that it never exists with a mode that lets others read it.
        match create_private(path) {
            Ok(_) => sync_folder(path).map_err(failing("make", path))?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failing("make", path)(error).into()),
        }
        expect_private(&std::fs::File::open(path).map_err(failing("open", path))?, path)?;
        let failed = |source| StoreError::Sqlite { path: path.to_owned(), doing: "open", source };
        let connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        // A database that was made before cannot shrink, and goes on as it is.
        let pragmas =
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
            PRAGMA secure_delete = ON;";
        connection.execute_batch(pragmas).map_err(failed)?;
        let rows = Self { path: path.to_owned(), connection: Mutex::new(connection) };
        let is_new = rows.make_tables(fresh).map_err(failed)?;
        Ok((rows, is_new))
    }

    fn make_tables(&self, fresh: &State) -> Result<bool, rusqlite::Error> {
        let mut connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(TABLES)?;
        transaction.execute_batch(quotas::TABLE)?;
        let made = transaction.execute(
            "INSERT OR IGNORE INTO state VALUES (1, ?1, ?2, ?3, 0, ?4, 0)",
            params![fresh.version, fresh.store, fresh.key_check, fresh.mark],
        )?;
        transaction.commit()?;
        Ok(made == 1)
    }
}

impl SqliteRows {
    fn run(&self, behavior: TransactionBehavior, work: Work<'_>) -> Result<(), StoreError> {
        let failed = |doing| move |source| StoreError::Sqlite { path: self.path.clone(), doing, source };
        // A panic inside a transaction has rolled it back, so the connection is good.
        let mut connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let transaction =
            connection.transaction_with_behavior(behavior).map_err(failed("begin a transaction"))?;
        let mut inner = SqliteTransaction { path: &self.path, transaction };
        work(&mut inner)?;
        inner.transaction.commit().map_err(failed("commit"))
    }
}

impl Rows for SqliteRows {
    fn transaction(&self, work: Work<'_>) -> Result<(), StoreError> {
        self.run(TransactionBehavior::Immediate, work)
    }

    fn reading(&self, work: Work<'_>) -> Result<(), StoreError> {
        self.run(TransactionBehavior::Deferred, work)
    }

    fn is_shared(&self) -> bool {
        false
    }

    /// The journal holds pages as they were before rows were removed, until it is truncated.
    fn forget_journal(&self) -> Result<(), StoreError> {
        let connection = self.connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Each step of the first frees one page.
        let run = |pragma: &str| {
            let mut statement = connection.prepare(pragma)?;
            let mut steps = statement.query([])?;
            while steps.next()?.is_some() {}
            Ok(())
        };
        let done = run("PRAGMA incremental_vacuum").and_then(|()| run("PRAGMA wal_checkpoint(TRUNCATE)"));
        let doing = "truncate the journal";
        done.map_err(|source| StoreError::Sqlite { path: self.path.clone(), doing, source })
    }
}

struct SqliteTransaction<'a> {
    path: &'a Path,
    transaction: rusqlite::Transaction<'a>,
}

impl SqliteTransaction<'_> {
    fn said<T>(&self, doing: &'static str, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::Sqlite { path: self.path.to_owned(), doing, source })
    }

    fn execute(
        &self,
        doing: &'static str,
        text: &str,
        values: impl rusqlite::Params,
    ) -> Result<u64, StoreError> {
        self.said(doing, self.transaction.execute(text, values)).map(|count| count as u64)
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn state(&mut self) -> Result<State, StoreError> {
        let read = |row: &SqlRow<'_>| {
            Ok(State {
                version: row.get(0)?,
                store: row.get(1)?,
                key_check: row.get(2)?,
                generation: row.get(3)?,
                mark: row.get(4)?,
                horizon: row.get(5)?,
                place: String::new(),
            })
        };
        let text = "SELECT version, store, key_check, generation, mark, horizon FROM state";
        self.said("read its state", self.transaction.query_row(text, [], read))
    }

    fn insert(&mut self, row: &Row) -> Result<(), StoreError> {
        let values = params![
            row.id,
            row.token,
            row.owner,
            row.model,
            row.expires,
            row.sealed.len() as i64,
            row.sealed
        ];
        self.execute("keep", "INSERT INTO prepared VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)", values)?;
        self.execute("keep", "UPDATE state SET horizon = max(horizon, ?1)", [row.expires])?;
        // A machine that joins from here on knows the last spend, and looks for it as long as this row may live.
        let text =
            "UPDATE spends SET until = max(until, ?1) WHERE generation = (SELECT generation FROM state)";
        self.execute("keep", text, [row.expires]).map(drop)
    }

    fn remove(&mut self, id: &[u8; 16], wanted: &Wanted) -> Result<Option<Row>, StoreError> {
        let text = "DELETE FROM prepared WHERE id = ?1 AND token = ?2 AND model = ?3 AND expires > ?4
            RETURNING owner, expires, sealed";
        let values = params![id, wanted.token, wanted.model, wanted.now];
        let read = |row: &SqlRow<'_>| {
            let (owner, expires, sealed) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Row { id: *id, token: wanted.token, owner, model: wanted.model, expires, sealed })
        };
        self.said("spend", self.transaction.query_row(text, values, read).optional())
    }

    fn remove_expired(&mut self, now: i64) -> Result<u64, StoreError> {
        self.execute("let expire", "DELETE FROM prepared WHERE expires <= ?1", [now])
    }

    fn remove_all(&mut self) -> Result<u64, StoreError> {
        self.execute("drop everything", "DELETE FROM prepared", [])
    }

    fn names_of(&mut self, token: &[u8; 32], now: i64, most: u32) -> Result<Vec<[u8; 16]>, StoreError> {
        let text = "SELECT id FROM prepared WHERE token = ?1 AND expires > ?2 ORDER BY expires, id LIMIT ?3";
        let names = self.transaction.prepare(text).and_then(|mut statement| {
            statement.query_map(params![token, now, most], |row| row.get(0))?.collect()
        });
        self.said("list", names)
    }

    fn remove_of(&mut self, token: &[u8; 32]) -> Result<u64, StoreError> {
        self.execute("discard", "DELETE FROM prepared WHERE token = ?1", [token])
    }

    fn usage(&mut self, owner: Option<&[u8; 32]>, now: i64) -> Result<Usage, StoreError> {
        let read = |row: &SqlRow<'_>| {
            let (count, bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok(Usage { count: count.unsigned_abs(), bytes: bytes.unsigned_abs() })
        };
        let counted = "SELECT count(*), coalesce(sum(size), 0) FROM prepared WHERE expires > ?1";
        let usage = match owner {
            Some(owner) => {
                let text = format!("{counted} AND owner = ?2");
                self.transaction.query_row(&text, params![now, owner], read)
            }
            None => self.transaction.query_row(counted, [now], read),
        };
        self.said("count", usage)
    }

    fn note_spend(&mut self, generation: i64, mark: &[u8; 16], until: i64) -> Result<(), StoreError> {
        let doing = "note a spend";
        self.execute(doing, "INSERT INTO spends VALUES (?1, ?2, ?3)", params![generation, mark, until])?;
        self.execute(doing, "UPDATE state SET generation = ?1, mark = ?2", params![generation, mark])
            .map(drop)
    }

    fn has_spend(&mut self, generation: i64, mark: &[u8; 16]) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM spends WHERE generation = ?1 AND mark = ?2)";
        self.said(
            "look for a spend",
            self.transaction.query_row(text, params![generation, mark], |row| row.get(0)),
        )
    }

    fn forget_spends(&mut self, now: i64) -> Result<(), StoreError> {
        // The last one stays: it is what witnesses compare with.
        let text = "DELETE FROM spends WHERE until <= ?1 AND generation < (SELECT generation FROM state)";
        self.execute("forget old spends", text, [now]).map(drop)
    }
    fn has_machine(&mut self, machine: &[u8; 16]) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM machines WHERE id = ?1)";
        self.said("look for a machine", self.transaction.query_row(text, [machine], |row| row.get(0)))
    }

    fn note_machine(&mut self, machine: &[u8; 16], now: i64) -> Result<(), StoreError> {
        let text =
            "INSERT INTO machines VALUES (?1, ?2, ?2) ON CONFLICT (id) DO UPDATE SET seen = excluded.seen";
        self.execute("note a machine", text, params![machine, now]).map(drop)
    }
}
