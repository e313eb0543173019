//! One image's way from set-up to answer with no connection at all: every step is a message in, a message out and a next
//! state, on one thread.

use std::sync::Arc;

use network::freeze::{FreezeOptions, freeze};
use network::image::Image;
use network::inference_model::InferenceModel;
use network::mask::{ActivationMask, Bits, SiteMask};
use network::reference;
use network::weights::FloatWeights;
use network::zoo;

use super::*;
use crate::client::{Answer, Wishes};
use crate::offline::{self, client::PreparingClient, server::PreparingServer};
use crate::online::{self, client::ClassifyingClient, server::ClassifyingServer};
use crate::plan::{ReluRounding, Reveal, Terms};
use crate::server::{ServedModel, WeightMemory};
use crate::setup::client::{ClientSession, Greeting};
use crate::setup::messages::ModelName;
use crate::setup::server::{Greeted, ServerSession};
use crate::verify::ProtocolCoins;
use crate::workers::Workers;

impl Outgoing for Vec<u8> {
    fn piece(&mut self, bytes: &[u8]) -> Result<(), InferenceError> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), InferenceError> {
        Ok(())
    }
}

impl Incoming for &[u8] {
    fn piece(&mut self, length: usize) -> Result<Vec<u8>, InferenceError> {
        let (piece, rest) = self.split_at(length);
        *self = rest;
        Ok(piece.to_vec())
    }
}

/// Carries every message by hand.
fn converse<U: Copy, D: Copy>(
    messages: &[Planned<U, D>],
    inferences: usize,
    client: &mut impl Party<Said = U, Heard = D>,
    server: &mut impl Party<Said = D, Heard = U>,
) {
    for (leg, last) in legs(messages) {
        for inference in 0..inferences {
            for message in leg {
                let mut bytes = Vec::new();
                let mut carried: &[u8];
                match message.words {
                    Words::Up(words) => {
                        client.say(inference, words, &mut bytes).unwrap();
                        carried = &bytes;
                        server.hear(inference, words, message.bytes, &mut carried).unwrap();
                    }
                    Words::Down(words) => {
                        server.say(inference, words, &mut bytes).unwrap();
                        carried = &bytes;
                        client.hear(inference, words, message.bytes, &mut carried).unwrap();
                    }
                }
                assert_eq!(bytes.len(), message.bytes, "as long as planned");
                assert!(carried.is_empty(), "heard to its end");
            }
        }
        match last.words {
            Words::Up(words) => client.after_saying(words).and(server.after_hearing(words)).unwrap(),
            Words::Down(words) => server.after_saying(words).and(client.after_hearing(words)).unwrap(),
        }
    }
}

fn set_up(model: &Arc<ServedModel>) -> (ClientSession, ServerSession) {
    let wishes = Wishes::default();
    let (hello, greeting) = Greeting::start(&wishes).unwrap();
    let (answer, greeted) = Greeted::answer(&hello, ModelName::default(), Arc::clone(model)).unwrap();
    let (agreement, agreed) = greeting.hear(answer, b"channel").unwrap();
    let server = greeted.hear(&agreement, b"channel").unwrap();
    let (point, transferring) = agreed.start_transfers().unwrap();
    let (points, reverse_point, waiting) = server.hear(&point).unwrap();
    let (sums, reverse_points, client) = transferring.hear(&points, reverse_point.as_ref()).unwrap();
    (client, waiting.hear(&sums, reverse_points.as_ref()).unwrap())
}

/// Maxima at the border, ReLUs that were kept and ReLUs that were dropped by pixel: every kind of part.
fn model() -> InferenceModel {
    let spec = zoo::build("resnet10:m=2,stem=imagenet", 32, 10).unwrap();
    let masks =
        spec.walk().sites().iter().map(|site| {
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|place| place % 3 > 0)))
        });
    let mask = ActivationMask::new(&spec, masks.collect()).unwrap();
    let images = [Image::random(spec.draft().input, 1)];
    freeze(&spec, &FloatWeights::random(&spec, 1), Some(&mask), &images, &FreezeOptions::default()).unwrap().0
}

#[test]
fn two_images_go_their_way_without_any_connection() {
    let model = model();
    let terms = |reveal, relus| Terms { reveal, relus };
    for terms in [
        terms(Reveal::Logits, ReluRounding::Stochastic),
        terms(Reveal::Logits, ReluRounding::Nearest),
        terms(Reveal::Class, ReluRounding::Stochastic),
    ] {
        let served = Arc::new(ServedModel::new(&model, terms, WeightMemory::Everything).unwrap());
        let plan = served.plan();
        let (mut client, mut server) = set_up(&served);
        let (workers, server_workers) = (Workers::alone(), Arc::new(Workers::alone()));
        let (mut prepared, mut records, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2 {
            let inference = client.next_inference();
            assert_eq!(inference, server.next_inference());
            let once = client.take_once();
            assert_eq!(once, server.take_once());
            let messages = offline::messages::list(plan, client.depth, once);
            let begun = (inference, once.halves);
            let mut preparing = PreparingClient::new(&mut client, &workers, begun).unwrap();
            let mut serving = PreparingServer::new(&mut server, &server_workers, begun, None).unwrap();
            converse(&messages, 1, &mut preparing, &mut serving);
            let (mut own, _) = preparing.finish(true);
            let theirs = serving.finish().0;
            let record = own.take_record().unwrap();
            records.push(ProtocolCoins::new(&model, plan, record, &theirs.mask_seed()).unwrap());
            prepared.push(own);
            kept.push(theirs);
        }
        let images = [3, 4].map(|seed| Image::random(model.outline().input, seed));
        let batch = prepared.into_iter().zip(&images).collect();
        let mut classifying = ClassifyingClient::new(plan, &workers, batch).unwrap();
        let mut serving = ClassifyingServer::new(Arc::clone(&served), &server_workers, kept);
        converse(&online::messages::list(plan), 2, &mut classifying, &mut serving);
        let (answers, _) = classifying.finish();
        for ((image, record), answer) in images.iter().zip(&records).zip(answers) {
            let expected = reference::run_with(&model, image, record).unwrap();
            match answer {
                Answer::Logits(logits) => assert_eq!(logits, expected),
                // The circuit compares unrounded logits; rounded ones may tie.
                Answer::Class(class) => assert!(expected[class] + 1 >= *expected.iter().max().unwrap()),
            }
        }
    }
}
