//! Rows in a PostgreSQL database: processes on any number of machines share it.
//!
//! Every transaction that changes something first locks the one row of `state`, so they run one after the other in all
//! processes. Commits wait
//! for the disk (`synchronous_commit = on`, also for synchronous standbys where there are some), and a server that runs
//! without `fsync` is refused. A machine apart is spoken to by TLS only: who could answer in the database's place could
//! hand out a row twice.

mod quotas;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::types::ToSql;
use postgres::{Client, Config, IsolationLevel, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::StoreError;
use super::rows::{Row, Rows, State, Transaction, Usage, Wanted, Work};

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(15);

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS sordino_state (
        singleton INTEGER PRIMARY KEY CHECK (singleton = 1), version BIGINT NOT NULL, store BYTEA NOT NULL,
        key_check BYTEA NOT NULL, generation BIGINT NOT NULL, mark BYTEA NOT NULL, horizon BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS sordino_spends (
        generation BIGINT PRIMARY KEY, mark BYTEA NOT NULL, until BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS sordino_machines (
        id BYTEA PRIMARY KEY, joined BIGINT NOT NULL, seen BIGINT NOT NULL);
    CREATE TABLE IF NOT EXISTS sordino_prepared (
        id BYTEA PRIMARY KEY, token BYTEA NOT NULL, owner BYTEA NOT NULL, model BYTEA NOT NULL,
        expires BIGINT NOT NULL, size BIGINT NOT NULL, sealed BYTEA NOT NULL);
    CREATE INDEX IF NOT EXISTS sordino_prepared_token ON sordino_prepared (token, expires);
    CREATE INDEX IF NOT EXISTS sordino_prepared_owner ON sordino_prepared (owner);
    CREATE INDEX IF NOT EXISTS sordino_prepared_expires ON sordino_prepared (expires);";

/// Any fixed number: who makes tables holds it.
const TABLES_LOCK: i64 = 0x736f_7264_696e_6f31;

pub(super) struct PostgresRows {
    config: Config,
    client: Mutex<Option<Client>>,
}

fn failed(doing: &'static str) -> impl Fn(postgres::Error) -> StoreError {
    move |source| StoreError::Postgres { doing, source }
}

/// The driver tells kinds of errors apart by their text alone.
fn insecure(source: postgres::Error) -> StoreError {
    if source.to_string().contains("TLS") {
        return StoreError::PostgresCertificate { source };
    }
    failed("connect")(source)
}

impl PostgresRows {
    /// Connects and makes the tables; says whether they were made by this call.
    pub(super) fn open(address: &str, fresh: &State) -> Result<(Self, bool), StoreError> {
        let mut config: Config = address.parse().map_err(failed("read its address"))?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(PATIENCE);
        }
        config.application_name("sordino");
        let mut client = connect(&config)?;
        let is_new = make_tables(&mut client, fresh).map_err(failed("make its tables"))?;
        Ok((Self { config, client: Mutex::new(Some(client)) }, is_new))
    }
}

fn connect(config: &Config) -> Result<Client, StoreError> {
    let mut client = match config.get_ssl_mode() {
        SslMode::Require => {
            // The roots of the system; SSL_CERT_FILE names others.
            let roots = MakeRustlsConnect::with_native_certs();
            let roots =
                roots.map_err(|errors| StoreError::PostgresTls(format!("no certificates: {errors:?}")));
            config.connect(roots?.0).map_err(insecure)?
        }
        _ => {
            expect_local(config)?;
            config.connect(NoTls).map_err(failed("connect"))?
        }
    };
    let settings = "SET synchronous_commit = on; SET lock_timeout = '30s'; SET statement_timeout = '60s'";
    client.batch_execute(settings).map_err(failed("set itself up"))?;
    let fsync: String = client.query_one("SHOW fsync", &[]).map_err(failed("say how it runs"))?.get(0);
    if fsync != "on" {
        return Err(StoreError::NotDurable { setting: "fsync", value: fsync });
    }
    Ok(client)
}

/// Refuses a plain connection that leaves the machine.
fn expect_local(config: &Config) -> Result<(), StoreError> {
    // Where an address is given it is the one that is called, whatever the name says.
    if let Some(address) = config.get_hostaddrs().iter().find(|address| !address.is_loopback()) {
        return Err(StoreError::Plain { host: address.to_string() });
    }
    for host in config.get_hosts() {
        let is_local = match host {
            Host::Unix(_) => true,
            Host::Tcp(name) => {
                name == "localhost"
                    || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
            }
        };
        if let (false, Host::Tcp(name)) = (is_local, host) {
            return Err(StoreError::Plain { host: name.clone() });
        }
    }
    Ok(())
}

fn make_tables(client: &mut Client, fresh: &State) -> Result<bool, postgres::Error> {
    let mut transaction = client.transaction()?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&TABLES_LOCK])?;
    transaction.batch_execute(TABLES)?;
    transaction.batch_execute(quotas::TABLE)?;
    let made = transaction.execute(
        "INSERT INTO sordino_state VALUES (1, $1, $2, $3, 0, $4, 0) ON CONFLICT DO NOTHING",
        &[&fresh.version, &&fresh.store[..], &&fresh.key_check[..], &&fresh.mark[..]],
    )?;
    transaction.commit()?;
    Ok(made == 1)
}

