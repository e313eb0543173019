//! Everything that can happen to bytes on their way, at every TLS record and at every message, in both directions and in every
//! phase: nobody hangs or panics, both sides say what happened, nothing is used twice, the next inference is right.
//!
//! In CI a sample on a small network. All of it, and the shipped model, by
//! `cargo test -p sordino-service --test faults -- --ignored --nocapture`; `SORDINO_FAULT_CASES=200` takes so many of the shipped
//! model's.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod fault;
mod frames;
mod records;
#[path = "../support/mod.rs"]
mod support;
mod watch;
mod world;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use network::inference_model::InferenceModel;

use fault::{Fault, Way};
use support::tiny_model;
use world::{Case, Level, Outcome, Script, World};

/// Who waits for a timeout computes nothing, so more run at once than there are processors.
const AT_ONCE: usize = 16;

/// How many of each came out how.
#[derive(Debug, Default)]
struct Tally {
    harmless: usize,
    unnoticed: usize,
    refused: usize,
}

/// Every case of a level: each script, each direction, each place, each fault.
fn all_cases(world: &Arc<World>, level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    for script in [Script::Plain, Script::Prepare, Script::Stored] {
        let counts = world.measure(level, script);
        for (way, count) in [Way::ToServer, Way::ToClient].into_iter().zip(counts) {
            for index in 0..count {
                cases.extend(Fault::ALL.map(|fault| Case { level, script, way, index, fault }));
            }
        }
    }
    cases
}

/// So many of them, spread over all scripts, places and faults.
fn sample(cases: Vec<Case>, count: usize) -> Vec<Case> {
    // A step that shares no factor with the number of faults meets all of them.
    let step = (cases.len() / count).max(1) | 1;
    cases.into_iter().step_by(step).collect()
}

fn run_all(worlds: &[Arc<World>], cases: &[Case]) -> BTreeMap<(Level, Fault), Tally> {
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let tallies = Mutex::new(BTreeMap::<_, Tally>::new());
    let texts = Mutex::new(BTreeMap::<String, usize>::new());
    thread::scope(|scope| {
        for world in worlds {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let outcome = world.run(*case);
                    let mut tallies = tallies.lock().unwrap();
                    let tally = tallies.entry((case.level, case.fault)).or_default();
                    match outcome {
                        Outcome::Harmless => {
                            tally.harmless += 1;
                            if case.fault != Fault::Delay {
                                eprintln!("harmless: {case:?}");
                            }
                        }
                        Outcome::Unnoticed => tally.unnoticed += 1,
                        Outcome::Refused(text) => {
                            tally.refused += 1;
                            *texts.lock().unwrap().entry(watch::without_numbers(&text)).or_default() += 1;
                        }
                    }
                }
            });
        }
    });
    let tallies = tallies.into_inner().unwrap();
    eprintln!("{} cases in {:.0} s", cases.len(), start.elapsed().as_secs_f64());
    for ((level, fault), tally) in &tallies {
        let Tally { harmless, unnoticed, refused } = tally;
        eprintln!("{level:?} {fault:?}: {refused} refused, {harmless} harmless, {unnoticed} unnoticed");
    }
    for (text, count) in texts.into_inner().unwrap() {
        eprintln!("client, {count} times: {text}");
    }
    tallies
}

/// What holds for all that happened together.
fn conclude(tallies: &BTreeMap<(Level, Fault), Tally>) {
    for reason in watch::reasons() {
        eprintln!("server: {reason}");
        watch::expect_blame(&reason);
    }
    watch::expect_no_secret_in_log();
    assert_eq!(watch::panics(), Vec::<String>::new());
    for ((level, fault), tally) in tallies {
        match fault {
            // A client that has its answer does not mind what becomes of its goodbye.
            Fault::Cut | Fault::Truncate | Fault::CorruptHeader | Fault::Duplicate => {
                assert!(tally.refused > tally.harmless, "{level:?} {fault:?}: {tally:?}");
            }
            Fault::Delay => assert_eq!(tally.refused, 0, "{level:?}: a hiccup is nobody's end"),
            Fault::CorruptBody | Fault::Reorder | Fault::Stall => {}
        }
    }
}

fn worlds(model: impl Fn() -> InferenceModel, compares_logits: bool, patience: Duration) -> Vec<Arc<World>> {
    watch::begin();
    (0..AT_ONCE).map(|_| World::new(model(), compares_logits, patience)).collect()
}

fn full_model() -> InferenceModel {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/hybrenet-26k-cifar100.sordino");
    InferenceModel::load(&path).unwrap()
}

#[test]
fn a_sample_of_faults_leaves_nobody_hanging_and_nothing_half_spent() {
    let worlds = worlds(|| tiny_model(1), true, Duration::from_secs(3));
    let mut cases = sample(all_cases(&worlds[0], Level::Messages), 72);
    cases.extend(sample(all_cases(&worlds[0], Level::Records), 48));
    conclude(&run_all(&worlds, &cases));
}

#[test]
#[ignore = "takes minutes"]
fn every_fault_at_every_record_and_message_of_a_small_network() {
    let worlds = worlds(|| tiny_model(1), true, Duration::from_secs(2));
    let mut cases = all_cases(&worlds[0], Level::Messages);
    cases.extend(all_cases(&worlds[0], Level::Records));
    conclude(&run_all(&worlds, &cases));
}

#[test]
#[ignore = "takes minutes"]
fn every_fault_at_every_message_and_many_records_of_the_shipped_model() {
    let worlds = worlds(full_model, false, Duration::from_secs(6));
    let messages = all_cases(&worlds[0], Level::Messages);
    let records = all_cases(&worlds[0], Level::Records);
    eprintln!("of {} cases at messages and {} at records", messages.len(), records.len());
    let count = std::env::var("SORDINO_FAULT_CASES").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(messages.len() + 400);
    let mut cases = sample(messages, count);
    cases.extend(sample(records, count.min(400)));
    conclude(&run_all(&worlds, &cases));
}
