//! Whether jumps and addresses of the tools depend on secrets, as valgrind's memcheck sees it: `scripts/constant-time`.
//!
//! Seeds, keys, blinds, shares, labels and choices are poisoned; what a message shows is published where it is sent. Without
//! valgrind nothing is watched, and the program says so and fails.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed check")]

mod memcheck;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use memcheck::{Verdict, poison, publish, secret};
use sordino_crypto::cpu::CpuFeatures;
use sordino_crypto::garble::Workspace;
use sordino_crypto::garble::argmax::ArgmaxShape;
use sordino_crypto::garble::circuit::Circuit;
use sordino_crypto::garble::gates::{
    ClientInputs, GateShape, OfferedGates, PreparedGates, ReverseReceiver, SenderSide,
};
use sordino_crypto::garble::hash::{HashCounter, HashKey};
use sordino_crypto::garble::label::{Offset, WireLabel};
use sordino_crypto::garble::layer::Layer;
use sordino_crypto::garble::messages::{ActiveLabels, GarbledChunk, Reply};
use sordino_crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use sordino_crypto::garble::truncate::{
    ClientInputs as TruncationInputs, OfferedTruncation, PreparedTruncation, TruncationOffer,
    TruncationOpening, TruncationReply, TruncationShape,
};
use sordino_crypto::he::{
    AnswerSecrets, ClientKey, ConvolutionShape, Halves, HeOutline, HeParameters, LayerSecrets, LayerUniform,
    Layout, LinearAnswer, LinearRequest, LinearShape, PreparedWeights, PublicKey, PublicSeed, RequestSecrets,
    WeightBits, WeightStorage,
};
use sordino_crypto::ot::base::{ReceiverPoints, SenderPoint};
use sordino_crypto::ot::extension::{Corrections, ReceiverSetup, SenderSetup};
use sordino_crypto::ot::values::{CorrelationOffset, SecretBits};
use sordino_crypto::ot::{Depth, TreeSums};
use sordino_crypto::random::{Direction, Generator, InferenceId, Scope, Seed, SessionId};
use sordino_crypto::ring::geometry::{ConvGeometry, ConvShape, Extent};
use sordino_crypto::ring::{PackedWeights, RingVector, RingWidth, Share, Weights};
use sordino_crypto::secret::Secret;

fn main() -> ExitCode {
    if !memcheck::is_watching() {
        eprintln!("nobody watches: run this with scripts/constant-time, under valgrind");
        return ExitCode::FAILURE;
    }
    eprintln!("kernels: {:?}", CpuFeatures::available());
    let mut verdict = Verdict::default();
    verdict.caught("control: a jump on a secret bit", || leak_by_jump(secret(1)));
    verdict.caught("control: a table read at a secret place", || leak_by_address(secret(2)));
    verdict.caught("control: an early end of a comparison", || leak_by_comparison(secret(3)));
    verdict.silent("control: the same without leaks", || keep(secret(4)));
    verdict.silent("secrets compare in constant time", compare_secrets);
    verdict.silent("linear layers: keys, samplers, requests, answers, decryption", linear_layer);
    verdict.silent("transfers: base, trees, extension", || transfers(Depth::Four));
    verdict.silent("transfers: deeper trees", || transfers(Depth::Eight));
    verdict.silent("circuits: ReLU", || circuits(&relu_circuit(), true));
    verdict.silent("circuits: argmax", || circuits(&ArgmaxShape::new(5, 20).unwrap().circuit(), false));
    verdict.silent("truncation", truncation);
    verdict.silent("gates", gates);
    verdict.silent("shares: sums, packing, layers on shares", shares);
    verdict.finish()
}

#[inline(never)]
fn leak_by_jump(key: [u8; 32]) {
    if black_box(key)[0] & 1 == 1 {
        black_box(0);
    } else {
        black_box([1_u8; 64]);
    }
}

#[inline(never)]
fn leak_by_address(key: [u8; 32]) {
    let table: [u64; 256] = std::array::from_fn(|place| place as u64 * 3);
    black_box(black_box(table)[usize::from(black_box(key)[0])]);
}

#[inline(never)]
fn leak_by_comparison(key: [u8; 32]) {
    for (one, other) in key.iter().zip(black_box([7_u8; 32])) {
        if *one != black_box(other) {
            break;
        }
    }
}

#[inline(never)]
fn keep(key: [u8; 32]) {
    let mask = (black_box(key)[0] & 1).wrapping_neg();
    black_box(key.map(|byte| byte & mask | 5 & !mask));
}

