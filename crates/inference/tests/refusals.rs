//! Peers that speak another version, lie about their outline, fall silent or send garbage: each ends in an error that
//! names it, or in a wrong answer where nothing can be noticed; never in a panic and never in a wait without end.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

use crypto::he::PublicKey;
use network::digest::Digest;
use network::image::Image;
use network::inference_model::{ModelOperation, ModelOutline, ModelStep};
use network::shape::Shape;
use network::spec::Pool;
use network::walk::ValueId;
use sordino_inference::InferenceError;
use sordino_inference::client::{Answer, Client, Wishes};
use sordino_inference::connection::frame::{
    Field, FrameError, FrameKind, HEADER_BYTES, Header, PROTOCOL_VERSION,
};
use sordino_inference::connection::refusal::{Refusal, RefusalCode};
use sordino_inference::connection::{Connection, MemoryStream, Role, memory_pair};
use sordino_inference::plan::{Depth, PlannedMessage, Reveal, Terms};
use sordino_inference::server::{ServedModel, Server, WeightMemory};
use sordino_inference::setup::messages::{ClientHello, ModelName, ServerHello, Understood};
use sordino_inference::transcript::{Kind, Phase};

use support::{Fault, Framed, Session, run, served, tiny_model};

/// A client against a server that says these words after its hello and then hangs up.
fn connect_with(
    wishes: Wishes,
    words: impl FnOnce(&mut Framed<MemoryStream>) + Send + 'static,
) -> InferenceError {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let mut server = Framed::new(server_end, Role::Server);
        server.receive(ClientHello::BYTES);
        words(&mut server);
        server.flush();
    });
    let connection = Connection::new(client_end, Role::Client);
    let refusal = Client::connect_with(connection, &wishes, b"channel").err().unwrap();
    server.join().unwrap();
    refusal
}

fn hello(reveal: Reveal, outline: &[u8]) -> Vec<u8> {
    let (model, outline) = (ModelName::default(), outline.to_vec());
    let (terms, depth) = (Terms::from(reveal), Depth::Four);
    ServerHello { nonce: [7; 32], terms, depth, commitment: Digest([8; 32]), model, outline }.to_bytes()
}

fn connect_to(body: Vec<u8>) -> InferenceError {
    connect_with(Wishes::default(), move |server| server.send(FrameKind::SetUp, &body))
}

#[test]
fn a_peer_of_another_version_is_named_on_both_sides() {
    let error = connect_with(Wishes::default(), |server| {
        let header = server.header(FrameKind::SetUp, 1000);
        server.wire.write_all(&Header { version: 9, ..header }.to_bytes()).unwrap();
    });
    let is_named = |error: &InferenceError, sender| {
        let expected = FrameError::Version { sender, expected: PROTOCOL_VERSION, came: 9 };
        matches!(error, InferenceError::Frame(came) if *came == expected)
    };
    assert!(is_named(&error, Role::Server), "{error}");

    let (client_end, server_end) = memory_pair();
    let mut client = Framed::new(client_end, Role::Client);
    let header = client.header(FrameKind::SetUp, 10);
    client.wire.write_all(&Header { version: 9, ..header }.to_bytes()).unwrap();
    client.flush();
    let connection = Connection::new(server_end, Role::Server);
    let error = Server::accept(connection, served(&tiny_model()), b"channel").err().unwrap();
    assert!(is_named(&error, Role::Client), "{error}");
    let mut answer = [0; HEADER_BYTES];
    client.wire.read_exact(&mut answer).unwrap();
    assert_eq!(answer[21], FrameKind::Refusal as u8);
    assert_eq!(answer[22..24], PROTOCOL_VERSION.to_le_bytes(), "the client learns why");
}

