//! The same tests for both databases. PostgreSQL is used when `SORDINO_TEST_POSTGRES` names one; `scripts/with-postgres`
//! starts a throw-away server and sets it.

mod client_file;
mod quotas;
mod readers;
mod spent_once;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use sealed::secret_file::SecretFileError;

const MODEL: Digest = Digest([5; 32]);
const OWNER: &[u8] = b"client";

/// A place for a store, and a clock that the test moves.
pub(super) struct Place {
    pub(super) folder: tempfile::TempDir,
    pub(super) options: StoreOptions,
    pub(super) clock: Arc<AtomicI64>,
    /// Of the shared store, to be dropped at the end.
    pub(super) schema: Option<Schema>,
}

/// A name space of its own in a real PostgreSQL.
pub(super) struct Schema {
    address: String,
    pub(super) name: String,
}

impl Schema {
    pub(super) fn execute(&self, text: &str) {
        let mut client = ::postgres::Client::connect(&self.address, ::postgres::NoTls).unwrap();
        client.batch_execute(text).unwrap();
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.execute(&format!("DROP SCHEMA {} CASCADE", self.name));
    }
}

impl Place {
    pub(super) fn sqlite(name: &str) -> Self {
        let folder = tempfile::Builder::new().prefix(name).tempdir().unwrap();
        let mut options = StoreOptions::in_folder(folder.path());
        options.lifetime = Duration::from_secs(100);
        Self { folder, options, clock: Arc::new(AtomicI64::new(1_000_000)), schema: None }
    }

    /// None, with a printed reason, where no PostgreSQL is named.
    pub(super) fn postgres(name: &str) -> Option<Self> {
        let Ok(address) = std::env::var("SORDINO_TEST_POSTGRES") else {
            eprintln!(
                "SKIPPED {name}: SORDINO_TEST_POSTGRES is not set; scripts/with-postgres COMMAND sets it"
            );
            return None;
        };
        let mut place = Self::sqlite(name);
        let schema = Schema { name: format!("sordino_{}", fresh_id()), address };
        schema.execute(&format!("CREATE SCHEMA {}", schema.name));
        let address = format!("{} options='-c search_path={}'", schema.address, schema.name);
        place.options.location = StoreLocation::Postgres(address);
        place.schema = Some(schema);
        Some(place)
    }

    /// One process' handle.
    pub(super) fn open(&self) -> Result<PreparedStore, StoreError> {
        let clock = Arc::clone(&self.clock);
        PreparedStore::open_at(self.options.clone(), Box::new(move || clock.load(Ordering::SeqCst)))
    }

    pub(super) fn pass(&self, seconds: i64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }
}

/// Runs a test in both databases, or says why not.
fn in_both(name: &str, test: impl Fn(Place)) {
    test(Place::sqlite(name));
    if let Some(place) = Place::postgres(name) {
        test(place);
    }
}

fn token(number: u8) -> ClientToken {
    ClientToken::from_bytes([number; 32])
}

pub(super) fn fresh_id() -> StoredId {
    StoredId(*Seed::from_system().unwrap().expose().first_chunk().unwrap())
}

fn put(store: &PreparedStore, plain: &[u8]) -> StoredId {
    let id = fresh_id();
    store.put_bytes(OWNER, id, &token(1).hash(), MODEL, plain).unwrap();
    id
}

fn take(store: &PreparedStore, id: StoredId) -> Result<Vec<u8>, StoreError> {
    let taken = store.take_bytes(&[id], &token(1), MODEL)?;
    Ok(taken[0].1.expose().clone())
}

