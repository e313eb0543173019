//! What crosses the wire in protocol version 5, byte for byte as it was written once. A later version that changes any of
//! it must raise its number, so that both sides name the difference; the hellos of other versions are refused by name here.
//!
//! `cargo test -p sordino-inference --test golden_wire -- --ignored` writes the file anew.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crypto::secret::Secret;
use network::digest::Digest;
use network::inference_model::InferenceModel;
use sordino_inference::InferenceError;
use sordino_inference::connection::frame::{FrameError, FrameKind, Header, MAGIC, PROTOCOL_VERSION};
use sordino_inference::connection::refusal::{Refusal, RefusalCode};
use sordino_inference::connection::{Connection, Role, memory_pair};
use sordino_inference::plan::{Depth, ReluRounding, Reveal, Terms};
use sordino_inference::requests::{Reply, Request, StoredId};
use sordino_inference::server::{ServedModel, Server, WeightMemory};
use sordino_inference::setup::messages::{Agreement, ClientHello, ModelName, ServerHello, Understood};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn header(session: [u8; 8], kind: FrameKind, length: u64) -> Header {
    let (inference, sender) = (*b"inferenc", Role::Server);
    Header { session, inference, step: 0x0102_0304, sender, kind, version: PROTOCOL_VERSION, length }
}

fn first_frame(version: u16, body: &[u8]) -> Vec<u8> {
    let kind = FrameKind::SetUp;
    let header = Header {
        inference: [0; 8],
        step: 0,
        sender: Role::Client,
        version,
        ..header(MAGIC, kind, body.len() as u64)
    };
    [&header.to_bytes()[..], body].concat()
}

/// Every message that is not made of ciphertexts, tables or labels.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let model = ModelName::new("chest").unwrap();
    let hello = ClientHello {
        nonce: [1; 32],
        wish: Some(Reveal::Class),
        relus: Some(ReluRounding::Nearest),
        depth: Some(Depth::Eight),
        model: model.clone(),
    };
    let any =
        ClientHello { wish: None, relus: None, depth: None, model: ModelName::default(), ..hello.clone() };
    let answer = ServerHello {
        nonce: [2; 32],
        terms: Terms::default(),
        depth: Depth::Four,
        commitment: Digest([3; 32]),
        model,
        outline: vec![4; 5],
    };
    let agreement =
        Agreement { outline: Digest([5; 32]), commitment: Digest([6; 32]), plan: Digest([7; 32]) };
    let ids = vec![StoredId([8; 16]), StoredId([9; 16])];
    let kept = Request::ClassifyStored { token: Secret::new([10; 32]), ids: ids.clone() };
    vec![
        ("header", header(*b"session.", FrameKind::Garbled, 0x0506_0708_090a).to_bytes().to_vec()),
        ("header before a session", header(MAGIC, FrameKind::Refusal, 7).to_bytes().to_vec()),
        ("client hello", hello.to_bytes()),
        ("client hello, no wish", any.to_bytes()),
        ("server hello", answer.to_bytes()),
        ("agreement", Understood { agreement, has_halves: false }.to_bytes()),
        ("agreement, halves are there", Understood { agreement, has_halves: true }.to_bytes()),
        ("refusal", Refusal::new(RefusalCode::Busy, "try again later").to_bytes()),
        ("prepare", Request::Prepare { count: 3, store: None }.to_bytes()),
        ("prepare and keep", Request::Prepare { count: 1, store: Some([11; 32]) }.to_bytes()),
        ("classify", Request::Classify { count: 2 }.to_bytes()),
        ("classify kept", kept.to_bytes()),
        ("probe", Request::Probe { down: 1000, up: 3 }.to_bytes()),
        ("bye", Request::Bye.to_bytes()),
        ("accepted", Reply::Accepted { ids }.to_bytes()),
        ("waiting", Reply::Waiting { ahead: 12 }.to_bytes()),
        ("kept", Reply::Stored { expires: 1 << 40 }.to_bytes()),
        ("probed", Reply::Probed { bytes: 4 }.to_bytes()),
    ]
}

fn text() -> String {
    messages().iter().fold(String::new(), |mut text, (name, bytes)| {
        let hex = network::digest::to_hex(bytes);
        writeln!(text, "{name}: {hex}").unwrap();
        text
    })
}

#[test]
fn messages_of_version_5_are_what_they_were() {
    assert_eq!(PROTOCOL_VERSION, 5, "a new version needs a golden file of its own");
    let golden = std::fs::read_to_string(path("wire-v5")).unwrap();
    assert_eq!(text(), golden);
}

/// What a server says to the first bytes of a client, and what the client then hears.
fn greet(first: &[u8]) -> (InferenceError, Vec<u8>) {
    let model = InferenceModel::from_bytes(&std::fs::read(path("model-v1")).unwrap()).unwrap();
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::AtMost(0)).unwrap());
    let (mut client, server_end) = memory_pair();
    client.write_all(first).unwrap();
    client.flush().unwrap();
    let server = thread::spawn(move || {
        Server::accept(Connection::new(server_end, Role::Server), served, b"").err().unwrap()
    });
    let error = server.join().unwrap();
    let mut heard = Vec::new();
    // The other end is gone; what it said before is still there.
    let _ = client.read_to_end(&mut heard);
    (error, heard)
}

#[test]
fn other_versions_are_refused_by_name() {
    // Version 1 had no frames: its first bytes were its number and a nonce.
    let first_version = [&1_u32.to_le_bytes()[..], &[0xa5; 32]].concat();
    let [earlier, later] = [4, 6].map(|version| first_frame(version, &[0; ClientHello::BYTES]));
    for (bytes, came) in [(first_version, 1), (earlier, 4), (later, 6)] {
        let (error, heard) = greet(&bytes);
        assert!(
            matches!(error, InferenceError::Frame(FrameError::Version { came: other, expected: 5, .. }) if other == came),
            "{error}"
        );
        let said = String::from_utf8_lossy(&heard);
        assert!(said.contains(&format!("version {came}")) && said.contains("version 5"), "{said}");
    }
    let (stranger, _) = greet(b"GET / HTTP/1.1\r\nHost: server.example\r\n\r\n");
    assert!(matches!(stranger, InferenceError::Frame(FrameError::Stranger { .. })), "{stranger}");
}

#[test]
#[ignore = "writes the golden file"]
fn write_golden_file() {
    std::fs::write(path("wire-v5"), text()).unwrap();
}
