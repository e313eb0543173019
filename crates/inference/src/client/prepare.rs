//! The client's offline work: its share of every value, before there is an image.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::domain;
use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::WireLabel;
use crypto::garble::messages::GarbledChunk;
use crypto::garble::truncate::{PreparedTruncation, TruncationOffer};
use crypto::he::{LinearAnswer, LinearRequest, RequestSecrets};
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::{ModelOperation, ModelOutline};
use network::walk::ValueId;

use super::kept::agreed_made_for;
use super::{Client, PreparedClient, PreparedPart, ShareRecord};
use crate::InferenceError;
use crate::labels::choose;
use crate::local;
use crate::plan::{GarbledPart, LinearJob, Part, Plan, TruncatedPart};
use crate::transcript::{Kind, Phase, Work};

pub(super) fn run<S: Read + Write>(
    client: &mut Client<S>,
    inference: InferenceId,
    records: bool,
) -> Result<PreparedClient, InferenceError> {
    let plan = Arc::clone(&client.plan);
    let scope = |step: usize| Scope {
        session: client.session,
        inference,
        step: step as u32,
        direction: Direction::ClientToServer,
    };
    // A root seed of its own for each inference, forgotten at its end: nothing that is found later opens it.
    let root = Seed::from_system()?;
    let mut generator = root.derive(domain::BLIND, &scope(0)).generator();
    let mut shares = ClientShares::new(plan.outline(), &mut generator)?;
    for flight in 0..plan.flight_count() {
        let jobs: Vec<_> = plan.linear().iter().filter(|job| job.flight == flight).collect();
        for job in &jobs {
            let step = &plan.outline().steps[job.step];
            let input = Share::new(shares.of(step.inputs[0]).narrowed(RingWidth::new(step.ring_bits)?)?);
            let blinds = Secret::new(input.expose().to_unsigned());
            let start = Instant::now();
            let secrets = RequestSecrets::derive(&root, &scope(job.step + 1));
            let key = &client.keys[job.group];
            let numbers = (0..job.layout.input_ciphertexts()).collect();
            let encrypt = |number| key.encrypt_ciphertext(&job.layout, blinds.expose(), &secrets, number);
            let request = LinearRequest::assemble(&job.layout, client.workers.map(numbers, encrypt)?)?;
            let bytes = request.to_bytes(&job.layout);
            debug_assert_eq!(bytes.len(), LinearRequest::length(&job.layout));
            client.connection.spent(Work::Homomorphic, start);
            client.connection.send(Kind::Homomorphic, &bytes)?;
        }
        client.connection.flush()?;
        for job in &jobs {
            let bytes = client.connection.receive(Kind::Homomorphic, LinearAnswer::length(&job.layout))?;
            let start = Instant::now();
            let answer = LinearAnswer::from_bytes(&job.layout, &bytes)?;
            let share = decrypt(client, job, &answer)?;
            client.connection.spent(Work::Homomorphic, start);
            shares.set_linear(job.step, share.expose())?;
            client.watcher.layer_done(&plan, job.step, client.connection.transcript().bytes(Phase::Offline));
        }
        let start = Instant::now();
        shares.run_local_steps()?;
        client.connection.spent(Work::Linear, start);
    }
    let record = records.then(|| record(&plan, &shares));
    let (rounds, argmax) = receive_circuits(client, &plan, &shares)?;
    let logits = Share::new(shares.of(plan.outline().output()).clone());
    let image_blind = Share::new(shares.of(ValueId::IMAGE).clone());
    let (session, made_for) = (client.session, agreed_made_for(&client.agreement, plan.reveal()));
    Ok(PreparedClient { plan: made_for, session, inference, image_blind, rounds, logits, argmax, record })
}

/// The client's share of a linear layer's output, ciphertext by ciphertext.
fn decrypt<S>(
    client: &Client<S>,
    job: &LinearJob,
    answer: &LinearAnswer,
) -> Result<Secret<Vec<u64>>, InferenceError> {
    let (key, layout) = (&client.keys[job.group], &job.layout);
    let ciphertexts = answer.ciphertexts().iter().enumerate().collect();
    let decrypt = |(index, ciphertext)| key.decrypt_ciphertext(layout, index, ciphertext);
    let values = client.workers.map(ciphertexts, decrypt)?;
    let mut share = Secret::new(vec![0; layout.shape().output_values()]);
    for (index, values) in values.iter().enumerate() {
        layout.scatter(index, values.expose(), share.expose_mut());
    }
    Ok(share)
}

