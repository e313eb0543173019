//! The second half of the client's offline work: labels for the bits of its shares, circuits, truncation offers.

use std::io::{Read, Write};
use std::time::Instant;

use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::WireLabel;
use crypto::garble::messages::GarbledChunk;
use crypto::garble::truncate::{PreparedTruncation, TruncationOffer};
use crypto::ring::RingVector;
use crypto::secret::Secret;

use super::shares::ClientShares;
use crate::InferenceError;
use crate::client::{Client, PreparedPart};
use crate::labels::ExpandedLabels;
use crate::plan::{GarbledPart, Part, Plan, TruncatedPart};
use crate::transcript::{Kind, Phase, Work};

pub(super) type Circuits = (Vec<Vec<PreparedPart>>, Option<PreparedEvaluator>);

/// Chooses labels for the bits of all shares and receives circuits and truncation offers.
pub(super) fn receive<S: Read + Write>(
    client: &mut Client<S>,
    plan: &Plan,
    shares: &ClientShares<'_>,
    labels: ExpandedLabels,
) -> Result<Circuits, InferenceError> {
    let start = Instant::now();
    let choices = choices(plan, shares)?;
    if choices.expose().is_empty() {
        return Ok((plan.rounds().iter().map(|_| Vec::new()).collect(), None));
    }
    let (corrections, labels) = labels.choose(choices.expose())?;
    client.connection.spent(Work::Transfer, start);
    client.connection.send(Kind::Transfer, &corrections)?;
    client.connection.flush()?;
    drop(corrections);

    let key = HashKey::from_bytes(client.connection.receive_array(Kind::Garbled)?);
    Receiving { client, key, counter: HashCounter::new(), labels: labels.expose() }.everything(plan, shares)
}

/// The bits of all shares that enter circuits and truncations, part after part.
fn choices(plan: &Plan, shares: &ClientShares<'_>) -> Result<Secret<Vec<u8>>, InferenceError> {
    let mut choices = Secret::new(Vec::with_capacity(plan.transfer_count() / 8));
    for job in plan.rounds().iter().flatten() {
        let input = Secret::new(shares.of(job.input).to_unsigned());
        for part in &job.parts {
            match part {
                Part::Garbled(part) => choose_garbled(part, input.expose(), choices.expose_mut())?,
                Part::Truncated(part) => {
                    let input = Secret::new(part.gather(input.expose()));
                    choices.expose_mut().extend(part.shape.choices(input.expose()));
                }
            }
        }
    }
    if let Some(part) = plan.argmax() {
        let logits = Secret::new(shares.of(plan.outline().output()).to_unsigned());
        choose_garbled(part, logits.expose(), choices.expose_mut())?;
    }
    Ok(choices)
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
    fn everything(mut self, plan: &Plan, shares: &ClientShares<'_>) -> Result<Circuits, InferenceError> {
        let mut rounds = Vec::new();
        for jobs in plan.rounds() {
            let mut prepared = Vec::new();
            for job in jobs {
                let blinds = shares.blinds[job.step].expose();
                for part in &job.parts {
                    prepared.push(match part {
                        Part::Garbled(part) => self.garbled(part, blinds)?,
                        Part::Truncated(part) => self.truncated(part, shares.of(job.input), blinds)?,
                    });
                }
                let bytes = self.client.connection.transcript().bytes(Phase::Offline);
                self.client.watcher.layer_done(plan, job.step, bytes);
            }
            rounds.push(prepared);
        }
        let argmax = plan.argmax().map(|part| self.chunks(part)).transpose()?;
        Ok((rounds, argmax.and_then(|mut chunks| chunks.pop())))
    }

    fn take_labels(&mut self, count: usize) -> Vec<WireLabel> {
        let (taken, rest) = self.labels.split_at(count.next_multiple_of(8));
        self.labels = rest;
        taken[..count].iter().map(|label| WireLabel::from(*label)).collect()
    }

    fn chunks(&mut self, part: &GarbledPart) -> Result<Vec<PreparedEvaluator>, InferenceError> {
        let circuit = part.layer.circuit();
        let mut counters = self.counter.take(part.layer.hash_count())?;
        let mut prepared = Vec::with_capacity(part.layer.chunk_count());
        for evaluator in part.layer.evaluators(self.key, &mut counters)? {
            let lanes = evaluator.lanes();
            let bytes = self.client.connection.receive(Kind::Garbled, circuit.table_bytes(lanes))?;
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
