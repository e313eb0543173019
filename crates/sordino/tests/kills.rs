//! kill -9 of either side at random moments, over and over: the server starts again on the same state folder, the next inference
//! is right, and what was prepared is never used twice.
//!
//! A few rounds on a small network in CI. 200 rounds with the shipped model by
//! `cargo test -p sordino --test kills -- --ignored --nocapture`; `SORDINO_KILLS=50` makes it so many.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use sordino::image_files::load_image;
use sordino::inference::client::Answer;
use sordino::network::inference_model::InferenceModel;
use sordino::network::reference;

use support::processes::{Folder, Server, text};

/// Far more than any patience here: who takes longer hangs.
const HANGS: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum Action {
    Classify,
    Prepare,
    ClassifyPrepared,
}

#[derive(Clone, Copy, Debug)]
enum Victim {
    Client,
    Server,
}

/// How rounds ended.
#[derive(Debug, Default)]
struct Tally {
    /// The client had finished before anybody was killed.
    too_late: usize,
    /// Killed while something was under way.
    broken: usize,
    /// A prepared inference outlived it, and was used once afterwards.
    used_later: usize,
}

struct Rounds {
    folder: Folder,
    model: PathBuf,
    image: PathBuf,
    expected: usize,
    server: Server,
    fingerprint: String,
    /// How long each action takes when nobody is killed.
    usual: [Duration; 3],
}

impl Rounds {
    fn new(folder: Folder, model: PathBuf) -> Self {
        let image = folder.path("images/0.png");
        let loaded = InferenceModel::load(&model).unwrap();
        let input = load_image(&image, loaded.outline().input).unwrap();
        let expected = Answer::Logits(reference::run(&loaded, &input).unwrap()).class();
        let server = start(&model, &folder);
        let fingerprint = server.fingerprint.clone();
        let usual = [Duration::ZERO; 3];
        let mut rounds = Self { folder, model, image, expected, server, fingerprint, usual };
        for action in [Action::Classify, Action::Prepare, Action::ClassifyPrepared] {
            let start = Instant::now();
            let output = rounds.command(action).output().unwrap();
            assert!(output.status.success(), "{}", text(&output.stderr));
            rounds.usual[action as usize] = start.elapsed();
        }
        rounds
    }

    fn file(&self) -> PathBuf {
        self.folder.path("file.prepared")
    }

    fn command(&self, action: Action) -> Command {
        let verb = if matches!(action, Action::Prepare) { "prepare" } else { "classify" };
        let mut command = self.server.client(verb);
        command.args(["--fingerprint", &self.fingerprint, "--json", "--timeout", "10"]);
        match action {
            Action::Classify => command.arg(&self.image),
            Action::Prepare => {
                command.arg("--key-file").arg(self.folder.path("key")).arg("-o").arg(self.file())
            }
            Action::ClassifyPrepared => command
                .arg(&self.image)
                .arg("--key-file")
                .arg(self.folder.path("key"))
                .arg("--prepared")
                .arg(self.file()),
        };
        command
    }

    fn expect_success(&self, action: Action) {
        let output = self.command(action).output().unwrap();
        assert!(output.status.success(), "{action:?}: {}", text(&output.stderr));
        if !matches!(action, Action::Prepare) {
            assert_eq!(class(&output), self.expected, "a wrong answer");
        }
    }

    /// One death. True where something was under way.
    fn round(&mut self, action: Action, victim: Victim, moment: Duration, tally: &mut Tally) {
        let _ = std::fs::remove_file(self.file());
        if matches!(action, Action::ClassifyPrepared) {
            self.expect_success(Action::Prepare);
        }
        let copy = std::fs::read(self.file()).ok();
        let notes = self.folder.path("notes");
        let mut command = self.command(action);
        command.stdout(Stdio::null()).stderr(File::create(&notes).unwrap());
        let mut client = command.spawn().unwrap();
        thread::sleep(moment);
        match victim {
            Victim::Client => drop(client.kill()),
            Victim::Server => {
                self.server.kill();
                self.server = start(&self.model, &self.folder);
                assert_eq!(self.server.fingerprint, self.fingerprint);
            }
        }
        let code = wait(&mut client).code();
        let notes = std::fs::read_to_string(notes).unwrap();
        assert!(!notes.contains("panicked"), "{notes}");
        match code {
            Some(0) => tally.too_late += 1,
            Some(2) => {
                let explains = ["peer", "nothing listens", "server"].iter().any(|word| notes.contains(word));
                assert!(explains, "{action:?}, the server killed after {moment:?}: {notes}");
                tally.broken += 1;
            }
            _ => tally.broken += 1,
        }
        self.expect_success(Action::Classify);
        self.expect_spent_once(copy, tally);
    }

