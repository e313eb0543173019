//! Each prepared inference is spent once, with real processes: random sequences of preparing, using, kill -9 of a server in
//! the middle of either, clients that die, old client files put back, restarts, two server processes on one store: of one
//! machine on SQLite, of two on PostgreSQL.
//!
//! `PROPTEST_CASES=100 scripts/with-postgres cargo test -p sordino --test durability` runs more of them; without
//! `scripts/with-postgres` the shared store is left out. Old databases put back are in the store's own property test.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::process::Stdio;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::process::{Pid, Signal, kill_process};
use sordino::client::prepared_file::PreparedFile;
use sordino::client::{ClientError, ConnectOptions, PrivateClient};
use sordino::crypto::secret::Secret;
use sordino::inference::InferenceError;
use sordino::inference::client::Answer;
use sordino::inference::connection::Trust;
use sordino::inference::connection::refusal::RefusalCode;
use sordino::network::image::Image;
use sordino::network::inference_model::InferenceModel;
use sordino::network::reference::bound::{self, ReluRounding};

use support::postgres::Schema;
use support::processes::{Folder, Server};
use support::tiny_model;

const PROCESSES: usize = 2;
const OPERATIONS: usize = 14;

#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Through one of the processes.
    Prepare(usize),
    /// A file as it was when it was made, whatever became of it since.
    Use(usize, usize),
    /// The client destroys its copy and dies before it asks.
    ClientDies(usize),
    /// kill -9 after this part (of 1000) of the time that preparing takes.
    KillWhilePreparing(usize, u32),
    /// kill -9 after this part of the time that using takes.
    KillWhileUsing(usize, usize, u32),
    KillIdle(usize),
    Restart(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let (process, which, moment) = (0..PROCESSES, 0..100_usize, 0..1000_u32);
    prop_oneof![
        4 => process.clone().prop_map(Prepare),
        4 => (process.clone(), which.clone()).prop_map(|(process, which)| Use(process, which)),
        1 => which.clone().prop_map(ClientDies),
        2 => (process.clone(), moment.clone()).prop_map(|(process, moment)| KillWhilePreparing(process, moment)),
        4 => (process.clone(), which, moment)
            .prop_map(|(process, which, moment)| KillWhileUsing(process, which, moment)),
        1 => process.clone().prop_map(KillIdle),
        1 => process.prop_map(Restart),
    ]
}

/// What is known about an inference from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    /// The server died while it was in use.
    Unsure,
    Spent,
}

struct World {
    servers: Vec<Server>,
    model: InferenceModel,
    image: Image,
    /// Each file holds one inference: its bytes when it was made.
    files: Vec<(Vec<u8>, Fate)>,
    /// How long preparing and using take.
    usual: [Duration; 2],
    store: Option<String>,
    made: usize,
    folder: Folder,
    /// Dropped when the servers are gone.
    _schema: Option<Schema>,
}

impl World {
    fn new(schema: Option<Schema>) -> Self {
        let folder = Folder::new("durability");
        let model = tiny_model(1);
        let image = Image::random(model.outline().input, 1);
        let store = schema.as_ref().map(Schema::url);
        let mut world = Self {
            servers: Vec::new(),
            model,
            image,
            files: Vec::new(),
            usual: [Duration::ZERO; 2],
            store,
            made: 0,
            folder,
            _schema: schema,
        };
        world.servers = (0..PROCESSES).map(|process| world.start(process)).collect();
        let begin = Instant::now();
        world.prepare(0).unwrap();
        let between = Instant::now();
        world.attempt(0, 0).unwrap();
        world.files[0].1 = Fate::Spent;
        world.usual = [between - begin, between.elapsed()];
        world
    }

    /// Processes of one machine share a state folder. Those with a shared store are machines apart: all they share is a
    /// copy of the cluster's key.
    fn start(&self, process: usize) -> Server {
        let cluster_key = self.folder.path("cluster.key");
        let mut flags = vec!["--timeout", "10", "--prepared-per-client", "100000"];
        let mut state = "state".to_owned();
        flags.extend(["--preparations-per-hour", "0", "--answers-per-hour", "0", "--sessions-per-hour", "0"]);
        if let Some(store) = &self.store {
            flags.extend(["--store", store, "--cluster-key", cluster_key.to_str().unwrap()]);
            state = format!("state {process}");
        }
        let (model, state) = (self.folder.path("tiny.sordino"), self.folder.path(&state));
        Server::start_model(&model, &state, &flags, Stdio::null())
    }

    fn connect(&self, process: usize) -> Result<PrivateClient, ClientError> {
        let server = &self.servers[process];
        let trust = Trust::Fingerprint(server.fingerprint.parse().unwrap());
        let options = ConnectOptions { silence: Duration::from_secs(10), ..ConnectOptions::new(trust) };
        PrivateClient::connect(&server.address, options)
    }

    fn prepare(&mut self, process: usize) -> Result<(), ClientError> {
        let mut client = self.connect(process)?;
        self.made += 1;
        let path = self.folder.path(&format!("{}.prepared", self.made));
        let plan = Arc::clone(client.session_mut().plan());
        let description = client.describe_file("here").unwrap();
        let mut file = PreparedFile::create(&path, key(), description, &plan, 1).unwrap();
        client.prepare_into(&mut file)?;
        // What this returns for is durable, whoever dies next.
        self.files.push((std::fs::read(&path).unwrap(), Fate::Waiting));
        Ok(())
    }

