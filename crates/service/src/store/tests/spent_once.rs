//! Each prepared inference is spent at most once, whatever happens: random sequences of preparing, using, crashes of either
//! side, restarts, two server processes, old client files put back and old databases put back.

use std::collections::HashMap;
use std::fs;

use proptest::prelude::*;

use super::client_file::BytesFile;
use super::*;
use client::prepared_file::StoredEntry;

const OPERATIONS: usize = 24;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Through one of the two processes.
    Prepare(usize),
    /// The client takes from its file, a process serves it.
    Use(usize),
    /// The client dies after the server has accepted and before its own copy is destroyed.
    ClientDiesBeforeDestroying(usize),
    /// The process dies when the inference is spent and nobody has heard of it.
    ServerDiesBeforeAnswering(usize),
    /// An id that was served before is asked for again.
    Replay(usize, usize),
    CopyClientFile,
    RestoreClientFile,
    Restart(usize),
    CopyDatabase,
    RestoreDatabase,
    Wait(i64),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        6 => (0..2_usize).prop_map(Prepare),
        6 => (0..2_usize).prop_map(Use),
        1 => (0..2_usize).prop_map(ClientDiesBeforeDestroying),
        1 => (0..2_usize).prop_map(ServerDiesBeforeAnswering),
        2 => (0..2_usize, 0..100_usize).prop_map(|(process, which)| Replay(process, which)),
        1 => Just(CopyClientFile),
        2 => Just(RestoreClientFile),
        1 => (0..2_usize).prop_map(Restart),
        1 => Just(CopyDatabase),
        1 => Just(RestoreDatabase),
        1 => (1..60_i64).prop_map(Wait),
    ]
}

/// What is known about an inference from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    Spent,
    /// Dropped with an old database, or never in it.
    Lost,
}

struct World {
    place: Place,
    processes: Vec<Option<PreparedStore>>,
    file: BytesFile,
    old_file: Option<Vec<u8>>,
    old_database: Option<Vec<StoredId>>,
    spends_since_copy: usize,
    fates: HashMap<StoredId, (Fate, i64)>,
    served: Vec<StoredId>,
    number: u8,
}

impl World {
    fn new(place: Place) -> Self {
        let processes = vec![Some(place.open().unwrap()), Some(place.open().unwrap())];
        let file = BytesFile::create(&place.folder.path().join("client"), 1, 64);
        Self {
            place,
            processes,
            file,
            old_file: None,
            old_database: None,
            spends_since_copy: 0,
            fates: HashMap::new(),
            served: Vec::new(),
            number: 0,
        }
    }

    fn now(&self) -> i64 {
        self.place.clock.load(Ordering::SeqCst)
    }

