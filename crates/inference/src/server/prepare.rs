//! The server's offline work: answers under encryption, circuits, truncation offers.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::channel;
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
use crate::plan::{GarbledPart, LinearJob, Part, Plan, TruncatedPart};
use crate::transcript::{Kind, Work};
use crate::workers::{Workers, pieces};

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
        return Ok(PreparedServer { session, masks, rounds, argmax: None });
    }
    let corrections = server.connection.receive(Kind::Transfer, correction_bytes(transfers))?;
    let key = HashKey::random(&mut root.derive(domain::GARBLE_HASH_KEY, &scope(0)).generator());
    server.connection.send(Kind::Garbled, &key.to_bytes())?;
    let mut offering = Offering {
        connection: &mut server.connection,
        offset: &server.offset,
        key,
        counter: HashCounter::new(),
        labels: ZeroLabels::new(&mut server.sender, &corrections, transfers, &server.workers),
        seeds: root.derive(domain::GARBLE_LABELS, &scope(0)).generator(),
        coins: root.derive(domain::TRUNCATION_BIT, &scope(0)).generator(),
        workers: &server.workers,
        frame: Vec::new(),
    };
    let (rounds, argmax) = offering.everything(&plan)?;
    drop(offering);
    server.connection.flush()?;
    Ok(PreparedServer { session, masks, rounds, argmax })
}

/// Answers flight after flight; the masks come back in the order of the linear steps.
fn answer_linear_layers<S: Read + Write>(
    server: &mut Server<S>,
    root: &Seed,
    scope: impl Fn(usize) -> Scope + Sync,
) -> Result<Vec<Share>, InferenceError> {
    let plan = Arc::clone(&server.model.plan);
    let secrets = |job: &LinearJob| AnswerSecrets::derive(root, &scope(job.step + 1));
    let mut masks: Vec<Option<Share>> = plan.linear().iter().map(|_| None).collect();
    for flight in 0..plan.flight_count() {
        let jobs: Vec<_> = plan.linear().iter().enumerate().filter(|(_, job)| job.flight == flight).collect();
        for (index, mask) in answer_flight(server, &jobs, &secrets)? {
            let width = RingWidth::new(plan.outline().steps[plan.linear()[index].step].ring_bits)?;
            masks[index] = Some(Share::new(RingVector::from_unsigned(width, mask.expose())));
        }
    }
    Ok(masks.into_iter().map(|mask| mask.expect("every linear step belongs to one flight")).collect())
}

type Masks = Vec<(usize, Secret<Vec<u64>>)>;

/// Computes answers while later requests arrive. All requests are received before the first answer is sent.
fn answer_flight<S: Read + Write>(
    server: &mut Server<S>,
    jobs: &[(usize, &LinearJob)],
    secrets: &(impl Fn(&LinearJob) -> AnswerSecrets + Sync),
) -> Result<Masks, InferenceError> {
    let Server { connection, model, keys, workers, .. } = server;
    let workers = &*workers;
    let (to_compute, requests) = channel::<Vec<u8>>();
    let (to_send, answers) = channel();
    let compute = move || -> Result<Masks, InferenceError> {
        let mut masks = Vec::with_capacity(jobs.len());
        for (&(index, job), bytes) in jobs.iter().zip(requests) {
            let start = Instant::now();
            let request = LinearRequest::from_bytes(&job.layout, &bytes)?;
            let weights = &model.layers[index].encrypted;
            let (answer, mask) = answer(workers, weights, &keys[job.group], &request, &secrets(job))?;
            masks.push((index, mask));
            // Whoever no longer listens has found the connection broken, and says so.
            let _ = to_send.send((answer.to_bytes(), start.elapsed()));
        }
        Ok(masks)
    };
    let move_bytes = || -> io::Result<()> {
        for (_, job) in jobs {
            let bytes = connection.receive(Kind::Homomorphic, LinearRequest::length(&job.layout))?;
            if to_compute.send(bytes).is_err() {
                break;
            }
        }
        drop(to_compute);
        for (answer, time) in answers {
            connection.took(Work::Homomorphic, time);
            connection.send(Kind::Homomorphic, &answer)?;
            connection.flush()?;
        }
        Ok(())
    };
    let (masks, moved) = workers.beside(compute, move_bytes)?;
    // An error of the computing side explains why there was nothing more to send.
    let masks = masks?;
    moved?;
    Ok(masks)
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
            let lengths = group.iter().map(|(garbler, _)| circuit.table_bytes(garbler.lanes()));
            let tables = pieces(&mut self.frame, lengths);
            let items = group.into_iter().zip(tables).collect();
            let (workers, offset) = (self.workers, self.offset);
            prepared.extend(workers.map(items, |((garbler, labels), tables)| {
                workers.with_workspace(|space| garbler.garble_into(offset, &labels, tables, space))
            })?);
            self.connection.spent(Work::Garbling, start);
            self.connection.send(Kind::Garbled, &self.frame)?;
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
