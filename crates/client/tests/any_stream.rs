//! The client over a stream in memory: neither sockets nor files, as without default features.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;
use std::thread;

use inference::InferenceError;
use inference::client::{Answer, Wishes};
use inference::connection::{Connection, MemoryStream, Role, memory_pair};
use inference::plan::Reveal;
use inference::requests::{Reply, Request};
use inference::server::{ServedModel, Server, WeightMemory};
use inference::setup::messages::ModelName;
use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::reference::bound::{self, ReluRounding};
use network::weights::FloatWeights;
use network::zoo;
use sordino_client::{ClientError, Patience, PrivateClient};

const BINDING: &[u8] = b"the same process";

fn tiny_model() -> InferenceModel {
    let spec = zoo::build("resnet20:m=2,depths=1+1+1", 8, 10).unwrap();
    let images = [Image::random(spec.draft().input, 1)];
    let weights = FloatWeights::random(&spec, 1);
    freeze(&spec, &weights, None, &images, &FreezeOptions::default()).unwrap().0
}

/// Grants every request until the client says goodbye.
fn serve(end: MemoryStream, model: &Arc<ServedModel>) -> Result<(), InferenceError> {
    let name = ModelName::new("tiny").unwrap();
    let choose = |_: &_| Ok((name.clone(), Arc::clone(model)));
    let mut server = Server::accept_with(Connection::new(end, Role::Server), choose, BINDING)?;
    let mut prepared = Vec::new();
    loop {
        let request = server.next_request()?;
        if matches!(request, Request::Bye) {
            return Ok(());
        }
        server.reply(&Reply::Accepted { ids: Vec::new() })?;
        match request {
            Request::Prepare { count, .. } => {
                for _ in 0..count {
                    prepared.push(server.prepare()?);
                }
            }
            Request::Classify { .. } => server.classify_batch(std::mem::take(&mut prepared))?,
            other => panic!("{other:?} was not asked for"),
        }
    }
}

#[test]
fn an_image_is_classified_over_any_stream() {
    let model = tiny_model();
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (near, far) = memory_pair();
    let server = thread::spawn(move || serve(far, &served));
    let mut client = PrivateClient::over(near, BINDING, &Wishes::default(), Patience::endless()).unwrap();
    assert_eq!(client.model(), "tiny");
    client.prepare(1).unwrap();
    let image = Image::random(client.outline().input, 7);
    let Answer::Logits(logits) = client.classify(&image).unwrap() else { panic!("logits are served") };
    assert!(bound::allows(&model, &image, &logits, ReluRounding::Stochastic).unwrap(), "{logits:?}");
    client.finish().unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn none_is_done_at_once_and_too_many_are_refused_before_anything_is_sent() {
    let model = tiny_model();
    let served = Arc::new(ServedModel::new(&model, Reveal::Logits, WeightMemory::Everything).unwrap());
    let (near, far) = memory_pair();
    let serving = thread::spawn(move || serve(far, &served));
    let mut client = PrivateClient::over(near, BINDING, &Wishes::default(), Patience::endless()).unwrap();
    client.prepare(0).unwrap();
    for too_many in [4097, u32::MAX] {
        let error = client.prepare(too_many).unwrap_err();
        assert!(matches!(error, ClientError::TooMany { came } if came == too_many as usize));
        assert!(error.to_string().contains("at most 4096"), "{error}");
    }
    let image = Image::random(model.outline().input, 1);
    let error = client.classify_batch(&vec![image.clone(); 4097]).unwrap_err();
    assert!(matches!(error, ClientError::TooMany { came: 4097 }));
    assert!(!client.is_broken());
    client.classify(&image).unwrap();
    client.finish().unwrap();
    serving.join().unwrap().unwrap();
}

/// A program that has this crate alone must find everything there.
#[test]
fn examples_name_no_other_crate_of_ours() {
    let (example, docs) = (include_str!("../examples/classify.rs"), include_str!("../src/lib.rs"));
    let shown = example.lines().chain(docs.lines().filter_map(|line| line.strip_prefix("//! ")));
    let used: Vec<_> = shown.filter_map(|line| line.strip_prefix("use ")).collect();
    assert!(
        used.len() > 2
            && used.iter().all(|path| ["std::", "sordino_client::"].iter().any(|own| path.starts_with(own))),
        "{used:?}"
    );
}