#[test]
fn what_is_put_comes_out_once_for_its_client_and_model_alone() {
    in_both("once", |place| {
        let store = place.open().unwrap();
        let id = put(&store, b"half");
        let unknown = |result| matches!(result, Err(StoreError::Unknown { .. }));
        assert!(unknown(store.take_bytes(&[id], &token(2), MODEL)));
        assert!(unknown(store.take_bytes(&[id], &token(1), Digest([6; 32]))));
        assert!(unknown(store.take_bytes(&[StoredId([0; 16])], &token(1), MODEL)));
        // Refusals spent nothing; another process gets it, once.
        let other = place.open().unwrap();
        assert_eq!(take(&other, id).unwrap(), b"half");
        assert!(matches!(take(&other, id), Err(StoreError::Unknown { id: named }) if named == id));
        assert!(matches!(take(&store, id), Err(StoreError::Unknown { .. })));
        drop((store, other));
        assert!(matches!(take(&place.open().unwrap(), id), Err(StoreError::Unknown { .. })));
    });
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    in_both("batch", |place| {
        let store = place.open().unwrap();
        let ids = [put(&store, b"one"), put(&store, b"two")];
        let with_a_stranger = [ids[0], StoredId([9; 16]), ids[1]];
        assert!(store.take_bytes(&with_a_stranger, &token(1), MODEL).is_err());
        assert!(store.take_bytes(&[ids[0], ids[0]], &token(1), MODEL).is_err(), "no id twice");
        let taken = store.take_bytes(&ids, &token(1), MODEL).unwrap();
        assert_eq!((taken[0].1.expose(), taken[1].1.expose()), (&b"one".to_vec(), &b"two".to_vec()));
    });
}

#[test]
fn what_was_taken_is_in_no_file_of_the_database_afterwards() {
    let place = Place::sqlite("journal");
    let StoreLocation::File(path) = &place.options.location else { unreachable!("it is SQLite") };
    let store = place.open().unwrap();
    let ids: Vec<_> = (0..20).map(|number| put(&store, &[number; 50_000])).collect();
    let rows = |folder: &std::path::Path| -> Vec<Vec<u8>> {
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ours = files.filter(|file| file.file_name().unwrap().to_string_lossy().starts_with(&name));
        ours.map(|file| std::fs::read(file).unwrap()).collect()
    };
    let length = |files: &[Vec<u8>]| files.iter().map(Vec::len).sum::<usize>();
    let before = rows(path.parent().unwrap());
    let reading = rusqlite::Connection::open(path).unwrap();
    let mut select = reading.prepare("SELECT sealed FROM prepared LIMIT 2").unwrap();
    let sealed = select.query_map([], |row| row.get(0)).unwrap();
    let sealed: Vec<Vec<u8>> = sealed.collect::<Result<_, _>>().unwrap();
    drop(select);
    drop(reading);
    ids.iter().for_each(|id| assert!(take(&store, *id).is_ok()));
    store.expire().unwrap();
    let after = rows(path.parent().unwrap());
    for sealed in sealed {
        let probes = sealed.chunks(2000).filter_map(|chunk| chunk.get(500..532));
        for probe in probes {
            let is_in =
                |files: &[Vec<u8>]| files.iter().any(|file| file.windows(32).any(|window| window == probe));
            assert!(is_in(&before) && !is_in(&after), "a part of a spent row is still there");
        }
    }
    assert!(length(&after) < length(&before) / 4, "{} of {}", length(&after), length(&before));
}

#[test]
fn everything_expires() {
    in_both("expiry", |place| {
        let store = place.open().unwrap();
        let early = put(&store, b"early");
        place.pass(60);
        let late = fresh_id();
        let expires = store.put_bytes(OWNER, late, &token(1).hash(), MODEL, b"late").unwrap();
        assert_eq!(expires, 1_000_160);
        place.pass(40);
        assert!(matches!(take(&store, early), Err(StoreError::Unknown { .. })));
        assert_eq!(store.expire().unwrap(), 1);
        assert_eq!(take(&store, late).unwrap(), b"late");
    });
}

