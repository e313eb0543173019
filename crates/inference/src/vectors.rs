//! The published test vectors in `tests/vectors`: every message of the protocol, from known seeds.
//!
//! The files are for whoever writes a second implementation; one in Python, beside them, checks them byte for byte. Here
//! they are compared with what the code makes today.
//!
//! `cargo test -p sordino-inference --lib vectors -- --ignored` writes them anew. That is right only where the protocol's
//! version is raised too.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod models;
mod session;
mod words;

use std::path::{Path, PathBuf};

use network::digest::to_hex;
use session::Case;

use crate::plan::{Depth, ReluRounding, Reveal, Terms};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors").join(name)
}

/// All files and what belongs in them. Together the sessions have every kind of message, both roundings, both depths, both
/// sorts of answer, a second inference, and a client that has second halves from before.
fn files() -> Vec<(&'static str, String)> {
    let logits = Terms { reveal: Reveal::Logits, relus: ReluRounding::Stochastic };
    let class = Terms { reveal: Reveal::Class, relus: ReluRounding::Nearest };
    let (two_flights, two_chunks) = (models::two_flights(), models::two_chunks());
    let session = |model, terms, depth, inferences, first_seed| {
        let has_halves = terms == class;
        session::text(&Case { model, terms, depth, inferences, has_halves, first_seed })
    };
    vec![
        ("words.json", words::text()),
        ("session-logits.json", session(models::every_operation(), logits, Depth::Eight, 2, 0x10)),
        ("session-class.json", session(two_flights, class, Depth::Four, 1, 0x60)),
        ("session-chunks.json", session(two_chunks, logits, Depth::Four, 1, 0x40)),
        ("session-signs.json", session(models::shared_signs(), logits, Depth::Four, 1, 0x20)),
    ]
}

fn reveal_word(reveal: Reveal) -> &'static str {
    match reveal {
        Reveal::Logits => "logits",
        Reveal::Class => "class",
    }
}

fn relus_word(relus: ReluRounding) -> &'static str {
    match relus {
        ReluRounding::Stochastic => "by shares",
        ReluRounding::Nearest => "nearest",
    }
}

#[test]
fn the_published_vectors_are_what_the_code_makes() {
    for (name, made) in files() {
        let published = std::fs::read_to_string(path(name)).unwrap();
        let differs = published.lines().zip(made.lines()).position(|(published, made)| published != made);
        assert!(published == made, "{name} differs, first in line {:?} (from 0)", differs);
    }
}

#[test]
#[ignore = "writes the published vectors"]
fn write_the_published_vectors() {
    for (name, made) in files() {
        std::fs::write(path(name), made).unwrap();
    }
}

/// A JSON object, one field a line.
struct Object {
    text: String,
}

impl Object {
    fn new() -> Self {
        Self { text: String::from("{") }
    }

    /// A field whose value is JSON already.
    fn raw(mut self, name: &str, value: &str) -> Self {
        let comma = if self.text.len() == 1 { "" } else { "," };
        self.text += &format!("{comma}\n\"{name}\": {value}");
        self
    }

    fn text(self, name: &str, value: &str) -> Self {
        assert!(!value.contains(['"', '\\']) && !value.contains(char::is_control), "plain text only");
        let value = format!("\"{value}\"");
        self.raw(name, &value)
    }

    fn hex(self, name: &str, value: &[u8]) -> Self {
        let value = to_hex(value);
        self.text(name, &value)
    }

    fn numbers<T: ToString>(self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        self.raw(name, &numbers(values))
    }

    fn finish(self) -> String {
        self.text + "\n}"
    }
}

fn numbers<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let values: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
    format!("[{}]", values.join(", "))
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<_> = items.into_iter().collect();
    format!("[\n{}\n]", items.join(",\n"))
}
