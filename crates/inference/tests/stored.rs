//! Material that outlives its connection: kept as bytes on both sides, revived in new objects over another connection,
//! and the answer still equals the reference bit for bit. Bytes that are cut, of another version or of another model are
//! refused by name.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::Arc;
use std::thread;

use crypto::domain;
use crypto::garble::hash::HashKey;
use crypto::random::{Direction, InferenceId, Scope, Seed, SessionId};
use crypto::secret::Secret;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use sordino_inference::client::{Answer, Client, PreparedClient};
use sordino_inference::connection::{Connection, MemoryStream, Role, memory_pair};
use sordino_inference::plan::{Plan, Reveal};
use sordino_inference::server::{ServedModel, Server, StoredServer, WeightMemory};
use sordino_inference::stored::StoredError;
use sordino_inference::verify::ProtocolCoins;

use support::{Wire, served, sign_sharing_model, tiny_model};

type Bytes = Secret<Vec<u8>>;

fn connect(served: &Arc<ServedModel>) -> (Client<MemoryStream>, Server<MemoryStream>) {
    let (client_end, server_end) = memory_pair();
    let (served, reveal) = (Arc::clone(served), served.plan().reveal());
    let server = thread::spawn(move || {
        Server::accept(Connection::new(server_end, Role::Server), served, b"").unwrap()
    });
    let client = Client::connect(Connection::new(client_end, Role::Client), reveal, b"").unwrap();
    (client, server.join().unwrap())
}

/// One prepared inference as both parties keep it, and the coins of its rounding; the session is gone.
fn kept(model: &InferenceModel, served: &Arc<ServedModel>) -> (Bytes, Bytes, ProtocolCoins) {
    let (mut client, mut server) = connect(served);
    let server = thread::spawn(move || {
        let prepared = server.prepare().unwrap();
        (prepared.mask_seed(), prepared.into_stored().into_bytes())
    });
    let mut prepared = client.prepare_recorded().unwrap();
    let record = prepared.take_record().unwrap();
    let (seed, theirs) = server.join().unwrap();
    let coins = ProtocolCoins::new(model, client.plan(), record, &seed).unwrap();
    (prepared.into_bytes(client.plan()).unwrap(), theirs, coins)
}

/// Both parties revive their bytes and classify over a connection that did not make them.
fn revive(served: &Arc<ServedModel>, halves: Vec<(Bytes, Bytes)>, images: &[Image]) -> Vec<Answer> {
    let (mut client, mut server) = connect(served);
    let (ours, theirs): (Vec<_>, Vec<_>) = halves.into_iter().unzip();
    let model = Arc::clone(served);
    let server = thread::spawn(move || {
        let revive = |bytes| StoredServer::from_bytes(bytes).revive(&model).unwrap();
        server.classify_batch(theirs.into_iter().map(revive).collect()).unwrap();
    });
    let plan = Arc::clone(client.plan());
    let ours = ours.iter().map(|bytes| PreparedClient::from_bytes(&plan, bytes).unwrap());
    let answers = client.classify_batch(ours.zip(images).collect()).unwrap();
    server.join().unwrap();
    answers
}

#[test]
fn material_revived_over_another_connection_gives_the_reference_bit_for_bit() {
    for model in [tiny_model(), sign_sharing_model()] {
        let (client, server, coins) = kept(&model, &served(&model));
        // A model that is loaded anew, as after a restart.
        let served = served(&model);
        let plan = served.plan();
        assert_eq!(client.expose().len(), plan.stored_client_bytes());
        assert_eq!(server.expose().len(), plan.stored_server_bytes());
        let image = Image::random(model.outline().input, 5);
        let answers = revive(&served, vec![(client, server)], std::slice::from_ref(&image));
        assert_eq!(answers, [Answer::Logits(reference::run_with(&model, &image, &coins).unwrap())]);
    }
}