fn compare_secrets() {
    use subtle::ConstantTimeEq;
    let (one, other) = (Secret::new(secret::<32>(1)), Secret::new(secret::<32>(1)));
    black_box(one.ct_eq(&other).unwrap_u8());
}

fn seed(byte: u8) -> Seed {
    Seed::from_bytes(secret(byte))
}

fn generator(byte: u8) -> Generator {
    seed(byte).generator()
}

fn secret_words(count: usize, width: u32, byte: u8) -> Vec<u64> {
    let mut words: Vec<u64> = (0..count as u64)
        .map(|place| place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(byte))
        .map(|word| word >> (64 - width))
        .collect();
    poison(&mut words);
    // What is above the width is public: zero.
    words.iter_mut().for_each(|word| *word &= u64::MAX >> (64 - width));
    words
}

fn sent(mut bytes: Vec<u8>) -> Vec<u8> {
    publish(&mut bytes);
    bytes
}

fn scope(direction: Direction) -> Scope {
    Scope { session: SessionId([1; 32]), inference: InferenceId([2; 16]), step: 1, direction }
}

/// One layer from keys to shares. The weights are known here: that they keep their bound is checked by comparing them.
fn linear_layer() {
    for ring_bits in [24, 40, 60] {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 4, 8, 3));
        let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let layout = Layout::new(&parameters, &shape).unwrap();
        let (up, down) = (scope(Direction::ClientToServer), scope(Direction::ServerToClient));
        let (client, server) = (seed(1), seed(2));
        let mut second = None;
        let session = PublicSeed::derive(&[3; 32]);

        let key = ClientKey::generate(&parameters, &client, &up);
        let public_key = sent(key.public_key(&session, &client, &up).to_bytes(&parameters));
        let blinds = secret_words(shape.input_values(), ring_bits, 9);
        let uniform = LayerUniform::new(&session, 1);
        let secrets = RequestSecrets::derive(&client, &up);
        let request = key.encrypt(&layout, &uniform, &blinds, secrets).unwrap();
        let request = sent(request.to_bytes(&layout));

        let public_key = PublicKey::from_bytes(&parameters, &session, &public_key).unwrap();
        let request = LinearRequest::from_bytes(&layout, &request).unwrap();
        let weights: Vec<i16> = (0..shape.weights() as i16).map(|place| place * 37 % 255 - 127).collect();
        let weights = PreparedWeights::new(&layout, &weights, WeightStorage::Everything).unwrap();
        let layer = LayerSecrets::derive(&server, &session, 1);
        for halves in [Halves::Both, Halves::First] {
            let secrets = (&layer, AnswerSecrets::derive(&server, &down));
            let (answer, share) = weights.answer(&public_key, &request, secrets, halves).unwrap();
            black_box(share.expose());
            let mut answer = LinearAnswer::from_bytes(&layout, halves, &sent(answer.to_bytes())).unwrap();
            second = answer.take_second_halves().or(second);
            let second = second.as_ref().unwrap();
            black_box(key.decrypt(&layout, second, &answer).unwrap().expose());
        }
        black_box(AnswerSecrets::rederive_masks(&server, &down, &layout).expose());
    }
}

/// Base transfers by the bits of a secret offset, trees, two chunks of the extension.
fn transfers(depth: Depth) {
    let session = SessionId([5; 32]);
    let (mut client, mut server) = (generator(11), generator(12));
    let (point, receiver) = ReceiverSetup::start(session, depth, &mut client);
    let mut point = point.to_bytes();
    publish(&mut point);
    let point = SenderPoint::from_bytes(&point).unwrap();
    let offset = CorrelationOffset::random(&mut server);
    let (points, sender) = SenderSetup::start(session, depth, offset, &point, &mut server);
    let points = ReceiverPoints::from_bytes(&sent(points.to_bytes())).unwrap();
    let (sums, mut receiver) = receiver.finish(&points, &mut client).unwrap();
    let sums = TreeSums::from_bytes(&sent(sums.to_bytes())).unwrap();
    let mut sender = sender.finish(&sums);
    for count in [2048, 640] {
        let mut choices = vec![0x5a; count / 8];
        poison(&mut choices);
        let choices = SecretBits::from_packed(count, choices).unwrap();
        let (corrections, chosen) = receiver.extend(choices).unwrap();
        let corrections = sent(corrections.to_bytes().to_vec());
        let corrections = Corrections::from_bytes(count, depth, &corrections).unwrap();
        let zero = sender.extend(&corrections).unwrap();
        black_box((zero.labels(), chosen.labels()));
    }
}

fn relu_circuit() -> Circuit {
    ReluShape::new(20, 6, 21, Rounding::Nearest, ReluForm::Projection).unwrap().circuit()
}