#[test]
fn outlines_that_are_too_long_cut_or_garbled_are_refused() {
    let error = connect_with(Wishes::default(), |server| {
        let header = server.header(FrameKind::SetUp, u64::MAX);
        server.wire.write_all(&header.to_bytes()).unwrap();
    });
    assert!(matches!(error, InferenceError::Frame(FrameError::TooLong { came: u64::MAX, .. })), "{error}");
    let outline = tiny_model().outline().to_bytes();
    for kept in [0, 1, outline.len() / 2, outline.len() - 1] {
        let body = hello(Reveal::Logits, &outline);
        let error = connect_with(Wishes::default(), move |server| {
            let header = server.header(FrameKind::SetUp, body.len() as u64);
            server.wire.write_all(&header.to_bytes()).unwrap();
            server.wire.write_all(&body[..ServerHello::BYTES + kept]).unwrap();
        });
        assert!(matches!(error, InferenceError::Connection(_)), "the stream ends after {kept}: {error}");
        let error = connect_to(hello(Reveal::Logits, &outline[..kept]));
        assert!(matches!(error, InferenceError::Outline(_)), "the outline ends after {kept}: {error}");
    }
    let error = connect_to(hello(Reveal::Logits, &[0xa5; 1000]));
    assert!(matches!(error, InferenceError::Outline(_)), "{error}");
    for place in (0..outline.len()).step_by(outline.len().div_ceil(150)) {
        let mut altered = outline.clone();
        altered[place] ^= 0xff;
        // Some changes (a letter of a name, say) still make an outline; then the server's silence is the error.
        connect_to(hello(Reveal::Logits, &altered));
    }
}

#[test]
fn a_server_that_gives_out_something_else_is_refused() {
    let served = Arc::new(ServedModel::new(&tiny_model(), Reveal::Class, WeightMemory::Everything).unwrap());
    let image = Image::random(served.plan().outline().input, 1);
    let session = run(&served, Reveal::Logits, &[image], None, None);
    let refusal = session.client.err().unwrap();
    assert!(
        matches!(&refusal, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::Reveal)
    );
    let expected = (Reveal::Logits, Reveal::Class);
    assert!(
        matches!(session.server, Err(InferenceError::Reveal { expected: e, came }) if (e, came) == expected)
    );

    // A server that does not say so itself is noticed by the client.
    let wishes = Wishes { reveal: Some(Reveal::Logits), ..Wishes::default() };
    let body = hello(Reveal::Class, &tiny_model().outline().to_bytes());
    let error = connect_with(wishes, move |server| server.send(FrameKind::SetUp, &body));
    assert!(matches!(error, InferenceError::Reveal { expected: e, came } if (e, came) == expected));
}

#[test]
fn another_model_than_the_expected_one_is_refused_and_named() {
    let outline = tiny_model().outline().to_bytes();
    for (wishes, what) in [
        (Wishes { outline_digest: Some(Digest([1; 32])), ..Wishes::default() }, "outline digest"),
        (Wishes { commitment: Some(Digest([1; 32])), ..Wishes::default() }, "commitment"),
    ] {
        let body = hello(Reveal::Logits, &outline);
        let error = connect_with(wishes, move |server| server.send(FrameKind::SetUp, &body));
        assert!(matches!(error, InferenceError::OtherModel { .. }), "{error}");
        assert!(error.to_string().contains(what) && error.to_string().contains("0101"), "{error}");
    }
}

#[test]
fn a_model_that_asks_for_more_memory_than_allowed_is_refused_before_it_gets_any() {
    let body = hello(Reveal::Logits, &tiny_model().outline().to_bytes());
    let wishes = Wishes { max_memory: 100_000, ..Wishes::default() };
    let error = connect_with(wishes, move |server| server.send(FrameKind::SetUp, &body));
    assert!(matches!(error, InferenceError::TooLarge { limit: 100_000, .. }), "{error}");
}