#[test]
fn limits_hold_for_a_client_and_for_all() {
    in_both("limits", |mut place| {
        place.options.per_client = 2;
        place.options.total = 3;
        place.options.per_client_bytes = 420;
        place.options.total_bytes = 3 * 128 + 50;
        let store = place.open().unwrap();
        let put = |owner: &[u8], length: usize| {
            store.put_bytes(owner, fresh_id(), &token(1).hash(), MODEL, &vec![0; length - seal::OVERHEAD])
        };
        let full = |result: Result<u64, StoreError>| match result {
            Err(StoreError::Full { limit, .. }) => limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(full(put(b"a", 421)), 420, "bytes of one client");
        put(b"a", 128).unwrap();
        put(b"a", 128).unwrap();
        assert_eq!(full(put(b"a", 128)), 2);
        assert!(store.expect_room(b"a", 1, 0).is_err() && store.expect_room(b"b", 1, 128).is_ok());
        put(b"b", 128).unwrap();
        assert_eq!(full(put(b"c", 40)), 3);
        assert!(store.expect_room(b"c", 0, 51).is_err() && store.expect_room(b"c", 0, 50).is_ok());
        assert_eq!(store.usage(Some(b"a")).unwrap(), Usage { count: 2, bytes: 256 });
        assert_eq!(store.usage(None).unwrap(), Usage { count: 3, bytes: 384 });
        place.pass(100);
        put(b"c", 40).unwrap();
    });
}

#[test]
fn many_threads_of_several_processes_get_each_inference_once() {
    in_both("race", |place| {
        let stores: Vec<_> = (0..2).map(|_| place.open().unwrap()).collect();
        let ids: Vec<_> = (0..4).map(|number| put(&stores[0], &[number])).collect();
        let won = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for store in &stores {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for id in &ids {
                            match take(store, *id) {
                                Ok(bytes) => won.lock().unwrap().push(bytes[0]),
                                Err(StoreError::Unknown { .. }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                    });
                }
            }
        });
        let mut won = won.into_inner().unwrap();
        won.sort_unstable();
        assert_eq!(won, [0, 1, 2, 3]);
    });
}

#[test]
fn another_key_or_a_readable_one_is_refused() {
    in_both("key", |mut place| {
        drop(place.open().unwrap());
        let own = place.options.key_file.clone();
        place.options.key_file = place.folder.path().join("other.key");
        assert!(matches!(place.open(), Err(StoreError::OtherKey { .. })));
        std::os::unix::fs::symlink("/dev/null", place.folder.path().join("null")).unwrap();
        place.options.key_file = place.folder.path().join("null");
        let null = place.open();
        assert!(matches!(null, Err(StoreError::File(SecretFileError::Permissions { .. }))));
        place.options.key_file = own;
        assert!(place.open().is_ok());
    });
}

#[test]
fn a_row_that_someone_changed_does_not_open() {
    let place = Place::sqlite("changed");
    let store = place.open().unwrap();
    let changes = ["expires = expires + 1", "owner = zeroblob(32)", "sealed = zeroblob(length(sealed))"];
    for change in changes {
        let id = put(&store, b"half");
        let StoreLocation::File(path) = &place.options.location else { unreachable!() };
        let database = rusqlite::Connection::open(path).unwrap();
        database.execute(&format!("UPDATE prepared SET {change}"), []).unwrap();
        assert!(matches!(take(&store, id), Err(StoreError::Damaged { .. })), "{change}");
        assert!(matches!(take(&store, id), Err(StoreError::Unknown { .. })), "and it is gone");
    }
}

#[test]
fn an_address_that_leaves_the_machine_without_tls_is_refused() {
    let mut place = Place::sqlite("plain");
    place.options.location = StoreLocation::Postgres("host=192.0.2.1 user=nobody".to_owned());
    assert!(matches!(place.open(), Err(StoreError::Plain { host }) if host == "192.0.2.1"));
    // The name is this machine's, the address is not.
    for address in [
        "postgres://nobody@localhost/db?hostaddr=192.0.2.1",
        "host=localhost,localhost hostaddr=127.0.0.1,192.0.2.1 user=nobody",
    ] {
        place.options.location = StoreLocation::Postgres(address.to_owned());
        let refused = place.open();
        assert!(matches!(refused, Err(StoreError::Plain { host }) if host == "192.0.2.1"), "{address}");
    }
    place.options.location = StoreLocation::Postgres("host=/nowhere user=nobody".to_owned());
    assert!(matches!(place.open(), Err(StoreError::Postgres { doing: "connect", .. })));
    place.options.location = StoreLocation::Postgres("no address".to_owned());
    assert!(matches!(place.open(), Err(StoreError::Postgres { doing: "read its address", .. })));
}

