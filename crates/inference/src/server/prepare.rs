//! The server's offline work: answers under encryption, circuits, truncation offers.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::cpu::CpuFeatures;
use crypto::domain;
use crypto::garble::Workspace;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::Offset;
use crypto::garble::truncate::OfferedTruncation;
use crypto::he::{AnswerSecrets, LinearRequest};
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed};
use crypto::ring::{RingVector, RingWidth, Share};

use super::{PreparedPart, PreparedServer, Server};
use crate::InferenceError;
use crate::connection::Connection;
use crate::labels::{ZeroLabels, correction_bytes};
use crate::plan::{GarbledPart, Part, Plan, TruncatedPart};
use crate::transcript::{Kind, Work};

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
        labels: ZeroLabels::new(&mut server.sender, &corrections, transfers),
        seeds: root.derive(domain::GARBLE_LABELS, &scope(0)).generator(),
        coins: root.derive(domain::TRUNCATION_BIT, &scope(0)).generator(),
        workspace: Workspace::new(CpuFeatures::available()),
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
            let (answer, mask) = weights.answer(&server.keys[job.group], &request, secrets)?;
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

/// Everything the server sends after the corrections, part after part.
struct Offering<'a, S> {
    connection: &'a mut Connection<S>,
    offset: &'a Offset,
    key: HashKey,
    counter: HashCounter,
    labels: ZeroLabels<'a>,
    seeds: Generator,
    coins: Generator,
    workspace: Workspace,
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
        for garbler in garblers {
            let lanes = garbler.lanes();
            let start = Instant::now();
            let labels = self.labels.take(circuit.client_wires() * lanes)?;
            self.connection.spent(Work::Transfer, start);
            let start = Instant::now();
            self.frame.resize(circuit.table_bytes(lanes), 0);
            prepared.push(garbler.garble_into(self.offset, &labels, &mut self.frame, &mut self.workspace)?);
            self.connection.spent(Work::Garbling, start);
            self.connection.send(Kind::Garbled, &self.frame)?;
        }
        Ok(prepared)
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
