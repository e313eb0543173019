//! Many clients at once, as `sordino serve` meets them.
//!
//! A dozen clients of a small network in CI; a hundred of the shipped model by
//! `sordino bench load models/hybrenet-26k-cifar100.sordino --clients 100 --running 8`.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use serde_json::Value;

use support::processes::{Folder, sordino, text};

#[test]
fn batches_stay_within_the_servers_memory() {
    let folder = Folder::new("batches");
    for batch in ["1", "16"] {
        let mut command = sordino();
        command.args(["bench", "load"]).arg(folder.path("tiny.sordino"));
        command.args(["--clients", "2", "--running", "2", "--batch", batch, "--rounds", "3", "--json"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{} {}", text(&output.stdout), text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let memory = |key: &str| report["server_memory"][key].as_u64().unwrap();
        assert!(memory("peak") <= memory("limit") && memory("promised") <= memory("limit"), "{report}");
    }
}

#[test]
fn a_dozen_clients_at_once_get_right_answers_within_the_servers_memory() {
    let folder = Folder::new("load");
    let mut command = sordino();
    command.args(["bench", "load"]).arg(folder.path("tiny.sordino"));
    let output = command.args(["--clients", "12", "--running", "2", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{} {}", text(&output.stdout), text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["clients"].as_u64(), report["close"].as_u64()), (Some(12), Some(12)));
    let memory = |key: &str| report["server_memory"][key].as_u64().unwrap();
    assert!(memory("peak") <= memory("limit") && memory("promised") <= memory("limit"), "{report}");
    for phase in ["connect", "waiting", "offline", "online", "total"] {
        let seconds = |key: &str| report[phase][key].as_f64().unwrap();
        assert!(seconds("median_s") <= seconds("ninetieth_s") && seconds("ninetieth_s") <= seconds("most_s"));
    }
}