#[test]
fn a_lost_witness_or_another_database_in_its_place_drops_all_rows() {
    let place = Place::sqlite("witness");
    let store = place.open().unwrap();
    let first = put(&store, b"first");
    std::fs::remove_file(&place.options.witness_file).unwrap();
    assert!(matches!(take(&store, first), Err(StoreError::Restored { dropped: 1 })));
    assert!(matches!(take(&store, first), Err(StoreError::Unknown { .. })));
    let second = put(&store, b"second");
    drop(store);
    let StoreLocation::File(path) = &place.options.location else { unreachable!() };
    let aside = place.folder.path().join("aside");
    std::fs::rename(path, &aside).unwrap();
    drop(place.open().unwrap());
    std::fs::rename(&aside, path).unwrap();
    assert!(matches!(place.open(), Err(StoreError::Restored { dropped: 1 })));
    assert!(matches!(take(&place.open().unwrap(), second), Err(StoreError::Unknown { .. })));
}

impl Place {
    /// The same store as a machine sees it that was never here.
    fn move_to_a_fresh_machine(&mut self) {
        self.options.witness_file = self.folder.path().join(format!("witness {}", fresh_id()));
    }
}

#[test]
fn a_machine_that_the_store_does_not_know_gets_no_row_unless_it_is_told_to_join() {
    in_both("machine", |mut place| {
        let own = place.options.witness_file.clone();
        let store = place.open().unwrap();
        place.move_to_a_fresh_machine();
        drop(place.open().unwrap());
        let known = place.options.witness_file.clone();
        let first = put(&store, b"first");
        drop(place.open().unwrap());
        // Something waits now, which may be spent for all that another machine knows.
        place.move_to_a_fresh_machine();
        let is_shared = store.rows.is_shared();
        match place.open().err() {
            Some(StoreError::UnknownMachine { waiting: 1, path }) if is_shared => {
                assert_eq!(path, place.options.witness_file);
                assert_eq!(take(&store, first).unwrap(), b"first", "a refusal drops nothing");
            }
            Some(StoreError::Restored { dropped: 1 }) if !is_shared => {
                assert!(matches!(take(&store, first), Err(StoreError::Unknown { .. })));
            }
            other => panic!("{other:?}"),
        }
        let second = put(&store, b"second");
        place.move_to_a_fresh_machine();
        place.options.join = Some(StoreJoin::Keep);
        assert_eq!(take(&place.open().unwrap(), second).unwrap(), b"second");
        let third = put(&store, b"third");
        place.move_to_a_fresh_machine();
        place.options.join = Some(StoreJoin::Drop);
        assert!(matches!(place.open(), Err(StoreError::Restored { dropped: 1 })));
        assert!(matches!(take(&place.open().unwrap(), third), Err(StoreError::Unknown { .. })));
        // Machines that are known are not asked again.
        place.options.join = None;
        let fourth = put(&store, b"fourth");
        for witness in [own, known] {
            place.options.witness_file = witness;
            drop(place.open().unwrap());
        }
        assert_eq!(take(&place.open().unwrap(), fourth).unwrap(), b"fourth");
    });
}

/// The last spend is old when a second machine joins, and what was put since lives longer than what it was noted until.
#[test]
fn a_machine_that_joins_long_after_the_last_spend_takes_the_store_for_no_old_copy() {
    in_both("joins late", |mut place| {
        let first = place.open().unwrap();
        let spent = put(&first, b"spent");
        take(&first, spent).unwrap();
        place.pass(60);
        let (one, two) = (put(&first, b"one"), put(&first, b"two"));
        place.move_to_a_fresh_machine();
        place.options.join = Some(StoreJoin::Keep);
        let second = place.open().unwrap();
        place.pass(60);
        assert_eq!(take(&first, one).unwrap(), b"one");
        assert_eq!(take(&second, two).unwrap(), b"two");
    });
}

