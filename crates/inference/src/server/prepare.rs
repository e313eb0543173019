//! The server's offline work: answers under encryption, circuits, truncation offers.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::domain;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::Offset;
use crypto::garble::truncate::OfferedTruncation;
use crypto::he::{
    AnswerSecrets, LinearAnswer, LinearRequest, PreparedWeights, PublicKey, TileInputs, WeightScratch,
};
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;

use super::{PreparedPart, PreparedServer, Server};
use crate::InferenceError;
use crate::connection::Connection;
use crate::labels::{ZeroLabels, correction_bytes};
use crate::plan::{GarbledPart, Part, Plan, TruncatedPart};
use crate::transcript::{Kind, Work};
use crate::workers::Workers;

pub(super) fn run<S: Read + Write>(
    server: &mut Server<S>,
    inference: InferenceId,
) -> Result<PreparedServer, InferenceError> {
    // A root seed of its own for each inference: nothing of one helps against another.
    let root = Seed::from_system()?;
    let session = server.session;
    let scope =
        |step: usize| Scope { session, inference, step: step as u32, direction: Direction::ServerToClient };
    let masks = answer_linear_layers(server, &root, scope)?;
    let plan = Arc::clone(&server.model.plan);
    let transfers = plan.transfer_count();
    if transfers == 0 {
        let rounds = plan.rounds().iter().map(|_| Vec::new()).collect();
        let (model, offset) = (server.model.digest, Arc::clone(&server.offset));
        return Ok(PreparedServer { model, session, inference, root, offset, masks, rounds, argmax: None });
    }
    let corrections = server.connection.receive(Kind::Transfer, correction_bytes(transfers))?;
    let key = HashKey::random(&mut root.derive(domain::GARBLE_HASH_KEY, &scope(0)).generator());
    server.connection.send(Kind::Garbled, &key.to_bytes())?;
    let mut offering = Offering {
        connection: &mut server.connection,
        offset: &server.offset,
        key,
        counter: HashCounter::new(),
        labels: ZeroLabels::new(&mut server.sender, &corrections, transfers),
        seeds: root.derive(domain::GARBLE_LABELS, &scope(0)).generator(),
        coins: root.derive(domain::TRUNCATION_BIT, &scope(0)).generator(),
        workers: &server.workers,
        frame: Vec::new(),
    };
    let (rounds, argmax) = offering.everything(&plan)?;
    drop(offering);
    server.connection.flush()?;
    let (model, offset) = (server.model.digest, Arc::clone(&server.offset));
    Ok(PreparedServer { model, session, inference, root, offset, masks, rounds, argmax })
}

/// Answers flight after flight; the masks come back in the order of the linear steps.
fn answer_linear_layers<S: Read + Write>(
    server: &mut Server<S>,
    root: &Seed,
    scope: impl Fn(usize) -> Scope,
) -> Result<Vec<Share>, InferenceError> {
    let plan = Arc::clone(&server.model.plan);
    let mut masks: Vec<Option<Share>> = plan.linear().iter().map(|_| None).collect();
    for flight in 0..plan.flight_count() {
        let jobs: Vec<_> = plan.linear().iter().enumerate().filter(|(_, job)| job.flight == flight).collect();
        let mut requests = Vec::with_capacity(jobs.len());
        for (_, job) in &jobs {
            let bytes = server.connection.receive(Kind::Homomorphic, LinearRequest::length(&job.layout))?;
            requests.push(LinearRequest::from_bytes(&job.layout, &bytes)?);
        }
        for ((index, job), request) in jobs.into_iter().zip(requests) {
            let start = Instant::now();
            let secrets = AnswerSecrets::derive(root, &scope(job.step + 1));
            let weights = &server.model.layers[index].encrypted;
            let key = &server.keys[job.group];
            let (answer, mask) = answer(&server.workers, weights, key, &request, &secrets)?;
            let bytes = answer.to_bytes();
            server.connection.spent(Work::Homomorphic, start);
            server.connection.send(Kind::Homomorphic, &bytes)?;
            let width = RingWidth::new(plan.outline().steps[job.step].ring_bits)?;
            masks[index] = Some(Share::new(RingVector::from_unsigned(width, mask.expose())));
        }
        server.connection.flush()?;
    }
    Ok(masks.into_iter().map(|mask| mask.expect("every linear step belongs to one flight")).collect())
}

