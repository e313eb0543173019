//! Peers that speak another version, lie about their outline, fall silent or send garbage: each ends in an error that
//! names it, or in a wrong answer where nothing can be noticed; never in a panic and never in a wait without end.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

use inference::InferenceError;
use inference::client::{Answer, Client};
use inference::connection::{Connection, MemoryStream, Role, memory_pair};
use inference::plan::{PlannedMessage, Reveal};
use inference::server::{ServedModel, Server, WeightMemory};
use inference::transcript::{Kind, Phase};
use network::image::Image;
use network::shape::Shape;

use support::{Fault, Session, run, served, tiny_model};

/// A client against a server that says these words after its hello and then hangs up.
fn connect_to(words: Vec<u8>) -> InferenceError {
    let (client_end, mut server_end) = memory_pair();
    let server = thread::spawn(move || {
        server_end.read_exact(&mut [0; 36]).unwrap();
        server_end.write_all(&words).unwrap();
        server_end.flush().unwrap();
    });
    let connection = Connection::new(client_end, Role::Client);
    let refusal = Client::connect(connection, Reveal::Logits, b"channel").err().unwrap();
    server.join().unwrap();
    refusal
}

fn hello(version: u32, reveal: u8, length: u64, outline: &[u8]) -> Vec<u8> {
    let parts: [&[u8]; 5] = [&version.to_le_bytes(), &[7; 32], &[reveal], &length.to_le_bytes(), outline];
    parts.concat()
}

#[test]
fn a_peer_of_another_version_is_named() {
    let error = connect_to(hello(2, 0, 0, &[]));
    assert!(matches!(error, InferenceError::Version { expected: 1, came: 2 }), "{error}");

    let (mut client_end, server_end) = memory_pair();
    client_end.write_all(&[&9_u32.to_le_bytes()[..], &[7; 32]].concat()).unwrap();
    client_end.flush().unwrap();
    let connection = Connection::new(server_end, Role::Server);
    let error = Server::accept(connection, served(&tiny_model()), b"channel").err().unwrap();
    assert!(matches!(error, InferenceError::Version { expected: 1, came: 9 }), "{error}");
    let mut version = [0; 4];
    client_end.read_exact(&mut version).unwrap();
    assert_eq!(u32::from_le_bytes(version), 1, "the client learns why");
}

#[test]
fn outlines_that_are_too_long_cut_or_garbled_are_refused() {
    let error = connect_to(hello(1, 0, u64::MAX, &[]));
    assert!(matches!(error, InferenceError::OutlineLength { came: u64::MAX, .. }), "{error}");
    let outline = tiny_model().outline().to_bytes();
    let length = outline.len() as u64;
    for kept in [0, 1, outline.len() / 2, outline.len() - 1] {
        let error = connect_to(hello(1, 0, length, &outline[..kept]));
        assert!(matches!(error, InferenceError::Connection(_)), "the stream ends after {kept}: {error}");
        let error = connect_to(hello(1, 0, kept as u64, &outline[..kept]));
        assert!(matches!(error, InferenceError::Outline(_)), "the outline ends after {kept}: {error}");
    }
    let error = connect_to(hello(1, 0, 1000, &[0xa5; 1000]));
    assert!(matches!(error, InferenceError::Outline(_)), "{error}");
    for place in (0..outline.len()).step_by(outline.len().div_ceil(150)) {
        let mut altered = outline.clone();
        altered[place] ^= 0xff;
        // Some changes (a letter of a name, say) still make an outline; then the server's silence is the error.
        connect_to(hello(1, 0, length, &altered));
    }
}

#[test]
fn a_server_that_gives_out_something_else_is_refused() {
    let served = Arc::new(ServedModel::new(&tiny_model(), Reveal::Class, WeightMemory::Everything).unwrap());
    let image = Image::random(served.plan().outline().input, 1);
    let session = run(&served, Reveal::Logits, &[image], None, None);
    assert!(matches!(session.client, Err(InferenceError::Reveal { expected: 0, came: 1 })));
    assert!(matches!(session.server, Err(InferenceError::Connection(_))));
}

#[test]
fn an_image_of_another_size_is_refused() {
    let served = served(&tiny_model());
    let other = Image::random(Shape { channels: 1, height: 2, width: 3 }, 1);
    let session = run(&served, Reveal::Logits, &[other], None, None);
    assert!(matches!(session.client, Err(InferenceError::Image(_))));
    assert!(matches!(session.server, Err(InferenceError::Connection(_))));
}

