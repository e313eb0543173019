//! The account of memory against the process: a server of its own, seen from outside.
//!
//! The server is this test's program once more, started with a variable set. All models, the 26K-ReLU one included, by
//! `sordino bench load MODEL --batch 64 --rounds 8`.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![allow(clippy::print_stdout, reason = "the long form prints what it measured")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

use client::{ConnectOptions, PrivateClient};
use inference::connection::Trust;
use inference::plan::{Plan, Reveal};
use network::image::Image;
use network::inference_model::InferenceModel;
use sordino_service::{ClientLimits, Limits, Service};

use support::{Running, frozen};

/// What makes this program a server: a network of the zoo, its resolution, and the largest batch.
const SERVER: &str = "SORDINO_TEST_MEMORY_SERVER";
/// Clients that come at once, and places for them.
const CLIENTS: usize = 2;

fn limits(model: &InferenceModel, batch: u64) -> Limits {
    let places = NonZeroUsize::new(CLIENTS).unwrap();
    let per_client = ClientLimits::NONE;
    let limits = Limits { clients: CLIENTS, running: places, per_client, ..support::limits() };
    let plan = Plan::new(Arc::new(model.outline().clone()), Reveal::Logits).unwrap();
    let each = plan.server_prepared_memory() + plan.server_online_memory();
    let memory = Service::memory_for(std::iter::once(&plan), &limits) + each * batch * CLIENTS as u64;
    Limits { memory, ..limits }
}

/// Serves until standard input ends, where this program is told to.
#[test]
fn server_of_the_other_tests() {
    let Ok(told) = std::env::var(SERVER) else { return };
    let words: Vec<_> = told.split(' ').collect();
    let model = frozen(words[0], words[1].parse().unwrap(), 1);
    let server = Running::start(&[("model", &model)], limits(&model, words[2].parse().unwrap()));
    println!("\nSERVES {} {}", server.address, server.fingerprint);
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets clients ask about so many batches each; says how much the server held at most, and how much it may.
fn peak_and_limit(network: &str, resolution: usize, batch: usize, rounds: usize) -> (u64, u64) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "server_of_the_other_tests", "--nocapture"]);
    command.env(SERVER, format!("{network} {resolution} {batch}"));
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut process = Process(spawned.unwrap());
    let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
    let greeting =
        lines.map_while(Result::ok).find_map(|line| Some(line.strip_prefix("SERVES ")?.to_owned()));
    let greeting = greeting.expect("the server says where it is");
    let (address, fingerprint) = greeting.split_once(' ').unwrap();
    let model = frozen(network, resolution, 1);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let trust = Trust::Fingerprint(fingerprint.parse().unwrap());
                let mut client = PrivateClient::connect(address, ConnectOptions::new(trust)).unwrap();
                let images: Vec<_> =
                    (0..batch as u64).map(|number| Image::random(model.outline().input, number)).collect();
                for _ in 0..rounds {
                    assert_eq!(client.classify_batch(&images).unwrap().len(), batch);
                }
                client.finish().unwrap();
            });
        }
    });
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.0.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024;
    (peak, limits(&model, batch as u64).memory)
}

#[test]
fn a_server_holds_no_more_than_it_may_for_one_image_and_for_batches() {
    for batch in [1, 16] {
        let (peak, limit) = peak_and_limit("resnet20:m=2,depths=1+1+1", 8, batch, 2);
        assert!(peak <= limit, "batches of {batch}: {peak} bytes, {limit} allowed");
    }
}

/// `cargo test --release -p sordino-service --test memory -- --ignored --nocapture`
#[test]
#[ignore = "some minutes: batches of 1, 16 and 64, and a thousand inferences"]
fn a_server_holds_no_more_than_it_may_in_the_long_run() {
    let cases = [
        ("resnet20:m=8,depths=1+1+1", 16, 1, 4),
        ("resnet20:m=8,depths=1+1+1", 16, 16, 1),
        ("resnet20:m=8,depths=1+1+1", 16, 64, 1),
        ("resnet20:m=2,depths=1+1+1", 8, 10, 50),
    ];
    for (network, resolution, batch, rounds) in cases {
        let (peak, limit) = peak_and_limit(network, resolution, batch, rounds);
        println!(
            "{network} at {resolution}: {} images in batches of {batch}: {peak} bytes at most, {limit} allowed",
            CLIENTS * batch * rounds
        );
        assert!(peak <= limit);
    }
}