/// An outline of a few hundred bytes: one maximum, then a sum over the map.
fn outline_with_maximum(input: Shape, pool: Pool, width: u32) -> ModelOutline {
    let mut outline = tiny_model().outline().clone();
    let side = (input.height - pool.window) / pool.stride + 1;
    let shape = Shape::new(input.channels, side, side);
    let step = |operation, inputs, shape| ModelStep {
        operation,
        inputs: vec![inputs],
        shape,
        fraction: outline.image.fraction,
        ring_bits: 60,
        ..outline.steps[0].clone()
    };
    let steps = vec![
        step(ModelOperation::Maximum { pool, width }, ValueId(0), shape),
        step(ModelOperation::GlobalSum, ValueId(1), Shape::vector(input.channels)),
    ];
    (outline.steps, outline.input, outline.classes) = (steps, input, input.channels);
    (outline.image_ring_bits, outline.class_names) = (60, Vec::new());
    outline
}

#[test]
fn small_outlines_whose_plans_are_huge_are_refused_before_they_are_planned() {
    let image = |side| Shape::new(tiny_model().outline().input.channels, side, side);
    let pool = |window, stride| Pool { window, stride, padding: 0, count_padding: false };
    let harmless = outline_with_maximum(image(16), pool(2, 2), 20);
    assert_eq!(harmless.check(), Ok(()));
    let error = connect_to(hello(Reveal::Logits, &harmless.to_bytes()));
    assert!(!matches!(error, InferenceError::TooLarge { .. }), "{error}");
    for outline in [
        outline_with_maximum(image(512), pool(256, 1), 20),
        outline_with_maximum(image(512), pool(512, 1), 60),
    ] {
        assert_eq!(outline.check(), Ok(()));
        let bytes = outline.to_bytes();
        assert!(bytes.len() < 1000, "{}", bytes.len());
        let error = connect_to(hello(Reveal::Logits, &bytes));
        assert!(matches!(error, InferenceError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_client_that_derives_something_else_is_refused_and_told_what() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let connection = Connection::new(server_end, Role::Server);
        Server::accept(connection, served(&tiny_model()), b"").err().unwrap()
    });
    let mut client = Framed::new(client_end, Role::Client);
    let hello =
        ClientHello { nonce: [3; 32], wish: None, relus: None, depth: None, model: ModelName::default() };
    client.send(FrameKind::SetUp, &hello.to_bytes());
    client.flush();
    let outline = tiny_model().outline().to_bytes();
    client.receive(ServerHello::BYTES + outline.len());
    client.send(FrameKind::SetUp, &[0; Understood::BYTES]);
    client.flush();
    let mut header = [0; HEADER_BYTES];
    client.wire.read_exact(&mut header).unwrap();
    assert_eq!(header[21], FrameKind::Refusal as u8);
    let mut text = vec![0; header[24] as usize + 256 * header[25] as usize];
    client.wire.read_exact(&mut text).unwrap();
    let refusal = Refusal::from_bytes(&text);
    assert_eq!(refusal.code, RefusalCode::Difference);
    assert!(refusal.text().contains("outline's digest"), "{refusal}");
    assert!(matches!(server.join().unwrap(), InferenceError::Difference { .. }));
}

#[test]
fn an_unknown_model_is_refused_with_a_sentence() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let connection = Connection::new(server_end, Role::Server);
        Server::accept(connection, served(&tiny_model()), b"").err().unwrap()
    });
    let wishes = Wishes { model: ModelName::new("other").unwrap(), ..Wishes::default() };
    let connection = Connection::new(client_end, Role::Client);
    let error = Client::connect_with(connection, &wishes, b"").err().unwrap();
    assert!(
        matches!(&error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::UnknownModel)
    );
    assert!(matches!(server.join().unwrap(), InferenceError::Declined { .. }));
}