#[test]
fn material_of_another_model_is_refused_and_an_error_ends_a_session() {
    let served = served(&tiny_model());
    let image = Image::random(served.plan().outline().input, 1);
    let classes = ServedModel::new(&tiny_model(), Reveal::Class, WeightMemory::Everything).unwrap();
    let connect = |served: Arc<ServedModel>, reveal: Reveal| {
        let (client_end, server_end) = memory_pair();
        let server = thread::spawn(move || {
            let mut server = Server::accept(Connection::new(server_end, Role::Server), served, b"")?;
            let prepared = server.prepare()?;
            Ok::<_, InferenceError>((server, prepared))
        });
        let mut client = Client::connect(Connection::new(client_end, Role::Client), reveal, b"").unwrap();
        let prepared = client.prepare().unwrap();
        (client, prepared, server.join().unwrap().unwrap())
    };
    let (mut client, first, (mut server, server_first)) = connect(served, Reveal::Logits);
    let (_, second, (_, server_second)) = connect(Arc::new(classes), Reveal::Class);
    assert!(matches!(client.classify(second, &image), Err(InferenceError::OtherModel)));
    assert!(matches!(server.classify(server_second), Err(InferenceError::OtherModel)));
    let other = Image::random(Shape { channels: 1, height: 2, width: 3 }, 1);
    assert!(matches!(client.classify(first, &other), Err(InferenceError::Image(_))));
    assert!(matches!(client.prepare(), Err(InferenceError::Broken)));
    drop(client);
    assert!(matches!(server.classify(server_first), Err(InferenceError::Connection(_))));
    assert!(matches!(server.prepare(), Err(InferenceError::Broken)));
}

/// One message of each phase, kind and direction, with its place in the stream of its sender.
fn places(served: &ServedModel) -> Vec<(PlannedMessage, usize)> {
    let mut positions = [0, 0];
    let mut places: Vec<(PlannedMessage, usize)> = Vec::new();
    for message in served.plan().messages() {
        let position = &mut positions[usize::from(message.is_upward)];
        let sort = |message: &PlannedMessage| (message.phase, message.kind, message.is_upward);
        // Set-up messages are few and all different.
        let is_new = places.iter().all(|(known, _)| sort(known) != sort(&message));
        if is_new || message.phase == Phase::SetUp {
            places.push((message, *position));
        }
        *position += message.bytes;
    }
    places
}

fn run_with_fault(served: &Arc<ServedModel>, is_upward: bool, fault: Fault) -> Session {
    let image = Image::random(served.plan().outline().input, 1);
    let (client_fault, server_fault) = if is_upward { (None, Some(fault)) } else { (Some(fault), None) };
    run(served, Reveal::Logits, &[image], client_fault, server_fault)
}

#[test]
fn a_connection_that_breaks_in_any_phase_is_an_error_on_both_sides() {
    let served = served(&tiny_model());
    for (message, start) in places(&served) {
        let session = run_with_fault(&served, message.is_upward, Fault::Cut(start + message.bytes / 2));
        let is_broken = |error: &InferenceError| matches!(error, InferenceError::Connection(_));
        assert!(session.client.is_err_and(|error| is_broken(&error)), "client, {message:?}");
        // Who has sent the last message need not hear of its loss.
        let is_last = message.phase == Phase::Online && message.kind == Kind::Values && !message.is_upward;
        match session.server {
            Err(error) => assert!(is_broken(&error), "server, {message:?}: {error}"),
            Ok(()) => assert!(is_last, "server, {message:?}"),
        }
    }
}

#[test]
fn garbage_ends_in_an_error_or_a_wrong_answer() {
    let served = served(&tiny_model());
    for (message, start) in places(&served) {
        let middle = start + message.bytes / 2;
        let last = start + message.bytes - 1;
        let many = Fault::Ones(start, message.bytes);
        for fault in [Fault::Flip(middle), Fault::Flip(last), many] {
            let session = run_with_fault(&served, message.is_upward, fault);
            if let Ok(answers) = &session.client {
                assert!(matches!(answers[0].0, Answer::Logits(_)), "{message:?} {fault:?}");
            }
            let is_refused = session.client.is_err() || session.server.is_err();
            let must_be_refused =
                matches!(message.kind, Kind::Homomorphic) && matches!(fault, Fault::Ones(..));
            assert!(is_refused || !must_be_refused, "{message:?} {fault:?}");
        }
    }
}

#[test]
fn a_peer_that_sends_nothing_but_noise_is_refused() {
    let noise = |mut end: MemoryStream| {
        end.write_all(&[0x3c; 1 << 16]).unwrap();
        end.flush().unwrap();
        end
    };
    let (client_end, server_end) = memory_pair();
    let _kept = noise(client_end);
    let served = served(&tiny_model());
    assert!(Server::accept(Connection::new(server_end, Role::Server), served, b"").is_err());
    let (client_end, server_end) = memory_pair();
    let _kept = noise(server_end);
    assert!(Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").is_err());
}
