//! What each party sees could have been written by somebody who knows nothing of the other.
//!
//! A simulator that has the outline, and at the end the logits, plays the server: it has no weights, its tables,
//! offers, labels and openings are uniform bytes, and a real client is content with it. Real servers with extreme
//! weights and real clients with extreme images are then held against it and against each other: same lengths, same
//! order, and no statistic tells them apart. Weakened transcripts show that the statistics could.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use crypto::he::{
    AnswerSecrets, Halves, LayerSecrets, LinearRequest, PreparedWeights, PublicKey, PublicSeed, WeightStorage,
};
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{Corrections, CorrelatedReceiver, ReceiverSetup, SenderSetup};
use crypto::ot::values::{CorrelationOffset, SecretBits};
use crypto::ot::{Depth, TreeSums};
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed, SessionId};
use crypto::ring::{RingVector, RingWidth};
use network::digest::Digest;
use network::image::Image;
use network::inference_model::{InferenceModel, LinearWeights, ModelOutline};
use network::reference;
use sordino_inference::client::{Answer, Client, ShareRecord};
use sordino_inference::connection::frame::{FrameKind, HEADER_BYTES};
use sordino_inference::connection::{Connection, Role, memory_pair};
use sordino_inference::plan::{LinearJob, Plan, PlannedMessage, ReluRounding, Reveal, Terms};
use sordino_inference::setup::messages::{ClientHello, ServerHello, Understood};
use sordino_inference::setup::{halves_id, session_id};
use sordino_inference::transcript::{Kind, Phase};

use support::statistics::{FEW, LIMIT, histogram_score, repetition_score, serial_score, two_sample_score};
use support::{Fault, Framed, Session, Wire, run, served_with, sign_sharing_model, tiny_model};

/// Inferences of each session. Their messages are compared with each other, too.
const INFERENCES: usize = 8;

/// One side's messages, cut by the plan: per message its copies, one for each inference.
struct Recording(Vec<(PlannedMessage, Vec<Vec<u8>>)>);

impl Recording {
    fn cut(plan: &Plan, is_upward: bool, mut stream: &[u8]) -> Self {
        let of_side = |messages: Vec<PlannedMessage>| {
            messages.into_iter().filter(|message| message.is_upward == is_upward).collect::<Vec<_>>()
        };
        let mut take = |message: &PlannedMessage| {
            let (bytes, rest) = stream.split_at(message.framed_bytes());
            stream = rest;
            bytes[HEADER_BYTES..].to_vec()
        };
        let mut messages: Vec<_> = of_side(plan.messages(Depth::Four))
            .into_iter()
            .map(|message| (message, vec![take(&message)]))
            .collect();
        // The same messages, of which answers are shorter.
        let further = of_side(plan.further_messages(Depth::Four));
        for _ in 1..INFERENCES {
            let repeated = messages.iter_mut().filter(|(message, _)| !message.is_once);
            repeated.zip(&further).for_each(|((_, copies), message)| copies.push(take(message)));
        }
        assert!(stream.is_empty(), "{} bytes were not planned", stream.len());
        Self(messages)
    }

    /// What is not accounted for by uniform bytes.
    fn alarms(&self) -> Vec<String> {
        let mut alarms = Vec::new();
        for (message, copies) in self.0.iter().filter(|(message, _)| looks_uniform(message)) {
            let bytes = joined(copies);
            let mut scores = vec![("histogram", histogram_score(&bytes)), ("serial", serial_score(&bytes))];
            let pairs = copies.windows(2).map(|pair| ("repetition", repetition_score(&pair[0], &pair[1])));
            scores.extend(pairs);
            alarms.extend(raised(message, &scores));
        }
        alarms
    }

    /// What tells two recordings apart. Lengths and order are compared on the way.
    fn differences(&self, other: &Self) -> Vec<String> {
        assert_eq!(self.0.len(), other.0.len());
        let mut alarms = Vec::new();
        for ((message, own), (other_message, others)) in self.0.iter().zip(&other.0) {
            assert_eq!(message, other_message);
            if is_random(message) {
                let (own, others) = (joined(own), joined(others));
                let scores = [
                    ("two-sample", two_sample_score(&own, &others)),
                    ("same", repetition_score(&own, &others)),
                ];
                alarms.extend(raised(message, &scores));
            }
        }
        alarms
    }