    fn store(&self, process: usize) -> &PreparedStore {
        self.processes[process].as_ref().unwrap()
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Prepare(process) => self.prepare(process),
            Operation::Use(process) => {
                if let Some(chosen) = self.file.choose(self.now()) {
                    match self.ask(process, chosen.id()) {
                        Some(half) => {
                            assert_eq!(half, self.file.take(chosen), "the halves belong together");
                        }
                        None => self.file.discard(chosen),
                    }
                }
            }
            Operation::ClientDiesBeforeDestroying(process) => {
                if let Some(chosen) = self.file.choose(self.now()) {
                    self.ask(process, chosen.id());
                }
            }
            Operation::ServerDiesBeforeAnswering(process) => {
                if let Some(chosen) = self.file.choose(self.now()) {
                    self.ask(process, chosen.id());
                    self.restart(process);
                }
            }
            Operation::Replay(process, which) => {
                if !self.served.is_empty() {
                    self.ask(process, self.served[which % self.served.len()]);
                }
            }
            Operation::CopyClientFile => self.old_file = Some(self.file.read()),
            Operation::RestoreClientFile => {
                if let Some(old) = &self.old_file {
                    self.file.write(old);
                }
            }
            Operation::Restart(process) => self.restart(process),
            Operation::CopyDatabase => self.copy_database(),
            Operation::RestoreDatabase => self.restore_database(),
            Operation::Wait(seconds) => self.place.pass(seconds),
        }
    }

    fn prepare(&mut self, process: usize) {
        self.number += 1;
        let body = vec![self.number];
        let id = fresh_id();
        let expires = self.store(process).put_bytes(OWNER, id, &token(1).hash(), MODEL, &body).unwrap();
        self.fates.insert(id, (Fate::Waiting, expires as i64));
        self.file.add(StoredEntry { id, expires }, &body);
    }

    /// Asks for an inference and compares with what must happen.
    fn ask(&mut self, process: usize, id: StoredId) -> Option<Vec<u8>> {
        let (fate, expires) = self.fates[&id];
        let result = take(self.store(process), id);
        match result {
            Ok(half) => {
                assert_eq!(fate, Fate::Waiting, "{id} is given out although it is {fate:?}");
                assert!(expires > self.now(), "{id} has expired");
                self.fates.insert(id, (Fate::Spent, expires));
                self.served.push(id);
                self.spends_since_copy += 1;
                Some(half)
            }
            Err(StoreError::Unknown { .. }) => {
                let is_due = fate == Fate::Waiting && expires > self.now();
                assert!(!is_due, "{id} waits and is not given out");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn restart(&mut self, process: usize) {
        self.processes[process] = None;
        self.processes[process] = Some(self.place.open().unwrap());
    }

    fn stop(&mut self) {
        self.processes.iter_mut().for_each(|process| *process = None);
    }

    fn start(&mut self) {
        for process in &mut self.processes {
            *process = Some(self.place.open().unwrap());
        }
    }

    fn copy_database(&mut self) {
        self.stop();
        match (&self.place.options.location, &self.place.schema) {
            (StoreLocation::File(path), _) => drop(fs::copy(path, self.place.folder.path().join("copy")).unwrap()),
            (_, Some(schema)) => TABLES.iter().for_each(|table| {
                let name = &schema.name;
                schema.execute(&format!(
                    "DROP TABLE IF EXISTS {name}.copy_{table}; CREATE TABLE {name}.copy_{table} AS TABLE {name}.sordino_{table}"
                ));
            }),
            _ => unreachable!("a shared store has a schema"),
        }
        self.start();
        let waiting = self.fates.iter().filter(|(_, (fate, _))| *fate == Fate::Waiting).map(|(id, _)| *id);
        self.old_database = Some(waiting.collect());
        self.spends_since_copy = 0;
    }

    /// As an administrator would after a loss: the witness, outside the database, stays.
    fn restore_database(&mut self) {
        let Some(old) = self.old_database.clone() else { return };
        self.stop();
        match (&self.place.options.location, &self.place.schema) {
            (StoreLocation::File(path), _) => drop(fs::copy(self.place.folder.path().join("copy"), path).unwrap()),
            (_, Some(schema)) => TABLES.iter().for_each(|table| {
                let name = &schema.name;
                schema.execute(&format!(
                    "TRUNCATE {name}.sordino_{table}; INSERT INTO {name}.sordino_{table} TABLE {name}.copy_{table}"
                ));
            }),
            _ => unreachable!("a shared store has a schema"),
        }
        // What was put after the copy is not in it.
        for (id, (fate, _)) in &mut self.fates {
            if *fate == Fate::Waiting && !old.contains(id) {
                *fate = Fate::Lost;
            }
        }
        let opened = self.place.open();
        if matches!(opened, Err(StoreError::Restored { .. })) {
            assert!(self.spends_since_copy > 0, "nothing was spent since, and yet all is dropped");
            self.fates
                .values_mut()
                .filter(|(fate, _)| *fate == Fate::Waiting)
                .for_each(|(fate, _)| *fate = Fate::Lost);
            self.old_database = None;
        } else {
            opened.unwrap();
        }
        self.start();
    }
}

pub(super) const TABLES: [&str; 4] = ["state", "spends", "machines", "prepared"];

fn run(place: Place, operations: &[Operation]) {
    let mut world = World::new(place);
    operations.iter().for_each(|operation| world.run(*operation));
    world.stop();
    drop(world);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn in_the_embedded_store_nothing_is_spent_twice(operations in prop::collection::vec(operation(), 1..OPERATIONS)) {
        run(Place::sqlite("spent-once"), &operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, max_shrink_iters: 100, ..ProptestConfig::default() })]

    #[test]
    fn in_the_shared_store_nothing_is_spent_twice(operations in prop::collection::vec(operation(), 1..OPERATIONS)) {
        if let Some(place) = Place::postgres("spent-once") {
            run(place, &operations);
        }
    }
}
