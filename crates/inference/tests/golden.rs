//! Files as they were written once: a model, and both halves of an inference that was prepared for it. Today's program
//! reads them and finishes that inference; what earlier formats held, whose ReLUs were others, it refuses by name.
//!
//! `cargo test -p sordino-inference --test golden -- --ignored` prepares the model's inference anew; that is right only
//! before a release.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use crypto::secret::Secret;
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference;
use sordino_inference::client::{Answer, Client, PreparedClient};
use sordino_inference::connection::{Connection, MemoryStream, Role, memory_pair};
use sordino_inference::plan::Reveal;
use sordino_inference::server::{ServedModel, Server, StoredServer, WeightMemory};
use sordino_inference::stored::StoredError;
use sordino_inference::verify::ProtocolCoins;

/// Where the low byte of the format's version stands: behind eight bytes that say whose half it is.
const VERSION_PLACE: usize = 8;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

fn image(model: &InferenceModel) -> Image {
    Image::random(model.outline().input, 8)
}

fn connect(model: &InferenceModel) -> (Client<MemoryStream>, Server<MemoryStream>, Arc<ServedModel>) {
    let served = Arc::new(ServedModel::new(model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (client_end, server_end) = memory_pair();
    let model = Arc::clone(&served);
    let server =
        thread::spawn(move || Server::accept(Connection::new(server_end, Role::Server), model, b"").unwrap());
    let client = Client::connect(Connection::new(client_end, Role::Client), Reveal::Logits, b"").unwrap();
    (client, server.join().unwrap(), served)
}

#[test]
fn an_inference_prepared_in_format_4_can_be_finished() {
    let model = InferenceModel::from_bytes(&read("model-v1")).unwrap();
    let (mut client, mut server, served) = connect(&model);
    let kept = StoredServer::from_bytes(Secret::new(read("kept-server-v4"))).revive(&served).unwrap();
    let server = thread::spawn(move || server.classify(kept).unwrap());
    let kept = Secret::new(read("kept-client-v4"));
    let prepared = PreparedClient::from_bytes(client.plan(), &kept).unwrap();
    let answer = client.classify(prepared, &image(&model)).unwrap();
    server.join().unwrap();
    let logits = String::from_utf8(read("logits-v4")).unwrap();
    let logits = logits.split_whitespace().map(|logit| logit.parse().unwrap()).collect();
    assert_eq!(answer, Answer::Logits(logits));
}

#[test]
fn what_earlier_versions_prepared_is_refused_by_name() {
    let model = InferenceModel::from_bytes(&read("model-v1")).unwrap();
    let served = ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap();
    for version in [1, 2, 3] {
        let [theirs, ours] = ["kept-server-v4", "kept-client-v4"].map(|name| {
            let mut bytes = read(name);
            bytes[VERSION_PLACE] = version;
            Secret::new(bytes)
        });
        let theirs = StoredServer::from_bytes(theirs).revive(&served).unwrap_err();
        let ours = PreparedClient::from_bytes(served.plan(), &ours).unwrap_err();
        for error in [theirs, ours] {
            let came = u32::from(version);
            assert!(
                matches!(error, StoredError::Version { expected: 4, came: other } if other == came),
                "{error}"
            );
        }
    }
}

#[test]
#[ignore = "writes the golden files"]
fn write_golden_files() {
    let model = InferenceModel::from_bytes(&read("model-v1")).unwrap();
    let (mut client, mut server, _) = connect(&model);
    let server = thread::spawn(move || {
        let prepared = server.prepare().unwrap();
        (prepared.mask_seed(), prepared.into_stored().into_bytes())
    });
    let mut prepared = client.prepare_recorded().unwrap();
    let record = prepared.take_record().unwrap();
    let (seed, theirs) = server.join().unwrap();
    let coins = ProtocolCoins::new(&model, client.plan(), record, &seed).unwrap();
    let logits = reference::run_with(&model, &image(&model), &coins).unwrap();
    std::fs::write(path("kept-server-v4"), theirs.expose()).unwrap();
    let kept = prepared.into_bytes(client.plan()).unwrap();
    std::fs::write(path("kept-client-v4"), kept.expose()).unwrap();
    let logits: Vec<_> = logits.iter().map(i64::to_string).collect();
    std::fs::write(path("logits-v4"), logits.join(" ") + "\n").unwrap();
}