    fn of_kind(&mut self, phase: Phase, kind: Kind) -> impl Iterator<Item = &mut Vec<Vec<u8>>> {
        let wanted = move |message: &PlannedMessage| message.phase == phase && message.kind == kind;
        self.0.iter_mut().filter(move |(message, _)| wanted(message)).map(|(_, copies)| copies)
    }
}

fn raised(message: &PlannedMessage, scores: &[(&str, f64)]) -> Vec<String> {
    let excessive = scores.iter().filter(|(_, score)| score.is_nan() || score.abs() > LIMIT);
    excessive.map(|(name, score)| format!("{name} {score:.1} at {message:?}")).collect()
}

/// The copies in a row, without the last byte of each, which may be padded.
fn joined(copies: &[Vec<u8>]) -> Vec<u8> {
    copies.iter().flat_map(|bytes| &bytes[..bytes.len() - 1]).copied().collect()
}

/// Long enough for statistics, and neither constant (version, outline) nor an exact function of the answer (logits).
fn is_random(message: &PlannedMessage) -> bool {
    let copies = if message.is_once { 1 } else { INFERENCES };
    let is_outline =
        message.phase == Phase::SetUp && !message.is_upward && message.bytes != ReceiverPoints::BYTES;
    // The hello has a name's room, which is empty here, and digests are functions of the outline.
    let is_outline = is_outline || [ClientHello::BYTES, Understood::BYTES].contains(&message.bytes);
    let is_answer = message.kind == Kind::Values && !message.is_upward;
    message.bytes * copies >= FEW && !is_outline && !is_answer
}

/// Points of a curve are random, but their encodings have constant bits.
fn looks_uniform(message: &PlannedMessage) -> bool {
    let are_points = message.phase == Phase::SetUp && message.bytes == ReceiverPoints::BYTES;
    is_random(message) && !are_points
}

fn random_bytes(generator: &mut Generator, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    generator.fill(&mut bytes);
    bytes
}

/// The same outline with other weights.
fn with_weights(outline: &ModelOutline, weight: impl Fn(usize) -> i16, bias: i64) -> InferenceModel {
    let layer = |taps: usize, outputs: usize| LinearWeights {
        weights: (0..taps * outputs).map(&weight).collect(),
        biases: vec![bias; outputs],
    };
    let layers = outline.linear_steps().map(|(_, geometry)| layer(geometry.taps(), geometry.outputs()));
    InferenceModel::new(outline.clone(), layers.collect()).unwrap()
}

fn zero_weights(outline: &ModelOutline) -> InferenceModel {
    with_weights(outline, |_| 0, 0)
}

fn extreme_weights(outline: &ModelOutline) -> InferenceModel {
    with_weights(outline, |index| if index % 3 == 0 { -127 } else { 127 }, 12_345)
}

fn flat_image(outline: &ModelOutline, pixel: u8) -> Image {
    Image::new(outline.input, vec![pixel; outline.input.scalars() as usize]).unwrap()
}

fn plan_of(outline: &ModelOutline, terms: Terms) -> Plan {
    Plan::new(Arc::new(outline.clone()), terms).unwrap()
}

/// Gates and circuits: both roundings of ReLUs, and shared signs, which round by shares in either.
fn cases() -> Vec<(InferenceModel, Terms)> {
    let by_shares = Terms { reveal: Reveal::Logits, relus: ReluRounding::Stochastic };
    let relus = both_terms().map(|terms| (tiny_model(), terms));
    relus.into_iter().chain([(sign_sharing_model(), by_shares)]).collect()
}

fn both_terms() -> [Terms; 2] {
    [ReluRounding::Stochastic, ReluRounding::Nearest].map(|relus| Terms { reveal: Reveal::Logits, relus })
}

/// Several inferences of one image in one session.
fn session(model: &InferenceModel, image: &Image, terms: Terms) -> Session {
    let images = vec![image.clone(); INFERENCES];
    let session = run(&served_with(model, terms), Reveal::Logits, &images, None, None);
    assert!(session.server.is_ok());
    session
}

/// The last message of the server, from what the client is allowed to learn and what it has.
fn logit_share(outline: &ModelOutline, logits: &[i64], record: &ShareRecord) -> Vec<u8> {
    let shares = record.share(outline.output());
    let width = RingWidth::new(outline.ring_bits(outline.output()) - outline.logit_drop).unwrap();
    let mut values = RingVector::from_signed(width, logits);
    let upper: Vec<u64> = shares.iter().map(|share| share >> outline.logit_drop).collect();
    values.subtract(&RingVector::from_unsigned(width, &upper)).unwrap();
    values.to_bytes()
}