#[test]
fn sessions_of_different_channels_share_no_frame() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let connection = Connection::new(server_end, Role::Server);
        Server::accept(connection, served(&tiny_model()), b"one channel").err().unwrap()
    });
    let connection = Connection::new(client_end, Role::Client);
    let error = Client::connect(connection, Reveal::Logits, b"another channel").err().unwrap();
    assert!(matches!(error, InferenceError::Refused { .. } | InferenceError::Frame(_)), "{error}");
    let error = server.join().unwrap();
    assert!(
        matches!(error, InferenceError::Frame(FrameError::Differs { field: Field::Session, .. })),
        "{error}"
    );
}

#[test]
fn an_image_of_another_size_is_refused() {
    let served = served(&tiny_model());
    let other = Image::random(Shape { channels: 1, height: 2, width: 3 }, 1);
    let session = run(&served, Reveal::Logits, &[other], None, None);
    assert!(matches!(session.client, Err(InferenceError::Image(_))));
    assert!(matches!(session.server, Err(InferenceError::Refused { .. })));
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
    assert!(matches!(client.classify(second, &image), Err(InferenceError::ForeignMaterial)));
    assert!(matches!(server.classify(server_second), Err(InferenceError::ForeignMaterial)));
    let other = Image::random(Shape { channels: 1, height: 2, width: 3 }, 1);
    assert!(matches!(client.classify(first, &other), Err(InferenceError::Image(_))));
    assert!(matches!(client.prepare(), Err(InferenceError::Broken)));
    drop(client);
    assert!(matches!(server.classify(server_first), Err(InferenceError::Refused { .. })));
    assert!(matches!(server.prepare(), Err(InferenceError::Broken)));
}

/// One message of each phase, kind and direction, with its place in the stream of its sender.
fn places(served: &ServedModel) -> Vec<(PlannedMessage, usize)> {
    let mut positions = [0, 0];
    let mut places: Vec<(PlannedMessage, usize)> = Vec::new();
    for message in served.plan().messages(Depth::Four) {
        let position = &mut positions[usize::from(message.is_upward)];
        let sort = |message: &PlannedMessage| (message.phase, message.kind, message.is_upward);
        // Set-up messages are few and all different.
        let is_new = places.iter().all(|(known, _)| sort(known) != sort(&message));
        if is_new || message.phase == Phase::SetUp {
            places.push((message, *position + HEADER_BYTES));
        }
        *position += message.framed_bytes();
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
    let lengths_of_keys: Vec<_> = served.plan().parameters().iter().map(PublicKey::length).collect();
    let mut refused = 0;
    for (message, start) in places(&served) {
        let middle = start + message.bytes / 2;
        let last = start + message.bytes - 1;
        let many = Fault::Ones(start, message.bytes);
        for fault in [Fault::Flip(middle), Fault::Flip(last), many] {
            let session = run_with_fault(&served, message.is_upward, fault);
            if let Ok(answers) = &session.client {
                assert!(matches!(answers[0].0, Answer::Logits(_)), "{message:?} {fault:?}");
            }
            // A coefficient without its low bits may be all ones; only what travels whole can be seen to be none.
            let is_refused = session.client.is_err() || session.server.is_err();
            let has_residues = message.kind == Kind::Homomorphic && lengths_of_keys.contains(&message.bytes);
            assert!(
                is_refused || !has_residues || !matches!(fault, Fault::Ones(..)),
                "{message:?} {fault:?}"
            );
            refused += u32::from(is_refused);
        }
    }
    assert!(refused > 5, "{refused}");
}

#[test]
fn a_changed_header_is_an_error_that_names_the_field_and_the_sender() {
    let served = served(&tiny_model());
    for (message, start) in places(&served).into_iter().step_by(3) {
        // Session, inference, number, direction, kind, version, length.
        for place in [0, 8, 16, 20, 21, 22, 24] {
            let fault = Fault::Flip(start - HEADER_BYTES + place);
            let session = run_with_fault(&served, message.is_upward, fault);
            let error = if message.is_upward { session.server.err() } else { session.client.err() };
            assert!(matches!(error, Some(InferenceError::Frame(_))), "{message:?} {place} {error:?}");
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
