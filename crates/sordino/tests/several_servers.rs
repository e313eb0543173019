//! Several servers that clients take for one, as an operator runs them: each with a state folder of its own, all with one
//! store.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use support::postgres::Schema;
use support::processes::{Folder, Server, sordino, text};

const TABLES: [&str; 4] = ["state", "spends", "machines", "prepared"];

/// A store, and what its servers are started with.
struct Fleet {
    folder: Folder,
    flags: Vec<String>,
    schema: Option<Schema>,
}

impl Fleet {
    /// On SQLite.
    fn sqlite(name: &str) -> Self {
        let folder = Folder::new(name);
        let store = folder.path("store.sqlite").to_str().unwrap().to_owned();
        Self { folder, flags: vec!["--store".to_owned(), store], schema: None }
    }

    /// None where no PostgreSQL is named.
    fn postgres(name: &str) -> Option<Self> {
        let schema = Schema::new(&format!("sordino_{name}_{}", std::process::id()))?;
        let flags = vec!["--store".to_owned(), schema.url()];
        Some(Self { folder: Folder::new(name), flags, schema: Some(schema) })
    }

    /// With a file that all servers share.
    fn sharing(mut self, flag: &str) -> Self {
        let file = self.folder.path("shared.key").to_str().unwrap().to_owned();
        self.flags.extend([flag.to_owned(), file]);
        self
    }

    fn flags<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        self.flags.iter().map(String::as_str).chain(more.iter().copied()).collect()
    }

    fn start(&self, machine: &str, more: &[&str]) -> Server {
        let (model, state) = (self.folder.path("tiny.sordino"), self.folder.path(machine));
        Server::start_model(&model, &state, &self.flags(more), Stdio::null())
    }

    /// What a server says that does not start.
    fn start_in_vain(&self, machine: &str, more: &[&str]) -> String {
        let mut command = sordino();
        command.arg("serve").arg(self.folder.path("tiny.sordino")).args([
            "--listen",
            "127.0.0.1:0",
            "--state",
        ]);
        let output = command.arg(self.folder.path(machine)).args(self.flags(more)).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    }

    /// Prepares one inference at a server, into a file of this name.
    fn prepare(&self, server: &Server, file: &str) -> PathBuf {
        let (path, key) = (self.folder.path(file), self.folder.path("client.key"));
        let mut command = server.client("prepare");
        command.args(["--fingerprint", &server.fingerprint, "-n", "1", "-o"]).arg(&path);
        let output = command.arg("--key-file").arg(key).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        path
    }

    /// Uses a file at a server.
    fn classify(&self, server: &Server, file: &Path) -> Output {
        let mut command = server.client("classify");
        command.arg(self.folder.path("images/0.png")).args([
            "--fingerprint",
            &server.fingerprint,
            "--prepared",
        ]);
        command.arg(file).arg("--key-file").arg(self.folder.path("client.key")).output().unwrap()
    }

    fn expect_answer(&self, server: &Server, file: &Path) {
        let output = self.classify(server, file);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }

    fn expect_spent(&self, server: &Server, file: &Path) {
        let output = self.classify(server, file);
        let notes = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{notes}");
        assert!(notes.contains("it was used, has expired, or is another client's"), "{notes}");
    }
    fn copy_database(&self) {
        match &self.schema {
            None => self.copy_files("store.sqlite", "old.sqlite"),
            Some(schema) => {
                for table in TABLES {
                    let name = &schema.name;
                    schema
                        .execute(&format!("CREATE TABLE {name}.old_{table} AS TABLE {name}.sordino_{table}"));
                }
            }
        }
    }

    fn restore_database(&self) {
        match &self.schema {
            None => self.copy_files("old.sqlite", "store.sqlite"),
            Some(schema) => {
                for table in TABLES {
                    let name = &schema.name;
                    schema.execute(&format!(
                        "TRUNCATE {name}.sordino_{table};
                         INSERT INTO {name}.sordino_{table} TABLE {name}.old_{table}"
                    ));
                }
            }
        }
    }

    /// The database with its log; nobody has it open.
    fn copy_files(&self, from: &str, to: &str) {
        for end in ["", "-wal", "-shm"] {
            let (from, to) =
                (self.folder.path(&format!("{from}{end}")), self.folder.path(&format!("{to}{end}")));
            let _ = std::fs::remove_file(&to);
            if from.exists() {
                std::fs::copy(&from, &to).unwrap();
            }
        }
    }
}

/// Every kind of store that there is here.
fn fleets(name: &str) -> Vec<Fleet> {
    [Some(Fleet::sqlite(name)), Fleet::postgres(name)].into_iter().flatten().collect()
}

#[test]
fn what_one_server_prepared_another_one_finishes() {
    for flag in ["--store-key", "--cluster-key"] {
        for fleet in fleets(&format!("several{}", flag.replace('-', "_"))) {
            let fleet = fleet.sharing(flag);
            let (first, second) = (fleet.start("first", &[]), fleet.start("second", &[]));
            assert_eq!(first.fingerprint == second.fingerprint, flag == "--cluster-key");
            let file = fleet.prepare(&first, "one");
            // Who is refused destroys its copy.
            let copies = ["copy", "another"].map(|name| fleet.folder.path(name));
            for copy in &copies {
                std::fs::copy(&file, copy).unwrap();
            }
            drop(first);
            fleet.expect_answer(&second, &file);
            fleet.expect_spent(&second, &copies[0]);
            // The first one comes back and knows it, too.
            fleet.expect_spent(&fleet.start("first", &[]), &copies[1]);
        }
    }
}

#[test]
fn a_machine_that_a_shared_store_does_not_know_joins_when_it_is_told_to() {
    let Some(fleet) = Fleet::postgres("joins") else { return };
    let fleet = fleet.sharing("--cluster-key");
    let first = fleet.start("first", &[]);
    let (file, other) = (fleet.prepare(&first, "one"), fleet.prepare(&first, "two"));
    let refusal = fleet.start_in_vain("second", &[]);
    assert!(refusal.contains("does not know this machine") && refusal.contains("2 prepared"), "{refusal}");
    let second = fleet.start("second", &["--store-join", "keep"]);
    fleet.expect_answer(&second, &file);
    drop(second);
    // From now on it is known.
    drop(fleet.start("second", &[]));
    let third = fleet.start("third", &["--store-join", "drop"]);
    fleet.expect_spent(&third, &other);
    let last = fleet.prepare(&first, "three");
    fleet.expect_answer(&third, &last);
}

/// The database is put back as it was when an inference waited, and the machine that spent it is gone.
#[test]
fn a_restored_database_and_a_fresh_machine_do_not_revive_what_was_spent() {
    for fleet in fleets("restored") {
        let fleet = fleet.sharing("--cluster-key");
        let mut first = fleet.start("first", &[]);
        let file = fleet.prepare(&first, "one");
        let copy = fleet.folder.path("copy");
        std::fs::copy(&file, &copy).unwrap();
        first.kill();
        fleet.copy_database();
        let mut first = fleet.start("first", &[]);
        fleet.expect_answer(&first, &file);
        first.kill();
        fleet.restore_database();
        if fleet.schema.is_some() {
            let refusal = fleet.start_in_vain("fresh", &[]);
            assert!(refusal.contains("--store-join"), "{refusal}");
        }
        let fresh = match &fleet.schema {
            Some(_) => fleet.start("fresh", &["--store-join", "drop"]),
            None => fleet.start("fresh", &[]),
        };
        fleet.expect_spent(&fresh, &copy);
    }
}