    /// Whatever is in the file, or in an old copy of it, is good once at most.
    fn expect_spent_once(&self, copy: Option<Vec<u8>>, tally: &mut Tally) {
        let Some(copy) = copy.or_else(|| std::fs::read(self.file()).ok()) else { return };
        std::fs::write(self.file(), &copy).unwrap();
        let first = self.command(Action::ClassifyPrepared).output().unwrap();
        let mut is_filled = true;
        if first.status.success() {
            assert_eq!(class(&first), self.expected, "a wrong answer from a prepared inference");
            tally.used_later += 1;
        } else {
            let why = text(&first.stderr);
            // Whoever died while the file was made left one without an inference, or without a beginning.
            is_filled = why.contains("is not in the store");
            let is_empty =
                why.contains("0 prepared inferences are left") || why.contains("no file of prepared");
            assert!(is_filled || is_empty, "{why}");
        }
        std::fs::write(self.file(), &copy).unwrap();
        let second = self.command(Action::ClassifyPrepared).output().unwrap();
        assert_eq!(second.status.code(), Some(2), "used twice");
        let why = text(&second.stderr);
        assert!(!is_filled || why.contains("is not in the store"), "{why}");
    }
}

fn start(model: &Path, folder: &Folder) -> Server {
    let hourly = ["--preparations-per-hour", "0", "--answers-per-hour", "0", "--sessions-per-hour", "0"];
    let flags = [&["--timeout", "10", "--prepared-per-client", "100000"][..], &hourly].concat();
    Server::start_model(model, &folder.path("state"), &flags, Stdio::null())
}

fn class(output: &Output) -> usize {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["images"][0]["best"][0]["class"].as_u64().unwrap() as usize
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(start.elapsed() < HANGS, "a client hangs");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A number below a bound that looks random and is the same in every run.
fn draw(seed: u64, round: u64, bound: u64) -> u64 {
    let bytes = [seed.to_le_bytes(), round.to_le_bytes()].concat();
    u64::from_le_bytes(*blake3::hash(&bytes).as_bytes().first_chunk().unwrap()) % bound
}

fn run(mut rounds: Rounds, count: u64, seed: u64) -> BTreeMap<String, Tally> {
    let begin = Instant::now();
    let mut tallies = BTreeMap::<_, Tally>::new();
    for round in 0..count {
        let action = [Action::Classify, Action::Prepare, Action::ClassifyPrepared][round as usize % 3];
        let victim = if draw(seed, 2 * round, 2) == 0 { Victim::Client } else { Victim::Server };
        let moment = rounds.usual[action as usize] * draw(seed, 2 * round + 1, 1000) as u32 / 1000;
        let tally = tallies.entry(format!("{action:?}, the {victim:?} killed")).or_default();
        rounds.round(action, victim, moment, tally);
    }
    eprintln!("{count} rounds in {:.0} s, seed {seed}", begin.elapsed().as_secs_f64());
    for (what, tally) in &tallies {
        eprintln!("{what}: {tally:?}");
    }
    tallies
}

#[test]
fn a_few_deaths_of_either_side_cost_nothing_but_the_inference_under_way() {
    let folder = Folder::new("kills");
    let model = folder.path("tiny.sordino");
    let tallies = run(Rounds::new(folder, model), 9, 7);
    assert!(tallies.values().map(|tally| tally.broken).sum::<usize>() > 0, "nobody died in time");
}

#[test]
#[ignore = "takes minutes"]
fn two_hundred_deaths_with_the_shipped_model() {
    let folder = Folder::new("kills-full");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/hybrenet-26k-cifar100.sordino");
    let count = std::env::var("SORDINO_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(200);
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    run(Rounds::new(folder, model), count, seed);
}