impl Rows for PostgresRows {
    fn transaction(&self, work: Work<'_>) -> Result<(), StoreError> {
        self.run(false, work)
    }

    fn reading(&self, work: Work<'_>) -> Result<(), StoreError> {
        self.run(true, work)
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl PostgresRows {
    fn run(&self, is_reading: bool, work: Work<'_>) -> Result<(), StoreError> {
        let mut held = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let client = match held.take().filter(|client| !client.is_closed()) {
            Some(client) => held.insert(client),
            None => held.insert(connect(&self.config)?),
        };
        let begun = match is_reading {
            true => {
                let builder = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
                builder.read_only(true).start()
            }
            false => client.transaction(),
        };
        let mut inner =
            PostgresTransaction { inner: begun.map_err(failed("begin a transaction"))?, is_reading };
        work(&mut inner)?;
        inner.inner.commit().map_err(failed("commit"))
    }
}

struct PostgresTransaction<'a> {
    inner: postgres::Transaction<'a>,
    /// It locks nothing.
    is_reading: bool,
}

impl PostgresTransaction<'_> {
    fn execute(
        &mut self,
        doing: &'static str,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, StoreError> {
        self.inner.execute(text, values).map_err(failed(doing))
    }
}

/// Bytes of a fixed length; others become zeros, which match nothing.
fn fixed<const N: usize>(row: &postgres::Row, column: usize) -> [u8; N] {
    row.get::<_, &[u8]>(column).try_into().unwrap_or([0; N])
}