/// The set-up: nothing in it depends on weights.
fn simulate_set_up(wire: &mut Framed<Wire>, plan: &Plan, generator: &mut Generator) -> SimulatedSession {
    let hello = ClientHello::from_bytes(&wire.receive(ClientHello::BYTES)).unwrap();
    let nonce: [u8; 32] = generator.array();
    let (terms, model, outline) = (plan.terms(), hello.model, plan.outline().to_bytes());
    let (depth, commitment) = (Depth::Four, Digest(generator.array()));
    let reply = ServerHello { nonce, terms, depth, commitment, model, outline };
    wire.send(FrameKind::SetUp, &reply.to_bytes());
    wire.flush();
    let agreement = Understood::from_bytes(&wire.receive(Understood::BYTES)).unwrap().agreement;
    let session = session_id(&hello.nonce, &nonce, &agreement, (terms, depth), b"channel");
    let seed = PublicSeed::derive(halves_id(&agreement).as_bytes());
    let point = SenderPoint::from_bytes(&wire.receive(SenderPoint::BYTES)).unwrap();
    let offset = CorrelationOffset::random(generator);
    let (points, _) = SenderSetup::start(session, depth, offset, &point, generator);
    wire.send(FrameKind::SetUp, points.to_bytes().as_ref());
    let reverses = plan.relus() == ReluRounding::Stochastic;
    let reverse = reverses.then(|| ReceiverSetup::start(session.reversed(), depth, generator));
    let reverse = reverse.map(|(point, reverse)| {
        wire.send(FrameKind::SetUp, &point.to_bytes());
        reverse
    });
    wire.flush();
    wire.receive(TreeSums::BYTES);
    let reverse = reverse.map(|reverse| {
        let points = ReceiverPoints::from_bytes(&wire.receive(ReceiverPoints::BYTES)).unwrap();
        reverse.finish(&points, generator).unwrap()
    });
    let (sums, receiver) = reverse.unzip();
    SimulatedSession { seed, sums, receiver }
}

/// What a simulated server has after the set-up.
struct SimulatedSession {
    seed: PublicSeed,
    /// Of the transfers in which it chooses, by coins.
    sums: Option<TreeSums>,
    receiver: Option<CorrelatedReceiver>,
}

impl SimulatedSession {
    /// A message of transfers: its tree sums, or corrections of coins.
    fn transfer(&mut self, message: &PlannedMessage, generator: &mut Generator) -> Vec<u8> {
        if let Some(sums) = self.sums.take() {
            return sums.to_bytes();
        }
        let receiver = self.receiver.as_mut().unwrap();
        let count =
            (0..).step_by(8).find(|count| Corrections::byte_length(*count, Depth::Four) >= message.bytes);
        let (corrections, _) = receiver.extend(SecretBits::random(count.unwrap(), generator)).unwrap();
        corrections.to_bytes().to_vec()
    }
}