#[test]
fn what_has_expired_keeps_no_machine_out() {
    in_both("late", |mut place| {
        put(&place.open().unwrap(), b"half");
        place.pass(100);
        place.move_to_a_fresh_machine();
        drop(place.open().unwrap());
    });
}

#[test]
fn a_database_of_before_this_machine_joined_is_an_old_copy() {
    in_both("joined", |place| {
        let store = place.open().unwrap();
        put(&store, b"half");
        match (&place.options.location, &place.schema) {
            (StoreLocation::File(path), _) => {
                let database = rusqlite::Connection::open(path).unwrap();
                assert_eq!(database.execute("DELETE FROM machines", []).unwrap(), 1);
            }
            (_, Some(schema)) => schema.execute(&format!("DELETE FROM {}.sordino_machines", schema.name)),
            _ => unreachable!("a shared store has a schema"),
        }
        assert!(matches!(place.open(), Err(StoreError::Restored { dropped: 1 })));
        let half = put(&store, b"half");
        assert_eq!(take(&place.open().unwrap(), half).unwrap(), b"half", "and all is well again");
    });
}

#[test]
fn a_witness_of_the_first_format_vouches_and_gets_a_name() {
    in_both("format", |place| {
        let store = place.open().unwrap();
        let half = put(&store, b"half");
        drop(store);
        let path = &place.options.witness_file;
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("machine ")).collect();
        std::fs::write(path, lines.join("\n").replace("witness 2", "witness 1") + "\n").unwrap();
        assert_eq!(take(&place.open().unwrap(), half).unwrap(), b"half");
        assert!(std::fs::read_to_string(path).unwrap().contains("\nmachine "));
    });
}

#[test]
fn nothing_waits_longer_than_a_week() {
    let mut place = Place::sqlite("week");
    place.options.lifetime = MAX_LIFETIME;
    drop(place.open().unwrap());
    place.options.lifetime += Duration::from_secs(1);
    let error = place.open().err().unwrap().to_string();
    assert!(error.contains("604800 seconds at most") && error.contains("--prepared-ttl"), "{error}");
}

/// Finding of a review: such a machine joined without a word, and gave a spent row out again.
#[test]
fn a_restored_database_and_a_fresh_machine_revive_nothing() {
    in_both("revive", |mut place| {
        let store = place.open().unwrap();
        let half = put(&store, b"half");
        place.copy_tables();
        assert_eq!(take(&store, half).unwrap(), b"half");
        drop(store);
        place.restore_tables();
        place.move_to_a_fresh_machine();
        // It may be refused, or drop everything and be opened then; it has nothing to give.
        for _ in 0..2 {
            match place.open() {
                Ok(store) => assert!(matches!(take(&store, half), Err(StoreError::Unknown { .. }))),
                Err(StoreError::UnknownMachine { waiting: 1, .. } | StoreError::Restored { dropped: 1 }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    });
}

impl Place {
    fn copy_tables(&self) {
        let copy =
            "DROP TABLE IF EXISTS NAME.old_TABLE; CREATE TABLE NAME.old_TABLE AS TABLE NAME.sordino_TABLE";
        self.exchange("old.sqlite", "prepared.sqlite", copy);
    }

    fn restore_tables(&self) {
        let restore = "TRUNCATE NAME.sordino_TABLE; INSERT INTO NAME.sordino_TABLE TABLE NAME.old_TABLE";
        self.exchange("prepared.sqlite", "old.sqlite", restore);
    }

    /// Of SQLite whole files, which nobody writes to.
    fn exchange(&self, to: &str, from: &str, command: &str) {
        match &self.schema {
            Some(schema) => {
                for table in spent_once::TABLES {
                    schema.execute(
                        &command.replace("NAME", &schema.name).replace("_TABLE", &format!("_{table}")),
                    );
                }
            }
            None => {
                for end in ["", "-wal", "-shm"] {
                    let file = |name: &str| self.folder.path().join(format!("{name}{end}"));
                    let _ = std::fs::remove_file(file(to));
                    if file(from).exists() {
                        std::fs::copy(file(from), file(to)).unwrap();
                    }
                }
            }
        }
    }
}
