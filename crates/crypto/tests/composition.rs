//! The tools joined as a protocol joins them: a convolution under encryption, then its ReLUs, equal to arithmetic in
//! the clear. Oblivious transfer hands the client its wire labels; the masks and blinds in between never meet.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use sordino_crypto::cpu::CpuFeatures;
use sordino_crypto::garble::Workspace;
use sordino_crypto::garble::hash::{HashCounter, HashKey};
use sordino_crypto::garble::label::{Offset, WireLabel};
use sordino_crypto::garble::layer::Layer;
use sordino_crypto::garble::messages::{ActiveLabels, GarbledChunk, Reply};
use sordino_crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use sordino_crypto::he::{
    AnswerSecrets, ClientKey, ConvolutionShape, Halves, HeOutline, HeParameters, LayerSecrets, LayerUniform,
    Layout, LinearAnswer, LinearRequest, LinearShape, PreparedWeights, PublicKey, PublicSeed, RequestSecrets,
    WeightBits, WeightStorage,
};
use sordino_crypto::ot::base::{ReceiverPoints, SenderPoint};
use sordino_crypto::ot::extension::{
    Corrections, CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup,
};
use sordino_crypto::ot::values::{CorrelationOffset, SecretBits};
use sordino_crypto::ot::{Depth, TreeSums};
use sordino_crypto::random::{Direction, Generator, InferenceId, Scope, Seed, SessionId};
use sordino_crypto::ring::geometry::ConvGeometry;
use sordino_crypto::ring::{PackedWeights, RingVector, RingWidth, Weights, reference};

const RING_BITS: u32 = 32;
const FRACTION_BITS: u32 = 9;
const SESSION: SessionId = SessionId([5; 32]);

fn scope(direction: Direction) -> Scope {
    Scope { session: SESSION, inference: InferenceId([6; 16]), step: 1, direction }
}

fn generator(seed: u8) -> Generator {
    Seed::from_bytes([seed; 32]).generator()
}

fn base_transfers(depth: Depth) -> (CorrelatedSender, CorrelatedReceiver) {
    let (mut client, mut server) = (generator(1), generator(2));
    let offset = CorrelationOffset::random(&mut server);
    let (point, receiver) = ReceiverSetup::start(SESSION, depth, &mut client);
    let point = SenderPoint::from_bytes(point.to_bytes().as_ref()).unwrap();
    let (points, sender) = SenderSetup::start(SESSION, depth, offset, &point, &mut server);
    let points = ReceiverPoints::from_bytes(points.to_bytes().as_ref()).unwrap();
    let (sums, receiver) = receiver.finish(&points, &mut client).unwrap();
    (sender.finish(&TreeSums::from_bytes(sums.to_bytes().as_ref()).unwrap()), receiver)
}

/// The server's and the client's share of `W x`, with messages as bytes.
fn linear_layer(geometry: ConvGeometry, weights: &[i8], image: &RingVector) -> (Vec<u64>, Vec<u64>) {
    let shape = LinearShape::Convolution(ConvolutionShape::same(6, 8, 9, 3));
    let outline = HeOutline::from_layers(RING_BITS, WeightBits::Eight, vec![shape]);
    let parameters = HeParameters::from_outline(&outline).unwrap();
    let layout = Layout::new(&parameters, &shape).unwrap();
    let (client_root, server_root) = (Seed::from_bytes([7; 32]), Seed::from_bytes([8; 32]));
    let (up, down) = (scope(Direction::ClientToServer), scope(Direction::ServerToClient));
    let model = PublicSeed::derive(&[1; 32]);
    let mut blinds = generator(9);
    let blinds: Vec<u64> = (0..image.len()).map(|_| blinds.next_u64() & u64::from(u32::MAX)).collect();

    let key = ClientKey::generate(&parameters, &client_root, &up);
    let public = key.public_key(&model, &client_root, &up).to_bytes(&parameters);
    let uniform = LayerUniform::new(&model, 1);
    let request = key.encrypt(&layout, &uniform, &blinds, RequestSecrets::derive(&client_root, &up)).unwrap();
    let request = LinearRequest::from_bytes(&layout, &request.to_bytes(&layout)).unwrap();
    let public = PublicKey::from_bytes(&parameters, &model, &public).unwrap();
    let wide: Vec<i16> = weights.iter().map(|weight| i16::from(*weight)).collect();
    let prepared = PreparedWeights::new(&layout, &wide, WeightStorage::Everything).unwrap();
    let layer = LayerSecrets::derive(&server_root, &model, 1);
    let secrets = (&layer, AnswerSecrets::derive(&server_root, &down));
    let (answer, mask) = prepared.answer(&public, &request, secrets, Halves::Both).unwrap();
    let mut answer = LinearAnswer::from_bytes(&layout, Halves::Both, &answer.to_bytes()).unwrap();
    let second = answer.take_second_halves().unwrap();
    let client_share = key.decrypt(&layout, &second, &answer).unwrap().expose().clone();

    let mut blinded = image.clone();
    blinded.subtract(&RingVector::from_unsigned(image.width(), &blinds)).unwrap();
    let packed = PackedWeights::new(geometry, Weights::Bytes(weights)).unwrap();
    let mut server_share = packed.convolve(&blinded).unwrap();
    server_share.add(&RingVector::from_unsigned(image.width(), mask.expose())).unwrap();
    (server_share.to_unsigned(), client_share)
}