/// Plays the server without weights: homomorphic answers are those of weights that are all zero, everything else is
/// uniform. The logit shares come from outside, once per inference.
fn simulate_server(wire: Wire, plan: &Plan, logit_shares: &Receiver<Vec<u8>>) {
    let mut wire = Framed::new(wire, Role::Server);
    let mut generator = Seed::from_system().unwrap().generator();
    let mut session = simulate_set_up(&mut wire, plan, &mut generator);
    let jobs: Vec<_> = plan.flights().flatten().collect();
    let zeros_root = generator.seed();
    for number in 1..=INFERENCES as u64 {
        let halves = if number == 1 { Halves::Both } else { Halves::First };
        let (mut asked, mut answered) = (jobs.iter(), jobs.iter());
        let (mut keys, mut requests) = (Vec::new(), HashMap::new());
        let planned =
            if number == 1 { plan.messages(Depth::Four) } else { plan.further_messages(Depth::Four) };
        for message in planned.iter().filter(|message| message.phase != Phase::SetUp) {
            if message.is_upward {
                wire.flush();
                let bytes = wire.receive(message.bytes);
                if let Some(parameters) =
                    plan.parameters().get(keys.len()).filter(|_| message.kind == Kind::Homomorphic)
                {
                    keys.push(PublicKey::from_bytes(parameters, &session.seed, &bytes).unwrap());
                } else if message.kind == Kind::Homomorphic {
                    let job = asked.next().unwrap();
                    requests.insert(job.step, LinearRequest::from_bytes(&job.layout, &bytes).unwrap());
                }
                continue;
            }
            let bytes = match message.kind {
                Kind::Homomorphic => {
                    let job = answered.next().unwrap();
                    // The client has the layer's number from the value that the layer makes.
                    let layer = job.step.output().0 as u32;
                    let layer = LayerSecrets::derive(&zeros_root, &session.seed, layer);
                    let secrets = (&layer, AnswerSecrets::derive(&generator.seed(), &any_scope()));
                    answer_of_zeros(job, &keys[job.group], &requests[&job.step], secrets, halves)
                }
                Kind::Values => logit_shares.recv().unwrap(),
                Kind::Transfer => session.transfer(message, &mut generator),
                _ => {
                    let mut bytes = random_bytes(&mut generator, message.bytes);
                    if message.kind == Kind::Truncation {
                        *bytes.last_mut().unwrap() = 0; // its unused bits must be zero
                    }
                    bytes
                }
            };
            assert_eq!(bytes.len(), message.bytes);
            wire.send(frame_kind(message.kind), &bytes);
        }
        wire.flush();
    }
}

fn frame_kind(kind: Kind) -> FrameKind {
    match kind {
        Kind::Homomorphic => FrameKind::Homomorphic,
        Kind::Transfer => FrameKind::Transfer,
        Kind::Garbled => FrameKind::Garbled,
        Kind::Gates => FrameKind::Gates,
        Kind::Truncation => FrameKind::Truncation,
        Kind::Values => FrameKind::Values,
        Kind::SetUp => FrameKind::SetUp,
        Kind::Service => FrameKind::Service,
    }
}

fn answer_of_zeros(
    job: &LinearJob,
    key: &PublicKey,
    request: &LinearRequest,
    secrets: (&LayerSecrets, AnswerSecrets),
    halves: Halves,
) -> Vec<u8> {
    let zeros = vec![0; job.layout.shape().weights()];
    let weights = PreparedWeights::new(&job.layout, &zeros, WeightStorage::AtMost(0)).unwrap();
    weights.answer(key, request, secrets, halves).unwrap().0.to_bytes()
}

fn any_scope() -> Scope {
    Scope {
        session: SessionId([1; 32]),
        inference: InferenceId([1; 16]),
        step: 0,
        direction: Direction::ServerToClient,
    }
}

/// A real client against the simulator; gives what the simulator sent. The trusted party is the reference: it gets the
/// image and the client's rounding and gives the simulator nothing but the logits.
fn simulated_session(model: &InferenceModel, image: &Image, terms: Terms) -> Vec<u8> {
    let (client_end, server_end) = memory_pair();
    let (wire, down) = Wire::new(server_end, None);
    let (tell, logit_shares) = channel();
    let plan = plan_of(model.outline(), terms);
    let simulator = thread::spawn(move || simulate_server(wire, &plan, &logit_shares));
    let connection = Connection::new(client_end, Role::Client);
    let mut client = Client::connect(connection, Reveal::Logits, b"channel").unwrap();
    for _ in 0..INFERENCES {
        let mut prepared = client.prepare_recorded().unwrap();
        let record = prepared.take_record().unwrap();
        let logits = reference::run_with(model, image, &record).unwrap();
        tell.send(logit_share(model.outline(), &logits, &record)).unwrap();
        assert_eq!(client.classify(prepared, image).unwrap(), Answer::Logits(logits));
    }
    simulator.join().unwrap();
    down.lock().unwrap().clone()
}

#[test]
fn servers_with_extreme_weights_look_like_a_simulator_without_weights() {
    cases().iter().for_each(|(model, terms)| compare_servers(model, *terms));
}

