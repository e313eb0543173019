//! The client's offline work: its share of every value, before there is an image.

mod circuits;
mod shares;

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Instant;

use crypto::domain;
use crypto::he::{LinearAnswer, LinearRequest, RequestSecrets};
use crypto::random::{Direction, InferenceId, Scope, Seed};
use crypto::ring::{RingWidth, Share};
use crypto::secret::Secret;
use network::walk::ValueId;

use super::{Client, PreparedClient, ShareRecord};
use crate::InferenceError;
use crate::labels::ExpandedLabels;
use crate::plan::{LinearJob, Plan};
use crate::transcript::{Kind, Phase, Work};
use shares::ClientShares;

pub(super) fn run<S: Read + Write>(
    client: &mut Client<S>,
    inference: InferenceId,
    records: bool,
) -> Result<PreparedClient, InferenceError> {
    let plan = Arc::clone(&client.plan);
    let session = client.session;
    let scope =
        |step: usize| Scope { session, inference, step: step as u32, direction: Direction::ClientToServer };
    // A root seed of its own for each inference, forgotten at its end: nothing that is found later opens it.
    let root = Seed::from_system()?;
    let mut generator = root.derive(domain::BLIND, &scope(0)).generator();
    let mut shares = ClientShares::new(plan.outline(), &mut generator)?;
    let mut labels = None;
    for flight in 0..plan.flight_count() {
        let jobs: Vec<_> = plan.linear().iter().filter(|job| job.flight == flight).collect();
        for job in &jobs {
            let secrets = RequestSecrets::derive(&root, &scope(job.step + 1));
            send_request(client, &plan, job, &shares, &secrets)?;
        }
        client.connection.flush()?;
        if flight == 0 {
            // The server is busy with its answers, and this needs none of them.
            labels = Some(expand_labels(client, &plan)?);
        }
        for job in &jobs {
            receive_answer(client, &plan, job, &mut shares)?;
        }
        let start = Instant::now();
        shares.run_local_steps()?;
        client.connection.spent(Work::Linear, start);
    }
    let labels = match labels {
        Some(labels) => labels,
        None => expand_labels(client, &plan)?,
    };
    let record = records.then(|| record(&plan, &shares));
    let (rounds, argmax) = circuits::receive(client, &plan, &shares, labels)?;
    let logits = Share::new(shares.of(plan.outline().output()).clone());
    let image_blind = Share::new(shares.of(ValueId::IMAGE).clone());
    Ok(PreparedClient { session, image_blind, rounds, logits, argmax, record })
}

/// Encrypts the client's share of a linear layer's input, ciphertext by ciphertext.
fn send_request<S: Read + Write>(
    client: &mut Client<S>,
    plan: &Plan,
    job: &LinearJob,
    shares: &ClientShares<'_>,
    secrets: &RequestSecrets,
) -> Result<(), InferenceError> {
    let start = Instant::now();
    let step = &plan.outline().steps[job.step];
    let input = Share::new(shares.of(step.inputs[0]).narrowed(RingWidth::new(step.ring_bits)?)?);
    let blinds = Secret::new(input.expose().to_unsigned());
    let key = &client.keys[job.group];
    let numbers = (0..job.layout.input_ciphertexts()).collect();
    let encrypt = |number| key.encrypt_ciphertext(&job.layout, blinds.expose(), secrets, number);
    let request = LinearRequest::assemble(&job.layout, client.workers.map(numbers, encrypt)?)?;
    let bytes = request.to_bytes(&job.layout);
    debug_assert_eq!(bytes.len(), LinearRequest::length(&job.layout));
    client.connection.spent(Work::Homomorphic, start);
    Ok(client.connection.send(Kind::Homomorphic, &bytes)?)
}

fn receive_answer<S: Read + Write>(
    client: &mut Client<S>,
    plan: &Plan,
    job: &LinearJob,
    shares: &mut ClientShares<'_>,
) -> Result<(), InferenceError> {
    let bytes = client.connection.receive(Kind::Homomorphic, LinearAnswer::length(&job.layout))?;
    let start = Instant::now();
    let answer = LinearAnswer::from_bytes(&job.layout, &bytes)?;
    let share = decrypt(client, job, &answer)?;
    client.connection.spent(Work::Homomorphic, start);
    shares.set_linear(job.step, share.expose())?;
    client.watcher.layer_done(plan, job.step, client.connection.transcript().bytes(Phase::Offline));
    Ok(())
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

fn expand_labels<S: Read + Write>(
    client: &mut Client<S>,
    plan: &Plan,
) -> Result<ExpandedLabels, InferenceError> {
    let start = Instant::now();
    let labels = ExpandedLabels::expand(&mut client.receiver, plan.transfer_count(), &client.workers)?;
    client.connection.spent(Work::Transfer, start);
    Ok(labels)
}

fn record(plan: &Plan, shares: &ClientShares<'_>) -> ShareRecord {
    let mut record = ShareRecord::default();
    for job in plan.rounds().iter().flatten() {
        record.shares.push((job.step, shares.of(job.input).to_unsigned()));
    }
    record.shares.push((plan.outline().steps.len(), shares.of(plan.outline().output()).to_unsigned()));
    record
}