#[test]
fn a_convolution_and_its_relus_in_private_equal_those_in_the_clear() {
    Depth::ALL.into_iter().for_each(compare_with_the_clear);
}

fn compare_with_the_clear(depth: Depth) {
    let mut source = generator(3);
    let weights: Vec<i8> =
        (0..8 * 6 * 9).map(|_| (source.next_u64() % 255) as i16 - 127).map(|w| w as i8).collect();
    let image: Vec<u64> = (0..6 * 81).map(|_| source.next_u64() % 1024).collect();
    let image = RingVector::from_unsigned(RingWidth::new(RING_BITS).unwrap(), &image);
    let geometry = ConvGeometry::square(6, 8, 9, 3, 1).unwrap();
    let (server_share, client_share) = linear_layer(geometry, &weights, &image);
    let wide: Vec<i16> = weights.iter().map(|weight| i16::from(*weight)).collect();
    let clear = reference::convolve(&geometry, &wide, &image).to_signed();

    let shape =
        ReluShape::new(RING_BITS, FRACTION_BITS, RING_BITS, Rounding::Nearest, ReluForm::Projection).unwrap();
    let layer = Layer::new(Arc::new(shape.circuit()), server_share.len());
    let (mut sender, mut receiver) = base_transfers(depth);
    let offset = Offset::new(sender.offset().expose()).unwrap();
    let key = HashKey::random(&mut generator(4));
    let counters = || HashCounter::new().take(layer.hash_count()).unwrap();
    let garblers = layer.garblers(key, &mut counters(), &mut generator(5)).unwrap();
    let evaluators = layer.evaluators(key, &mut counters()).unwrap();
    let mut workspace = Workspace::new(CpuFeatures::available());
    let mut blinds = generator(6);

    for ((garbler, evaluator), range) in garblers.into_iter().zip(evaluators).zip(layer.chunks()) {
        let (circuit, lanes) = (layer.circuit(), range.len());
        let bits: Vec<u64> =
            client_share[range.clone()].iter().map(|share| shape.client_input(*share)).collect();
        let count = circuit.client_wires() * lanes;
        let choices = circuit.choices(lanes, &bits).unwrap();
        let choices = SecretBits::from_packed(count, choices.expose().clone()).unwrap();
        let (corrections, chosen) = receiver.next_chunk(count).unwrap().extend(choices).unwrap();
        let corrections = Corrections::from_bytes(count, depth, corrections.to_bytes()).unwrap();
        let zeros = sender.next_chunk(count).unwrap().extend(&corrections).unwrap();
        let wires = |labels: &[u128]| labels.iter().map(|label| WireLabel::from(*label)).collect::<Vec<_>>();

        let (tables, prepared) = garbler.garble(&offset, &wires(zeros.labels()), &mut workspace).unwrap();
        let tables = GarbledChunk::from_bytes(circuit, lanes, tables.into_bytes()).unwrap();
        let evaluating = evaluator.receive(tables, wires(chosen.labels())).unwrap();

        let inputs: Vec<u64> =
            server_share[range.clone()].iter().map(|share| shape.server_input(*share)).collect();
        let (labels, waiting) = prepared.encode(&offset, &inputs, &mut workspace).unwrap();
        let labels = ActiveLabels::from_bytes(circuit, lanes, labels.into_bytes()).unwrap();
        let fresh: Vec<u64> = (0..lanes).map(|_| blinds.next_u64()).collect();
        let reply = evaluating.evaluate(&labels, &fresh, &mut workspace).unwrap();
        let shares = waiting.finish(Reply::from_bytes(circuit, lanes, reply.into_bytes()).unwrap()).unwrap();

        for ((value, share), blind) in clear[range].iter().zip(shares.expose()).zip(&fresh) {
            let expected = (value + (1 << (FRACTION_BITS - 1))).max(0) >> FRACTION_BITS;
            assert_eq!(share.wrapping_add(*blind) as u32, expected as u32);
        }
    }
}