fn compare_servers(model: &InferenceModel, terms: Terms) {
    let outline = model.outline();
    let (plan, image) = (plan_of(outline, terms), Image::random(outline.input, 5));
    let models = [zero_weights(outline), extreme_weights(outline)];
    let real = models.map(|model| {
        let session = session(&model, &image, terms);
        let recording = Recording::cut(&plan, false, &session.down);
        let (_, sent) = recording.0.last().unwrap();
        for ((answer, record), sent) in session.client.unwrap().iter().zip(sent) {
            let Answer::Logits(logits) = answer else { panic!("logits were asked for") };
            assert_eq!(
                *sent,
                logit_share(outline, logits, record),
                "the last message follows from the logits"
            );
        }
        recording
    });
    let simulated = Recording::cut(&plan, false, &simulated_session(model, &image, terms));
    for recording in real.iter().chain([&simulated]) {
        assert_eq!(recording.alarms(), [""; 0]);
    }
    assert_eq!(real[0].differences(&real[1]), [""; 0]);
    assert_eq!(real[0].differences(&simulated), [""; 0]);
    assert_eq!(real[1].differences(&simulated), [""; 0]);
}

#[test]
fn clients_with_a_black_and_a_white_image_look_like_uniform_bytes() {
    cases().iter().for_each(|(model, terms)| compare_clients(model, *terms));
}

fn compare_clients(model: &InferenceModel, terms: Terms) {
    let outline = model.outline();
    let plan = plan_of(outline, terms);
    let [black, white] = [0, 255].map(|pixel| {
        let session = session(model, &flat_image(outline, pixel), terms);
        Recording::cut(&plan, true, &session.up)
    });
    let mut generator = Seed::from_system().unwrap().generator();
    let length: usize = black.0.iter().map(|(message, copies)| message.framed_bytes() * copies.len()).sum();
    let simulated = Recording::cut(&plan, true, &random_bytes(&mut generator, length));
    for recording in [&black, &white, &simulated] {
        assert_eq!(recording.alarms(), [""; 0]);
    }
    assert_eq!(black.differences(&white), [""; 0]);
    assert_eq!(black.differences(&simulated), [""; 0]);
    assert_eq!(white.differences(&simulated), [""; 0]);
}

/// The server's messages of a session with one inference, in order, and where their bodies lie in its stream.
fn downward_bodies(plan: &Plan) -> Vec<(PlannedMessage, usize)> {
    let mut place = 0;
    let mut bodies = Vec::new();
    for message in plan.messages(Depth::Four).into_iter().filter(|message| !message.is_upward) {
        bodies.push((message, place + HEADER_BYTES));
        place += message.framed_bytes();
    }
    bodies
}

/// How the server deviates in its message with this number. One byte of a point, hello or answer may or may not make it
/// malformed, by chance; all ones do or do not, always.
fn deviation(number: usize, message: &PlannedMessage, body: usize) -> Fault {
    match message.phase == Phase::SetUp || number % 2 == 1 {
        true => Fault::Ones(body, message.bytes),
        false => Fault::Flip(body + message.bytes / 2),
    }
}

/// What a client said before it ended, message by message; what comes after the planned ones is a refusal.
fn said(plan: &Plan, mut stream: &[u8]) -> Vec<(PlannedMessage, Vec<u8>)> {
    let mut said = Vec::new();
    for message in plan.messages(Depth::Four).into_iter().filter(|message| message.is_upward) {
        let Some((bytes, rest)) = stream.split_at_checked(message.framed_bytes()) else { break };
        said.push((message, bytes[HEADER_BYTES..].to_vec()));
        stream = rest;
    }
    said
}

/// Whatever the server sends, a client with a black image and one with a white image send what looks alike, and go on or
/// stop alike.
#[test]
fn a_server_that_deviates_in_any_message_sees_nothing_of_the_image() {
    cases().iter().for_each(|(model, terms)| deviate_in_each_message(model, *terms));
}

