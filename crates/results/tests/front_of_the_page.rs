//! The page in the browser shows the fronts of the records that are committed: `crates/web/page/front.json` is made of them.
//! `cargo test -p sordino-results --test front_of_the_page -- --ignored` makes it anew.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::path::PathBuf;

use sordino_results::collect;
use sordino_results::pareto::{Summary, groups};

/// The folders that `sordino pareto` draws for the README.
const FOLDERS: [&str; 5] =
    ["results", "records/frontier", "records/signets", "records/sphynx", "records/seeds"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file() -> PathBuf {
    root().join("crates/web/page/front.json")
}

fn summary() -> String {
    let found = FOLDERS.iter().flat_map(|folder| collect(&root().join(folder)).unwrap()).collect();
    let summary = Summary::of(&groups(found).unwrap());
    serde_json::to_string(&summary).unwrap() + "\n"
}

#[test]
fn the_page_shows_the_records_that_are_here() {
    let committed = fs::read_to_string(file()).unwrap();
    assert!(
        committed == summary(),
        "crates/web/page/front.json is older than the records; make it anew as this file says"
    );
    let parsed: serde_json::Value = serde_json::from_str(&committed).unwrap();
    let group = &parsed["groups"][0];
    assert!(group["ours"].as_array().unwrap().len() >= 10 && group["papers"].as_array().unwrap().len() >= 20);
    let has_layers = |point: &&serde_json::Value| !point["layers"].as_array().unwrap().is_empty();
    assert!(group["ours"].as_array().unwrap().iter().filter(has_layers).count() >= 10);
}

#[test]
#[ignore = "writes the file"]
fn write_the_front() {
    fs::write(file(), summary()).unwrap();
}