/// One layer's answer, block by block.
fn answer(
    workers: &Workers,
    weights: &PreparedWeights,
    key: &PublicKey,
    request: &LinearRequest,
    secrets: &AnswerSecrets,
) -> Result<(LinearAnswer, Secret<Vec<u64>>), InferenceError> {
    let layout = weights.layout();
    let mut blocks = Vec::with_capacity(layout.blocks());
    for tile in 0..layout.tiles() {
        let inputs = TileInputs::expand(layout, request, tile);
        // A scratch serves one thread, so each gets a run of neighboring blocks.
        let mut numbers: Vec<_> = layout.tile_blocks(tile).collect();
        let run = numbers.len().div_ceil(workers.threads()).max(1);
        let runs: Vec<Vec<usize>> = std::iter::from_fn(|| {
            let rest = numbers.split_off(run.min(numbers.len()));
            let taken = std::mem::replace(&mut numbers, rest);
            (!taken.is_empty()).then_some(taken)
        })
        .collect();
        let answered = workers.map(runs, |run| {
            let mut scratch = WeightScratch::default();
            let block = |block| weights.answer_block(key, &inputs, secrets, block, &mut scratch);
            Ok::<_, InferenceError>(run.into_iter().map(block).collect::<Vec<_>>())
        })?;
        blocks.extend(answered.into_iter().flatten());
    }
    Ok(LinearAnswer::assemble(layout, blocks)?)
}

/// Everything the server sends after the corrections, part after part.
struct Offering<'a, S> {
    connection: &'a mut Connection<S>,
    offset: &'a Offset,
    key: HashKey,
    counter: HashCounter,
    labels: ZeroLabels<'a>,
    seeds: Generator,
    coins: Generator,
    workers: &'a Workers,
    frame: Vec<u8>,
}

type Circuits = (Vec<Vec<PreparedPart>>, Option<PreparedGarbler>);

impl<S: Read + Write> Offering<'_, S> {
    fn everything(&mut self, plan: &Plan) -> Result<Circuits, InferenceError> {
        let mut rounds = Vec::new();
        for jobs in plan.rounds() {
            let mut prepared = Vec::new();
            for part in jobs.iter().flat_map(|job| &job.parts) {
                prepared.push(match part {
                    Part::Garbled(part) => PreparedPart::Garbled(self.garbled(part)?),
                    Part::Truncated(part) => PreparedPart::Truncated(self.truncated(part)?),
                });
            }
            rounds.push(prepared);
        }
        let argmax = plan.argmax().map(|part| self.garbled(part)).transpose()?;
        Ok((rounds, argmax.and_then(|mut chunks| chunks.pop())))
    }

    fn garbled(&mut self, part: &GarbledPart) -> Result<Vec<PreparedGarbler>, InferenceError> {
        let circuit = part.layer.circuit();
        let mut counters = self.counter.take(part.layer.hash_count())?;
        let garblers = part.layer.garblers(self.key, &mut counters, &mut self.seeds)?;
        let mut prepared = Vec::with_capacity(garblers.len());
        let mut garblers = garblers.into_iter();
        self.connection.begin(Kind::Garbled, part.layer.table_bytes())?;
        loop {
            let start = Instant::now();
            let mut group = Vec::new();
            for garbler in garblers.by_ref().take(self.workers.chunks_at_once()) {
                let labels = self.labels.take(circuit.client_wires() * garbler.lanes())?;
                group.push((garbler, labels));
            }
            self.connection.spent(Work::Transfer, start);
            if group.is_empty() {
                return Ok(prepared);
            }
            let start = Instant::now();
            let lengths: Vec<_> =
                group.iter().map(|(garbler, _)| circuit.table_bytes(garbler.lanes())).collect();
            self.frame.resize(lengths.iter().sum(), 0);
            let mut rest = self.frame.as_mut_slice();
            let mut items = Vec::with_capacity(group.len());
            for ((garbler, labels), length) in group.into_iter().zip(lengths) {
                let (tables, others) = rest.split_at_mut(length);
                rest = others;
                items.push((garbler, labels, tables));
            }
            let (workers, offset) = (self.workers, self.offset);
            prepared.extend(workers.map(items, |(garbler, labels, tables)| {
                workers.with_workspace(|space| garbler.garble_into(offset, &labels, tables, space))
            })?);
            self.connection.spent(Work::Garbling, start);
            self.connection.send_piece(&self.frame)?;
        }
    }

    fn truncated(&mut self, part: &TruncatedPart) -> Result<OfferedTruncation, InferenceError> {
        let start = Instant::now();
        let labels = self.labels.take(part.count())?;
        let mut counters = self.counter.take(part.hash_count())?;
        let (offer, offered) = OfferedTruncation::new(
            part.shape,
            self.key,
            &mut counters,
            self.offset,
            &labels,
            &mut self.coins,
        )?;
        let bytes = offer.to_bytes(&part.shape);
        self.connection.spent(Work::Truncation, start);
        self.connection.send(Kind::Truncation, &bytes)?;
        Ok(offered)
    }
}