/// Garbling, encoding, evaluating and unmasking, with labels as the transfers would hand them out.
fn circuits(circuit: &Circuit, is_shared: bool) {
    let layer = Layer::new(Arc::new(circuit.clone()), if is_shared { 70 } else { 1 });
    let circuit = layer.circuit();
    let mut server = generator(21);
    let offset = Offset::random(&mut server);
    let mut key = HashKey::random(&mut server).to_bytes();
    publish(&mut key);
    let key = HashKey::from_bytes(key);
    let mut workspace = Workspace::new(CpuFeatures::available());
    let mut counters = HashCounter::new().take(layer.hash_count()).unwrap();
    let garblers = layer.garblers(key, &mut counters, &mut server).unwrap();
    let mut counters = HashCounter::new().take(layer.hash_count()).unwrap();
    let evaluators = layer.evaluators(key, &mut counters).unwrap();
    let arity = circuit.server_widths().len();
    for (garbler, evaluator) in garblers.into_iter().zip(evaluators) {
        let lanes = garbler.lanes();
        let values = secret_words(lanes * arity, circuit.server_widths()[0], 33);
        let choices =
            circuit.choices(lanes, &secret_words(lanes * arity, circuit.client_widths()[0], 34)).unwrap();
        let count = circuit.client_wires() * lanes;
        let zero: Vec<WireLabel> = (0..count).map(|_| WireLabel::from(server.next_u128())).collect();
        let bit = |place: usize| u128::from(choices.expose()[place / 8] >> (place % 8) & 1).wrapping_neg();
        let chosen = zero
            .iter()
            .enumerate()
            .map(|(place, label)| WireLabel::from(u128::from(*label) ^ (bit(place) & offset.expose())));
        let chosen = chosen.collect();
        let (tables, garbled) = garbler.garble(&offset, &zero, &mut workspace).unwrap();
        let tables = GarbledChunk::from_bytes(circuit, lanes, sent(tables.into_bytes())).unwrap();
        let prepared = evaluator.receive(tables, chosen).unwrap();
        let (labels, waiting) = garbled.encode(&offset, &values, &mut workspace).unwrap();
        // The client's labels of the server's bits are secret to nobody but the client.
        let labels = ActiveLabels::from_bytes(circuit, lanes, labels.into_bytes()).unwrap();
        if is_shared {
            let blinds = secret_words(lanes, circuit.output_bits(), 35);
            let reply = prepared.evaluate(&labels, &blinds, &mut workspace).unwrap();
            let reply = Reply::from_bytes(circuit, lanes, sent(reply.into_bytes())).unwrap();
            black_box(waiting.finish(reply).unwrap());
        } else {
            let labels = ActiveLabels::from_bytes(circuit, lanes, sent(labels.into_bytes())).unwrap();
            black_box(prepared.decode(&labels, &mut workspace).unwrap());
        }
    }
}

fn truncation() {
    let shape = TruncationShape::new(21, 6, 22).unwrap();
    let count = 100;
    let mut server = generator(41);
    let offset = Offset::random(&mut server);
    let key = HashKey::from_bytes([6; 16]);
    let zero: Vec<WireLabel> = (0..count).map(|_| WireLabel::from(server.next_u128())).collect();
    let client_shares = secret_words(count, 21, 42);
    let tops = client_shares.iter().map(|share| u128::from(share >> 20 & 1).wrapping_neg());
    let chosen: Vec<WireLabel> = zero
        .iter()
        .zip(tops)
        .map(|(label, top)| WireLabel::from(u128::from(*label) ^ (top & offset.expose())))
        .collect();
    black_box(shape.choices(&client_shares));
    let counters = || HashCounter::new().take(TruncationShape::hash_count(count)).unwrap();
    let (offer, offered) =
        OfferedTruncation::new(shape, key, &mut counters(), &offset, &zero, &mut server).unwrap();
    let offer = TruncationOffer::from_bytes(&shape, count, &sent(offer.to_bytes(&shape))).unwrap();
    let blinds = secret_words(count, 22, 43);
    let own = TruncationInputs { shares: &client_shares, blinds: &blinds, labels: &chosen };
    // Factors are public.
    let factors = vec![19; count];
    let prepared = PreparedTruncation::new(shape, key, &mut counters(), own, &factors, &offer).unwrap();
    let (opening, waiting) = offered.open(&secret_words(count, 21, 44)).unwrap();
    let opening = TruncationOpening::from_bytes(&shape, count, &sent(opening.to_bytes(&shape))).unwrap();
    let reply = prepared.reply(&opening, &factors).unwrap();
    let reply = TruncationReply::from_bytes(&shape, count, &sent(reply.to_bytes(&shape))).unwrap();
    black_box(waiting.finish(&reply, &factors).unwrap());
}

