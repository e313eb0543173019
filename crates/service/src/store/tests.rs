//! The same tests for both databases. PostgreSQL is used when `SORDINO_TEST_POSTGRES` names one; `scripts/with-postgres`
//! starts a throw-away server and sets it.

mod client_file;
mod quotas;
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