/// The client's share of every value, as far as it is known.
struct ClientShares<'a> {
    outline: &'a ModelOutline,
    values: Vec<Option<Share>>,
    /// Fresh uniform words for every value that a step with messages makes; reduced to whatever ring is needed.
    blinds: Vec<Secret<Vec<u64>>>,
}

impl<'a> ClientShares<'a> {
    fn new(outline: &'a ModelOutline, generator: &mut Generator) -> Result<Self, InferenceError> {
        let mut shares =
            Self { outline, values: (0..=outline.steps.len()).map(|_| None).collect(), blinds: Vec::new() };
        let width = RingWidth::new(outline.image_ring_bits)?;
        let image = words(outline.input.scalars() as usize, generator);
        shares.values[0] = Some(Share::new(RingVector::from_unsigned(width, image.expose())));
        for (index, step) in outline.steps.iter().enumerate() {
            let is_fresh =
                matches!(step.operation, ModelOperation::Activate { .. } | ModelOperation::Maximum { .. });
            let count = if is_fresh { step.shape.scalars() as usize } else { 0 };
            let fresh = words(count, generator);
            if is_fresh {
                let width = RingWidth::new(step.ring_bits)?;
                let share = RingVector::from_unsigned(width, fresh.expose());
                shares.values[index + 1] = Some(Share::new(share));
            }
            shares.blinds.push(fresh);
        }
        shares.run_local_steps()?;
        Ok(shares)
    }

    fn of(&self, value: ValueId) -> &RingVector {
        let share = self.values[value.0].as_ref();
        share.expect("the plan asks for shares in the order they become known").expose()
    }

    /// Takes W r - s and brings it to the scale of the step's output.
    fn set_linear(&mut self, index: usize, share: &[u64]) -> Result<(), InferenceError> {
        let step = &self.outline.steps[index];
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("the plan lists linear steps")
        };
        let share = RingVector::from_unsigned(RingWidth::new(step.ring_bits)?, share);
        let share = local::shift_channels(share, channel_shifts, step.shape)?;
        self.values[index + 1] = Some(Share::new(share));
        Ok(())
    }

    /// Follows every local step whose inputs are known.
    fn run_local_steps(&mut self) -> Result<(), InferenceError> {
        for (index, step) in self.outline.steps.iter().enumerate() {
            if self.values[index + 1].is_some() || !local::is_local(&step.operation) {
                continue;
            }
            let inputs: Option<Vec<&RingVector>> =
                step.inputs.iter().map(|input| self.values[input.0].as_ref().map(Share::expose)).collect();
            if let Some(inputs) = inputs {
                let value = local::apply(self.outline, step, &inputs)?;
                self.values[index + 1] = Some(Share::new(value));
            }
        }
        Ok(())
    }
}

fn words(count: usize, generator: &mut Generator) -> Secret<Vec<u64>> {
    Secret::new((0..count).map(|_| generator.next_u64()).collect())
}

fn record(plan: &Plan, shares: &ClientShares<'_>) -> ShareRecord {
    let mut record = ShareRecord::default();
    for job in plan.rounds().iter().flatten() {
        record.shares.push((job.step, shares.of(job.input).to_unsigned()));
    }
    record.shares.push((plan.outline().steps.len(), shares.of(plan.outline().output()).to_unsigned()));
    record
}

type Circuits = (Vec<Vec<PreparedPart>>, Option<PreparedEvaluator>);