fn deviate_in_each_message(model: &InferenceModel, terms: Terms) {
    let (outline, served) = (model.outline(), served_with(model, terms));
    let plan = plan_of(outline, terms);
    let mut heard: [HashMap<usize, Vec<Vec<u8>>>; 2] = Default::default();
    let (mut stopped, mut finished) = (0, 0);
    for (number, (message, body)) in downward_bodies(&plan).into_iter().enumerate() {
        let fault = deviation(number, &message, body);
        let sessions = [0, 255]
            .map(|pixel| run(&served, Reveal::Logits, &[flat_image(outline, pixel)], Some(fault), None));
        let outcomes =
            sessions.each_ref().map(|session| session.client.as_ref().map(drop).map_err(ToString::to_string));
        assert_eq!(outcomes[0], outcomes[1], "{fault:?} in {message:?}");
        assert_eq!(sessions[0].up.len(), sessions[1].up.len(), "{fault:?} in {message:?}");
        if outcomes[0].is_ok() {
            finished += 1
        } else {
            stopped += 1
        }
        for (heard, session) in heard.iter_mut().zip(&sessions) {
            for (place, (_, bytes)) in said(&plan, &session.up).into_iter().enumerate() {
                heard.entry(place).or_default().push(bytes);
            }
        }
    }
    assert!(stopped > 1 && finished > 3, "{stopped} {finished}");
    let upward = plan.messages(Depth::Four).into_iter().filter(|message| message.is_upward);
    for (place, message) in upward.enumerate().filter(|(_, message)| looks_uniform(message)) {
        let [black, white] = heard.each_ref().map(|heard| joined(&heard[&place]));
        if black.len() < FEW {
            continue;
        }
        let scores = [
            ("histogram", histogram_score(&black)),
            ("histogram", histogram_score(&white)),
            ("serial", serial_score(&black)),
            ("serial", serial_score(&white)),
            ("two-sample", two_sample_score(&black, &white)),
            ("same", repetition_score(&black, &white)),
        ];
        assert_eq!(raised(&message, &scores), [""; 0]);
    }
}

/// Each weakness touches one kind of message and is found there.
#[test]
fn weakened_transcripts_are_told_apart() {
    let [gates, circuits] = both_terms();
    weaken(&tiny_model(), gates, Kind::Gates, 16);
    weaken(&tiny_model(), circuits, Kind::Garbled, 16);
    // It has fewer signs, so less of their openings.
    weaken(&sign_sharing_model(), gates, Kind::Gates, 4);
}

/// One bit of so many bytes is constant where labels or openings are.
fn weaken(model: &InferenceModel, terms: Terms, relus: Kind, bytes: usize) {
    let outline = model.outline();
    let plan = plan_of(outline, terms);
    let image = flat_image(outline, 255);
    let session = session(model, &image, terms);
    let up = || Recording::cut(&plan, true, &session.up);
    let down = || Recording::cut(&plan, false, &session.down);
    assert_eq!(up().alarms(), [""; 0]);
    assert_eq!(down().alarms(), [""; 0]);
    let expect_alarm = |weakness: &str, recording: &Recording| {
        assert!(!recording.alarms().is_empty(), "{weakness} goes unnoticed");
    };

    let mut weak = up();
    let width = RingWidth::new(outline.image_ring_bits).unwrap();
    let bare = RingVector::from_signed(width, &outline.image.encode(&image)).to_bytes();
    weak.of_kind(Phase::Online, Kind::Values).for_each(|copies| copies.fill(bare.clone()));
    expect_alarm("a blind of zero", &weak);
    assert!(!weak.differences(&up()).is_empty());

    for (phase, kind) in [
        (Phase::Online, Kind::Values),
        (Phase::Offline, Kind::Transfer),
        (Phase::Offline, Kind::Homomorphic),
        (Phase::Online, relus),
        (Phase::Online, Kind::Truncation),
    ] {
        let mut weak = up();
        weak.of_kind(phase, kind).for_each(|copies| repeat_first(copies));
        expect_alarm("a blind or secret used twice by the client", &weak);
    }
    for (phase, kind) in [
        (Phase::Offline, Kind::Homomorphic),
        (Phase::Offline, relus),
        (Phase::Offline, Kind::Truncation),
        (Phase::Online, relus),
        (Phase::Online, Kind::Truncation),
    ] {
        let mut weak = down();
        weak.of_kind(phase, kind).for_each(|copies| repeat_first(copies));
        expect_alarm("a seed used twice by the server", &weak);
    }

    let mut weak = down();
    for label in weak.of_kind(Phase::Online, relus).flatten().flat_map(|copy| copy.chunks_mut(bytes)) {
        label[0] &= 0xfe;
    }
    expect_alarm("labels or openings with a constant bit", &weak);

    let mut weak = down();
    weak.of_kind(Phase::Online, Kind::Truncation).flatten().for_each(|copy| copy.fill(0));
    expect_alarm("openings without a coin", &weak);
}

fn repeat_first(copies: &mut [Vec<u8>]) {
    let first = copies[0].clone();
    copies.fill(first);
}
