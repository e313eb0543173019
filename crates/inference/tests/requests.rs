//! Requests over a memory pair and over TLS: prepare, classify, probe, goodbye; and refusals at any time.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use network::image::Image;
use sordino_inference::InferenceError;
use sordino_inference::client::{Answer, Client};
use sordino_inference::connection::refusal::{Refusal, RefusalCode};
use sordino_inference::connection::{Connection, Identity, Role, accept_tls, connect_tls, memory_pair};
use sordino_inference::plan::Reveal;
use sordino_inference::requests::{Reply, Request, StoredId};
use sordino_inference::server::{PreparedServer, ServedModel, Server};
use sordino_inference::transcript::Phase;
use sordino_inference::verify::is_close;

use support::{served, tiny_model};

/// Serves whatever is asked until the client says goodbye; a request for more than four is refused.
fn serve<S: Read + Write>(stream: S, model: Arc<ServedModel>, binding: &[u8]) -> Result<(), InferenceError> {
    let mut server = Server::accept(Connection::new(stream, Role::Server), model, binding)?;
    let mut prepared: Vec<PreparedServer> = Vec::new();
    loop {
        match server.next_request()? {
            Request::Prepare { count: 5.., .. } => {
                server.refuse(&Refusal::new(RefusalCode::Limit, "four at most"));
                return Ok(());
            }
            Request::Prepare { count, store } => {
                server.reply(&Reply::Waiting { ahead: 2 })?;
                let ids = (0..count).filter(|_| store.is_some()).map(|id| StoredId([id as u8; 16])).collect();
                server.reply(&Reply::Accepted { ids })?;
                for _ in 0..count {
                    prepared.push(server.prepare()?);
                }
                if store.is_some() {
                    server.reply(&Reply::Stored { expires: 77 })?;
                }
            }
            Request::Classify { count } => {
                let batch = prepared.drain(..count as usize).collect();
                server.reply(&Reply::Accepted { ids: Vec::new() })?;
                server.classify_batch(batch)?;
            }
            Request::Probe { down, .. } => server.reply(&Reply::Probed { bytes: down })?,
            Request::Bye => return Ok(()),
            other => panic!("{other:?} is not served here"),
        }
    }
}

/// A whole session: measure, prepare three, keep one, classify a batch of two and then one.
fn ask<S: Read + Write>(stream: S, binding: &[u8]) {
    let model = tiny_model();
    let images: Vec<_> = (0..3).map(|number| Image::random(model.outline().input, number)).collect();
    let mut client = Client::connect(Connection::new(stream, Role::Client), Reveal::Logits, binding).unwrap();
    let speed = client.measure_link().unwrap();
    assert!(speed.down > 0.0 && speed.up > 0.0);
    let probed = client.connection().transcript().phase(Phase::Service);
    // Each direction was tried with at least the small probe and at most both.
    for bytes in [probed.bytes_up, probed.bytes_down] {
        assert!((64 << 10..(64 << 10) + (1 << 20) + 1000).contains(&bytes), "{bytes}");
    }
    let mut ahead = Vec::new();
    let ids = client.request(&Request::Prepare { count: 3, store: None }, |count| ahead.push(count)).unwrap();
    assert_eq!((ids.len(), ahead), (0, vec![2]));
    let mut prepared: Vec<_> =
        images.iter().map(|image| (client.prepare_recorded().unwrap(), image)).collect();
    let ids = client.request(&Request::Prepare { count: 1, store: Some([1; 32]) }, drop).unwrap();
    assert_eq!(ids, [StoredId([0; 16])]);
    client.prepare().unwrap();
    assert_eq!(client.await_stored().unwrap(), 77);
    let coins: Vec<_> = prepared.iter_mut().map(|(prepared, _)| prepared.take_record().unwrap()).collect();
    let last = prepared.pop().unwrap();
    client.request(&Request::Classify { count: 2 }, drop).unwrap();
    let mut answers = client.classify_batch(prepared).unwrap();
    client.request(&Request::Classify { count: 1 }, drop).unwrap();
    answers.push(client.classify(last.0, last.1).unwrap());
    for ((answer, image), coins) in answers.into_iter().zip(&images).zip(&coins) {
        let Answer::Logits(logits) = answer else { panic!("logits were asked for") };
        assert!(is_close(&model, image, coins, &logits).unwrap());
    }
    let planned = client.plan().traffic(client.depth());
    let offline = client.connection().transcript().phase(Phase::Offline);
    let expected = planned.offline.bytes_down + 3 * planned.later_offline.bytes_down;
    assert_eq!(offline.bytes_down, expected, "requests are counted apart");
    client.finish().unwrap();
}

#[test]
fn a_session_of_requests_over_a_memory_pair() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || serve(server_end, served(&tiny_model()), b"channel"));
    ask(client_end, b"channel");
    server.join().unwrap().unwrap();
}

#[test]
fn a_session_of_requests_over_tls() {
    let identity = Identity::generate().unwrap();
    let fingerprint = identity.fingerprint();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, binding) = accept_tls(listener.accept().unwrap().0, &identity).unwrap();
        serve(stream, served(&tiny_model()), &binding)
    });
    let (stream, binding) = connect_tls(TcpStream::connect(address).unwrap(), fingerprint).unwrap();
    ask(stream, &binding);
    server.join().unwrap().unwrap();
}

#[test]
fn a_refusal_in_place_of_a_reply_ends_the_session_with_its_sentence() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || serve(server_end, served(&tiny_model()), b""));
    let mut client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    let error = client.request(&Request::Prepare { count: 5, store: None }, drop).unwrap_err();
    assert_eq!(error.to_string(), "the server refused: four at most");
    assert!(matches!(client.prepare(), Err(InferenceError::Broken)));
    server.join().unwrap().unwrap();
}

#[test]
fn a_refusal_in_the_middle_of_the_offline_phase_is_heard() {
    let (client_end, server_end) = memory_pair();
    let server = thread::spawn(move || {
        let connection = Connection::new(server_end, Role::Server);
        let mut server = Server::accept(connection, served(&tiny_model()), b"").unwrap();
        server.refuse(&Refusal::new(RefusalCode::ShuttingDown, "come back later"));
        server.into_stream()
    });
    let mut client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    let error = client.prepare().unwrap_err();
    assert!(
        matches!(error, InferenceError::Refused { refusal, .. } if refusal.code == RefusalCode::ShuttingDown)
    );
    server.join().unwrap();
}