/// Chooses labels for the bits of all shares and receives circuits and truncation offers.
fn receive_circuits<S: Read + Write>(
    client: &mut Client<S>,
    plan: &Plan,
    shares: &ClientShares<'_>,
) -> Result<Circuits, InferenceError> {
    let start = Instant::now();
    let mut choices = Vec::with_capacity(plan.transfer_count() / 8);
    for job in plan.rounds().iter().flatten() {
        let input = Secret::new(shares.of(job.input).to_unsigned());
        for part in &job.parts {
            match part {
                Part::Garbled(part) => choose_garbled(part, input.expose(), &mut choices)?,
                Part::Truncated(part) => {
                    let input = Secret::new(part.gather(input.expose()));
                    choices.extend(part.shape.choices(input.expose()));
                }
            }
        }
    }
    if let Some(part) = plan.argmax() {
        let logits = Secret::new(shares.of(plan.outline().output()).to_unsigned());
        choose_garbled(part, logits.expose(), &mut choices)?;
    }
    let choices = Secret::new(choices);
    if choices.expose().is_empty() {
        return Ok((plan.rounds().iter().map(|_| Vec::new()).collect(), None));
    }
    let (corrections, labels) = choose(&mut client.receiver, choices.expose())?;
    client.connection.spent(Work::Transfer, start);
    client.connection.send(Kind::Transfer, &corrections)?;
    client.connection.flush()?;
    drop(corrections);

    let key = HashKey::from_bytes(client.connection.receive_array(Kind::Garbled)?);
    let mut receiving = Receiving { client, key, counter: HashCounter::new(), labels: labels.expose() };
    let mut rounds = Vec::new();
    for jobs in plan.rounds() {
        let mut prepared = Vec::new();
        for job in jobs {
            let blinds = shares.blinds[job.step].expose();
            for part in &job.parts {
                prepared.push(match part {
                    Part::Garbled(part) => receiving.garbled(part, blinds)?,
                    Part::Truncated(part) => receiving.truncated(part, shares.of(job.input), blinds)?,
                });
            }
            let bytes = receiving.client.connection.transcript().bytes(Phase::Offline);
            receiving.client.watcher.layer_done(plan, job.step, bytes);
        }
        rounds.push(prepared);
    }
    let argmax = plan.argmax().map(|part| receiving.chunks(part)).transpose()?;
    Ok((rounds, argmax.and_then(|mut chunks| chunks.pop())))
}

fn choose_garbled(part: &GarbledPart, shares: &[u64], choices: &mut Vec<u8>) -> Result<(), InferenceError> {
    let inputs = Secret::new(part.client_inputs(shares));
    let arity = part.arity();
    for range in part.layer.chunks() {
        let values = &inputs.expose()[range.start * arity..range.end * arity];
        choices.extend(part.layer.circuit().choices(range.len(), values)?);
    }
    Ok(())
}

/// Offline messages of the server, part after part.
struct Receiving<'a, S> {
    client: &'a mut Client<S>,
    key: HashKey,
    counter: HashCounter,
    labels: &'a [u128],
}

impl<S: Read + Write> Receiving<'_, S> {
    fn take_labels(&mut self, count: usize) -> Vec<WireLabel> {
        let (taken, rest) = self.labels.split_at(count.next_multiple_of(8));
        self.labels = rest;
        taken[..count].iter().map(|label| WireLabel::from(*label)).collect()
    }

    fn chunks(&mut self, part: &GarbledPart) -> Result<Vec<PreparedEvaluator>, InferenceError> {
        let circuit = part.layer.circuit();
        let mut counters = self.counter.take(part.layer.hash_count())?;
        let mut prepared = Vec::with_capacity(part.layer.chunk_count());
        self.client.connection.expect(Kind::Garbled, part.layer.table_bytes())?;
        for evaluator in part.layer.evaluators(self.key, &mut counters)? {
            let lanes = evaluator.lanes();
            let bytes = self.client.connection.receive_piece(circuit.table_bytes(lanes))?;
            let tables = GarbledChunk::from_bytes(circuit, lanes, bytes)?;
            let labels = self.take_labels(circuit.client_wires() * lanes);
            prepared.push(evaluator.receive(tables, labels)?);
        }
        Ok(prepared)
    }

    fn garbled(&mut self, part: &GarbledPart, blinds: &[u64]) -> Result<PreparedPart, InferenceError> {
        let chunks = self.chunks(part)?;
        let blinds = part.outputs.iter().map(|position| blinds[*position as usize]).collect();
        Ok(PreparedPart::Garbled { chunks, blinds: Secret::new(blinds) })
    }

    fn truncated(
        &mut self,
        part: &TruncatedPart,
        input: &RingVector,
        blinds: &[u64],
    ) -> Result<PreparedPart, InferenceError> {
        let bytes = self.client.connection.receive(Kind::Truncation, part.offer_bytes())?;
        let offer = TruncationOffer::from_bytes(&part.shape, part.count(), &bytes)?;
        let labels = self.take_labels(part.count());
        let input = Secret::new(input.to_unsigned());
        let shares = Secret::new(part.gather(input.expose()));
        let mask = crate::plan::low_bits(part.shape.output_bits());
        let blinds =
            Secret::new(part.positions.iter().map(|at| blinds[*at as usize] & mask).collect::<Vec<_>>());
        let mut counters = self.counter.take(part.hash_count())?;
        Ok(PreparedPart::Truncated(PreparedTruncation::new(
            part.shape,
            self.key,
            &mut counters,
            &labels,
            shares.expose(),
            blinds.expose(),
            &offer,
        )?))
    }
}