impl Transaction for PostgresTransaction<'_> {
    fn state(&mut self) -> Result<State, StoreError> {
        let doing = "read its state";
        let lock = if self.is_reading { "" } else { "FOR UPDATE" };
        let text =
            format!("SELECT version, store, key_check, generation, mark, horizon FROM sordino_state {lock}");
        let row = self.inner.query_one(&text, &[]).map_err(failed(doing))?;
        // A dump that is loaded elsewhere has another system, a standby that took over another timeline.
        let text = "SELECT (SELECT system_identifier FROM pg_control_system())::text || '/'
            || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";
        let place = self.inner.query_one(text, &[]).map_err(failed(doing))?.get(0);
        Ok(State {
            version: row.get(0),
            store: fixed(&row, 1),
            key_check: fixed(&row, 2),
            generation: row.get(3),
            mark: fixed(&row, 4),
            horizon: row.get(5),
            place,
        })
    }

    fn insert(&mut self, row: &Row) -> Result<(), StoreError> {
        let size = row.sealed.len() as i64;
        let values: [&(dyn ToSql + Sync); 7] = [
            &&row.id[..],
            &&row.token[..],
            &&row.owner[..],
            &&row.model[..],
            &row.expires,
            &size,
            &row.sealed,
        ];
        let text = "INSERT INTO sordino_prepared VALUES ($1, $2, $3, $4, $5, $6, $7)";
        self.execute("keep", text, &values)?;
        let text = "UPDATE sordino_state SET horizon = greatest(horizon, $1)";
        self.execute("keep", text, &[&row.expires])?;
        // A machine that joins from here on knows the last spend, and looks for it as long as this row may live.
        let text = "UPDATE sordino_spends SET until = greatest(until, $1)
            WHERE generation = (SELECT generation FROM sordino_state)";
        self.execute("keep", text, &[&row.expires]).map(drop)
    }

    fn remove(&mut self, id: &[u8; 16], wanted: &Wanted) -> Result<Option<Row>, StoreError> {
        let text = "DELETE FROM sordino_prepared WHERE id = $1 AND token = $2 AND model = $3 AND expires > $4
            RETURNING owner, expires, sealed";
        let values: [&(dyn ToSql + Sync); 4] =
            [&&id[..], &&wanted.token[..], &&wanted.model[..], &wanted.now];
        let found = self.inner.query_opt(text, &values).map_err(failed("spend"))?;
        Ok(found.map(|row| Row {
            id: *id,
            token: wanted.token,
            owner: fixed(&row, 0),
            model: wanted.model,
            expires: row.get(1),
            sealed: row.get(2),
        }))
    }

    fn remove_expired(&mut self, now: i64) -> Result<u64, StoreError> {
        self.execute("let expire", "DELETE FROM sordino_prepared WHERE expires <= $1", &[&now])
    }

    fn remove_all(&mut self) -> Result<u64, StoreError> {
        self.execute("drop everything", "DELETE FROM sordino_prepared", &[])
    }

    fn names_of(&mut self, token: &[u8; 32], now: i64, most: u32) -> Result<Vec<[u8; 16]>, StoreError> {
        let text =
            "SELECT id FROM sordino_prepared WHERE token = $1 AND expires > $2 ORDER BY expires, id LIMIT $3";
        let values: [&(dyn ToSql + Sync); 3] = [&&token[..], &now, &i64::from(most)];
        let rows = self.inner.query(text, &values).map_err(failed("list"))?;
        Ok(rows.iter().map(|row| fixed(row, 0)).collect())
    }

    fn remove_of(&mut self, token: &[u8; 32]) -> Result<u64, StoreError> {
        self.execute("discard", "DELETE FROM sordino_prepared WHERE token = $1", &[&&token[..]])
    }

    fn usage(&mut self, owner: Option<&[u8; 32]>, now: i64) -> Result<Usage, StoreError> {
        let text = "SELECT count(*), coalesce(sum(size), 0)::bigint FROM sordino_prepared
            WHERE ($1::bytea IS NULL OR owner = $1) AND expires > $2";
        let owner = owner.map(|owner| &owner[..]);
        let row = self.inner.query_one(text, &[&owner, &now]).map_err(failed("count"))?;
        let (count, bytes): (i64, i64) = (row.get(0), row.get(1));
        Ok(Usage { count: count.unsigned_abs(), bytes: bytes.unsigned_abs() })
    }

    fn note_spend(&mut self, generation: i64, mark: &[u8; 16], until: i64) -> Result<(), StoreError> {
        let doing = "note a spend";
        let mark = &mark[..];
        self.execute(doing, "INSERT INTO sordino_spends VALUES ($1, $2, $3)", &[&generation, &mark, &until])?;
        let text = "UPDATE sordino_state SET generation = $1, mark = $2";
        self.execute(doing, text, &[&generation, &mark]).map(drop)
    }

    fn has_spend(&mut self, generation: i64, mark: &[u8; 16]) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM sordino_spends WHERE generation = $1 AND mark = $2)";
        let row =
            self.inner.query_one(text, &[&generation, &&mark[..]]).map_err(failed("look for a spend"))?;
        Ok(row.get(0))
    }

    fn forget_spends(&mut self, now: i64) -> Result<(), StoreError> {
        // The last one stays: it is what witnesses compare with.
        let text = "DELETE FROM sordino_spends WHERE until <= $1
            AND generation < (SELECT generation FROM sordino_state)";
        self.execute("forget old spends", text, &[&now]).map(drop)
    }

    fn has_machine(&mut self, machine: &[u8; 16]) -> Result<bool, StoreError> {
        let text = "SELECT EXISTS (SELECT 1 FROM sordino_machines WHERE id = $1)";
        let row = self.inner.query_one(text, &[&&machine[..]]).map_err(failed("look for a machine"))?;
        Ok(row.get(0))
    }

    fn note_machine(&mut self, machine: &[u8; 16], now: i64) -> Result<(), StoreError> {
        let text = "INSERT INTO sordino_machines VALUES ($1, $2, $2)
            ON CONFLICT (id) DO UPDATE SET seen = excluded.seen";
        self.execute("note a machine", text, &[&&machine[..], &now]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// What a server hears after it has answered the question for TLS, and what the client makes of that.
    fn ask_for_tls(answer: &'static [u8]) -> (Vec<u8>, StoreError) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let mut socket = listener.accept().unwrap().0;
            let mut question = [0; 8];
            socket.read_exact(&mut question).unwrap();
            assert_eq!(question, [0, 0, 0, 8, 4, 210, 22, 47], "a question for TLS comes first");
            socket.write_all(answer).unwrap();
            let mut heard = Vec::new();
            let _ = socket.read_to_end(&mut heard);
            heard
        });
        let config = format!("postgres://sordino@localhost:{port}/store?sslmode=require&hostaddr=127.0.0.1");
        let error = connect(&config.parse().unwrap()).err().unwrap();
        // A machine without any certificates does not even ask.
        if matches!(error, StoreError::PostgresTls(_)) {
            let _ = std::net::TcpStream::connect(("127.0.0.1", port))
                .and_then(|mut socket| socket.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]));
        }
        (server.join().unwrap(), error)
    }

    #[test]
    fn a_server_without_tls_hears_nothing_but_the_question() {
        let (heard, error) = ask_for_tls(b"N");
        assert_eq!(heard, b"");
        assert!(
            matches!(error, StoreError::PostgresCertificate { .. } | StoreError::PostgresTls(_)),
            "{error}"
        );
    }

    #[test]
    fn a_server_that_cannot_show_a_certificate_is_not_believed() {
        let (_, error) = ask_for_tls(b"S\x15\x03\x03\x00\x02\x02\x28");
        let says = error.to_string();
        assert!(says.contains("SSL_CERT_FILE") || matches!(error, StoreError::PostgresTls(_)), "{says}");
    }
}