#[test]
fn what_is_stored_does_not_give_the_rest_of_the_inference_away() {
    let model = tiny_model();
    let served = served(&model);
    let (client_end, server_end) = memory_pair();
    let (wire, sent) = Wire::new(server_end, None);
    let own = Arc::clone(&served);
    let server = thread::spawn(move || {
        let mut server = Server::accept(Connection::new(wire, Role::Server), own, b"").unwrap();
        server.prepare().unwrap().into_stored().into_bytes()
    });
    let mut client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    client.prepare().unwrap();
    let stored = server.join().unwrap();
    // Behind magic, version and what it was made for: session, inference, seed.
    let (session, rest) = stored.expose()[44..].split_first_chunk::<32>().unwrap();
    let (inference, rest) = rest.split_first_chunk::<16>().unwrap();
    let seed = Seed::from_bytes(*rest.first_chunk().unwrap());
    let (session, inference) = (SessionId(*session), InferenceId(*inference));
    let scope = Scope { session, inference, step: 0, direction: Direction::ServerToClient };
    // The key of the gate hash crosses in the clear. Who finds it by the stored seed has the root of all labels, too.
    let key = HashKey::random(&mut seed.derive(domain::GARBLE_HASH_KEY, &scope).generator()).to_bytes();
    let sent = sent.lock().unwrap();
    assert!(!sent.windows(key.len()).any(|bytes| bytes == key), "the stored seed is the inference's root");
}

#[test]
fn a_batch_may_mix_material_of_several_sessions() {
    for model in [tiny_model(), sign_sharing_model()] {
        let served = served(&model);
        let images: Vec<_> = (0..3).map(|number| Image::random(model.outline().input, 30 + number)).collect();
        let (mut halves, mut expected) = (Vec::new(), Vec::new());
        for image in &images {
            let (client, server, coins) = kept(&model, &served);
            expected.push(Answer::Logits(reference::run_with(&model, image, &coins).unwrap()));
            halves.push((client, server));
        }
        assert_eq!(revive(&served, halves, &images), expected);
    }
}

#[test]
fn the_class_alone_can_be_kept_too() {
    for model in [tiny_model(), sign_sharing_model()] {
        let served = Arc::new(ServedModel::new(&model, Reveal::Class, WeightMemory::Everything).unwrap());
        let (client, server, coins) = kept(&model, &served);
        let image = Image::random(model.outline().input, 6);
        let answers = revive(&served, vec![(client, server)], std::slice::from_ref(&image));
        let logits = reference::run_with(&model, &image, &coins).unwrap();
        // The circuit compares unrounded logits; rounded ones may tie.
        assert!(logits[answers[0].class()] + 1 >= *logits.iter().max().unwrap());
    }
}

#[test]
fn kept_bytes_that_are_cut_damaged_or_foreign_are_refused_by_name() {
    let model = tiny_model();
    let served = served(&model);
    let classes = ServedModel::new(&model, Reveal::Class, WeightMemory::Everything).unwrap();
    let (client, server, _) = kept(&model, &served);
    let change = |bytes: &Bytes, at: usize, byte: u8| {
        let mut bytes = bytes.expose().clone();
        bytes[at] = byte;
        Secret::new(bytes)
    };
    let cut = |bytes: &Bytes, length: usize| Secret::new(bytes.expose()[..length].to_vec());
    let ours = |plan: &Plan, bytes: &Bytes| PreparedClient::from_bytes(plan, bytes).unwrap_err();
    let theirs =
        |model: &ServedModel, bytes: Bytes| StoredServer::from_bytes(bytes).revive(model).unwrap_err();
    let copy = |bytes: &Bytes| cut(bytes, bytes.expose().len());
    let plan = served.plan();

    for length in [0, 8, 91, 92, 200] {
        assert!(matches!(ours(plan, &cut(&client, length)), StoredError::Length { .. }));
        assert!(matches!(theirs(&served, cut(&server, length)), StoredError::Length { .. }));
    }
    assert!(matches!(ours(plan, &server), StoredError::Magic(Role::Client)));
    assert!(matches!(theirs(&served, copy(&client)), StoredError::Magic(Role::Server)));
    assert!(matches!(ours(plan, &change(&client, 8, 1)), StoredError::Version { expected: 4, came: 1 }));
    assert!(matches!(theirs(&served, change(&server, 8, 9)), StoredError::Version { expected: 4, came: 9 }));
    assert!(matches!(ours(classes.plan(), &client), StoredError::OtherModel));
    assert!(matches!(theirs(&classes, copy(&server)), StoredError::OtherModel));
    // The lowest bit of the offset tells two labels apart.
    let offset = 92 + 32;
    let even = server.expose()[offset] & 0xfe;
    assert!(matches!(theirs(&served, change(&server, offset, even)), StoredError::Circuits(_)));
    assert_eq!(format!("{:?}", StoredServer::from_bytes(server)), "StoredServer(Secret(..))");
}