fn gates() {
    let shape = GateShape::new(21, 8, 24).unwrap().with_values_per_sign(2).unwrap().with_slopes(4).unwrap();
    let (signs, values) = (96, 192);
    let mut server = generator(45);
    let [offset, reverse_offset] = [(); 2].map(|()| Offset::random(&mut server));
    let [key, reverse_key] = [7, 8].map(|byte| HashKey::from_bytes([byte; 16]));
    let (shares, coins) = (secret_words(values, 22, 46), secret_words(signs, 1, 47));
    let masks = secret_words(signs, 1, 48);
    let [zero, chosen] = dealt(shape.choices(&shares, &coins).expose(), &offset, &mut server);
    let packed: Vec<u8> =
        masks.chunks(8).map(|bits| bits.iter().rev().fold(0, |all, bit| all << 1 | *bit as u8)).collect();
    let [reverse_zero, reverse_chosen] = dealt(&packed, &reverse_offset, &mut server);
    let counters = || HashCounter::new().take(shape.hash_count(signs)).unwrap();
    let reverse_counters = || HashCounter::new().take(shape.reverse_hash_count(signs)).unwrap();
    let (mut offer, mut advance, mut opening, mut reply) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let forward = SenderSide { key, counters: counters(), offset: &offset, zero_labels: &zero };
    let reverse = ReverseReceiver { choices: Secret::new(masks), labels: Secret::new(reverse_chosen) };
    let offered = OfferedGates::new(shape, forward, reverse, &mut server, &mut offer).unwrap();
    let blinds = secret_words(values, 24, 49);
    let own = ClientInputs { shares: &shares, coins: &coins, blinds: &blinds, labels: &chosen };
    let counted = reverse_counters();
    let reverse = SenderSide {
        key: reverse_key,
        counters: counted,
        offset: &reverse_offset,
        zero_labels: &reverse_zero,
    };
    let prepared =
        PreparedGates::new(shape, key, &mut counters(), own, reverse, &sent(offer), &mut advance).unwrap();
    let advanced = offered.take_advance(reverse_key, &mut reverse_counters(), &sent(advance)).unwrap();
    // Slopes are public.
    let slopes: Vec<u64> = (0..values as u64).map(|place| place.wrapping_sub(90)).collect();
    let waiting = advanced.open(&secret_words(values, 22, 50), &slopes, &mut opening).unwrap();
    prepared.reply(&sent(opening), &slopes, &mut reply).unwrap();
    black_box(waiting.finish(&sent(reply)).unwrap());
}

/// Labels of choice 0 and those chosen, by a dealer.
fn dealt(choices: &[u8], offset: &Offset, generator: &mut Generator) -> [Vec<WireLabel>; 2] {
    let zero: Vec<u128> = (0..8 * choices.len()).map(|_| generator.next_u128()).collect();
    let bit = |place: usize| u128::from(choices[place / 8] >> (place % 8) & 1).wrapping_neg();
    let chosen = zero.iter().enumerate().map(|(place, label)| label ^ (bit(place) & offset.expose()));
    let chosen = chosen.map(WireLabel::from).collect();
    [zero.iter().map(|label| WireLabel::from(*label)).collect(), chosen]
}

fn shares() {
    for bits in [20, 32, 45] {
        let width = RingWidth::new(bits).unwrap();
        let shape = ConvShape {
            in_channels: 3,
            out_channels: 5,
            input: Extent::square(6),
            filter: Extent::square(3),
            stride: Extent::square(1),
            padding: Extent::square(1),
            dilation: Extent::square(1),
            groups: 1,
        };
        let mut weights: Vec<i8> = (0..135_u8).map(|place| place.wrapping_mul(37) as i8 | 1).collect();
        poison(&mut weights);
        let packed = PackedWeights::new(ConvGeometry::new(shape).unwrap(), Weights::Bytes(&weights)).unwrap();
        let input = RingVector::from_unsigned(width, &secret_words(108, bits, 51));
        let mut output = packed.convolve(&input).unwrap();
        let mask = Share::random(width, output.len(), &mut generator(52));
        output.subtract(mask.expose()).unwrap();
        output.scale(2).unwrap();
        let bytes = sent(output.without_low_bits(3).unwrap().to_bytes());
        black_box(RingVector::from_bytes(RingWidth::new(bits - 3).unwrap(), output.len(), &bytes).unwrap());
    }
}