    fn put_back(&self, which: usize) -> PreparedFile {
        let path = self.folder.path("old.prepared");
        std::fs::write(&path, &self.files[which].0).unwrap();
        rustix::fs::chmod(&path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
        PreparedFile::open(&path, key()).unwrap()
    }

    /// Uses a file as it was when it was made.
    fn attempt(&self, process: usize, which: usize) -> Result<(), ClientError> {
        let mut file = self.put_back(which);
        let mut client = self.connect(process)?;
        let answers = client.classify_from(&mut file, std::slice::from_ref(&self.image))?;
        let Answer::Logits(logits) = &answers[0] else { panic!("logits were asked for") };
        let is_near = bound::allows(&self.model, &self.image, logits, ReluRounding::Stochastic);
        assert!(is_near.unwrap(), "{logits:?}");
        assert_eq!(file.remaining(0).unwrap(), 0);
        Ok(())
    }

    /// Uses a file and compares with what must happen.
    fn expect(&mut self, process: usize, which: usize) {
        let fate = self.files[which].1;
        match self.attempt(process, which) {
            Ok(()) => assert_ne!(fate, Fate::Spent, "inference {which} is used again"),
            Err(error) => {
                assert_ne!(fate, Fate::Waiting, "inference {which} waits and is not given out: {error}");
                assert!(is_spent(&error), "{error}");
            }
        }
        self.files[which].1 = Fate::Spent;
    }

    fn run(&mut self, operation: Operation) {
        let count = self.files.len();
        match operation {
            Operation::Prepare(process) => self.prepare(process).unwrap(),
            Operation::Use(process, which) => self.expect(process, which % count),
            // Nobody else notices: an old copy of its file is as good as before.
            Operation::ClientDies(which) => {
                let plan = Arc::clone(self.connect(0).unwrap().session_mut().plan());
                let mut file = self.put_back(which % count);
                let chosen = file.choose(0, 1).unwrap().pop().unwrap();
                drop(file.take(chosen, &plan).unwrap());
                assert_eq!(file.remaining(0).unwrap(), 0);
            }
            Operation::KillWhilePreparing(process, moment) => {
                let killing = self.kill_after(process, self.usual[0] * moment / 1000);
                // What did not come to its end is in nobody's file.
                let _ = self.prepare(process);
                killing.join().unwrap();
                self.revive(process);
            }
            Operation::KillWhileUsing(process, which, moment) => {
                let killing = self.kill_after(process, self.usual[1] * moment / 1000);
                let which = which % count;
                let result = self.attempt(process, which);
                killing.join().unwrap();
                let fate = &mut self.files[which].1;
                match result {
                    Ok(()) => {
                        assert_ne!(*fate, Fate::Spent, "inference {which} is used again");
                        *fate = Fate::Spent;
                    }
                    Err(error) if is_spent(&error) => {
                        assert_ne!(*fate, Fate::Waiting, "inference {which} waits and is not given out");
                        *fate = Fate::Spent;
                    }
                    Err(_) if *fate == Fate::Waiting => *fate = Fate::Unsure,
                    Err(_) => {}
                }
                self.revive(process);
            }
            Operation::KillIdle(process) => self.revive(process),
            Operation::Restart(process) => {
                let server = self.start(process);
                let (code, _) = std::mem::replace(&mut self.servers[process], server).stop();
                assert_eq!(code, Some(0));
            }
        }
    }

    fn kill_after(&self, process: usize, moment: Duration) -> thread::JoinHandle<()> {
        let id = Pid::from_raw(self.servers[process].id() as i32).unwrap();
        thread::spawn(move || {
            thread::sleep(moment);
            kill_process(id, Signal::KILL).unwrap();
        })
    }

    fn revive(&mut self, process: usize) {
        self.servers[process].kill();
        self.servers[process] = self.start(process);
    }
}

fn is_spent(error: &ClientError) -> bool {
    matches!(error, ClientError::Inference(InferenceError::Refused { refusal, .. }) if refusal.code == RefusalCode::Spent)
}

fn key() -> Secret<[u8; 32]> {
    Secret::new([4; 32])
}

fn run(schema: Option<Schema>, operations: &[Operation]) {
    let mut world = World::new(schema);
    operations.iter().for_each(|operation| world.run(*operation));
    // All that is left is good once, by whichever process.
    for which in 0..world.files.len() {
        world.expect(which % PROCESSES, which);
        world.expect((which + 1) % PROCESSES, which);
    }
}

/// So many, or as many as `PROPTEST_CASES` says.
fn cases(usual: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(usual);
    ProptestConfig { cases, failure_persistence: None, max_shrink_iters: 30, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(3))]

    #[test]
    fn with_the_embedded_store_nothing_is_spent_twice_though_servers_are_killed(
        operations in prop::collection::vec(operation(), 6..OPERATIONS)
    ) {
        run(None, &operations);
    }
}

proptest! {
    #![proptest_config(cases(2))]

    #[test]
    fn with_the_shared_store_nothing_is_spent_twice_though_servers_are_killed(
        operations in prop::collection::vec(operation(), 6..OPERATIONS), number in any::<u64>()
    ) {
        if let Some(schema) = Schema::new(&format!("sordino_kills_{}_{number}", std::process::id())) {
            run(Some(schema), &operations);
        }
    }
}
