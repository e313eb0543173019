//! The client's offline work: its share of every value, before there is an image.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::he::{ClientKey, Halves, LayerUniform, LinearAnswer, LinearRequest, RequestSecrets};
use crypto::ot::TreeSums;
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::ModelOperation;
use network::walk::{StepId, ValueId};

use super::messages::{ClientWords, ServerWords};
use crate::InferenceError;
use crate::client::{PreparedClient, ShareRecord};
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing, Party, WorkTimes};
use crate::labels::{ExpandedLabels, ReceivedLabels, ZeroLabels};
use crate::nonlinear::{ClientTools, OwnValues, PreparedClientPart};
use crate::plan::{JobId, PartId, Plan};
use crate::roots::fresh_seed;
use crate::setup::client::ClientSession;
use crate::shares::Shares;
use crate::transcript::Work;
use crate::workers::Workers;

/// The client while it prepares one inference.
pub(crate) struct PreparingClient<'a> {
    session: &'a mut ClientSession,
    workers: &'a Workers,
    plan: Arc<Plan>,
    inference: InferenceId,
    /// One of its own for each inference, forgotten at its end: nothing that is found later opens it.
    root: Seed,
    /// For each ring, drawn for this inference.
    keys: Vec<ClientKey>,
    /// Which halves the answers have.
    halves: Halves,
    shares: Shares,
    /// Fresh uniform words for every value that an interactive step makes; reduced to whatever ring is needed.
    blinds: Vec<Secret<Vec<u64>>>,
    /// How many flights have been answered.
    flight: usize,
    expanded: Option<ExpandedLabels>,
    labels: Option<ReceivedLabels>,
    key: Option<HashKey>,
    counter: HashCounter,
    /// Of the transfers in which the server chooses; the key is the client's.
    reverse_labels: ZeroLabels,
    reverse_key: HashKey,
    reverse_counter: HashCounter,
    /// By part, what it says to the offers.
    advances: Vec<Vec<u8>>,
    parts: Vec<Box<dyn PreparedClientPart>>,
    times: WorkTimes,
}

impl<'a> PreparingClient<'a> {
    pub(crate) fn new(
        session: &'a mut ClientSession,
        workers: &'a Workers,
        (inference, halves): (InferenceId, Halves),
    ) -> Result<Self, InferenceError> {
        let plan = Arc::clone(&session.plan);
        let root = fresh_seed()?;
        let scope = Scope { session: session.id, inference, step: 0, direction: Direction::ClientToServer };
        let mut preparing = Self {
            shares: Shares::of_outline(plan.outline()),
            reverse_labels: ZeroLabels::new(plan.reverse_count()),
            reverse_key: HashKey::random(&mut root.derive(domain::GATE_HASH_KEY, &scope).generator()),
            reverse_counter: HashCounter::new(),
            advances: Vec::new(),
            halves,
            session,
            workers,
            plan,
            inference,
            root,
            keys: Vec::new(),
            blinds: Vec::new(),
            flight: 0,
            expanded: None,
            labels: None,
            key: None,
            counter: HashCounter::new(),
            parts: Vec::new(),
            times: WorkTimes::default(),
        };
        preparing.draw_blinds()?;
        preparing.follow_local_steps()?;
        Ok(preparing)
    }

    fn scope(&self, step: u32) -> Scope {
        let (session, inference) = (self.session.id, self.inference);
        Scope { session, inference, step, direction: Direction::ClientToServer }
    }

    /// The client's share of the image and of all that interactive steps make is its own choice.
    fn draw_blinds(&mut self) -> Result<(), InferenceError> {
        let plan = Arc::clone(&self.plan);
        let outline = plan.outline();
        let mut generator = self.root.derive(domain::BLIND, &self.scope(0)).generator();
        let image = words(outline.input.scalars() as usize, &mut generator);
        self.shares.set(ValueId::IMAGE, RingVector::from_unsigned(plan.image_width(), image.expose()));
        for (id, step) in outline.numbered_steps() {
            let is_fresh = step.operation.is_interactive();
            let fresh = words(if is_fresh { step.shape.scalars() as usize } else { 0 }, &mut generator);
            if is_fresh {
                let width = RingWidth::new(step.ring_bits)?;
                self.shares.set(id.output(), RingVector::from_unsigned(width, fresh.expose()));
            }
            self.blinds.push(fresh);
        }
        Ok(())
    }

    /// Follows what the answers so far allow.
    fn follow_local_steps(&mut self) -> Result<(), InferenceError> {
        let start = Instant::now();
        for id in &self.plan.schedule().flights[self.flight].local {
            self.shares.follow(self.plan.outline(), *id)?;
        }
        self.times.spent(Work::Linear, start);
        Ok(())
    }

    /// Draws the key for a ring; what the server gets of it.
    fn public_key(&mut self, ring: usize) -> Vec<u8> {
        let start = Instant::now();
        let (parameters, scope) = (&self.plan.parameters()[ring], self.scope(ring as u32));
        let key = ClientKey::generate(parameters, &self.root, &scope);
        let bytes = key.public_key(&self.session.seed, &self.root, &scope).to_bytes(parameters);
        self.keys.push(key);
        self.times.spent(Work::Homomorphic, start);
        bytes
    }

    /// Encrypts the client's share of a linear layer's input, ciphertext by ciphertext.
    fn request(&mut self, id: JobId) -> Result<Vec<u8>, InferenceError> {
        let start = Instant::now();
        let job = self.plan.job(id);
        let step = self.plan.outline().step(job.step);
        let secrets = RequestSecrets::derive(&self.root, &self.scope(scope_step(job.step)));
        let width = RingWidth::new(step.ring_bits)?;
        let input = Share::new(self.shares.of(step.inputs[0]).narrowed(width)?);
        let blinds = Secret::new(input.expose().to_unsigned());
        let (key, uniform) = (&self.keys[job.group], self.session.uniform(job.step));
        let numbers = (0..job.layout.input_ciphertexts()).collect();
        let encrypt =
            |number| key.encrypt_ciphertext(&job.layout, &uniform, blinds.expose(), &secrets, number);
        let request = LinearRequest::assemble(&job.layout, self.workers.divide(numbers, encrypt)?)?;
        let bytes = request.to_bytes(&job.layout);
        self.times.spent(Work::Homomorphic, start);
        Ok(bytes)
    }

    /// Takes W r - s, ciphertext by ciphertext, and brings it to the scale of the layer's output.
    fn take_answer(&mut self, id: JobId, bytes: &[u8]) -> Result<(), InferenceError> {
        let start = Instant::now();
        let job = self.plan.job(id);
        let mut answer = LinearAnswer::from_bytes(&job.layout, self.halves, bytes)?;
        if let Some(came) = answer.take_second_halves() {
            self.session.halves.take(id, came);
        }
        let second = self.session.halves.of(id);
        let (key, layout) = (&self.keys[job.group], &job.layout);
        let ciphertexts = answer.ciphertexts().iter().enumerate().collect();
        let decrypt = |(index, ciphertext)| key.decrypt_ciphertext(layout, second, index, ciphertext);
        let values = self.workers.divide(ciphertexts, decrypt)?;
        let mut words = Secret::new(vec![0; layout.shape().output_values()]);
        for (index, values) in values.iter().enumerate() {
            layout.scatter(index, values.expose(), words.expose_mut());
        }
        self.times.spent(Work::Homomorphic, start);
        let step = self.plan.outline().step(job.step);
        let ModelOperation::Linear { channel_shifts, .. } = &step.operation else {
            unreachable!("the plan lists layers with weights")
        };
        let mut share = RingVector::from_unsigned(RingWidth::new(step.ring_bits)?, words.expose());
        let planes: Vec<_> = channel_shifts.iter().map(|shift| (u32::from(*shift), 0)).collect();
        share.shift_planes(&planes)?;
        self.shares.set(job.step.output(), share);
        Ok(())
    }

    /// Does the part of the oblivious transfers that needs no choices.
    fn expand_labels(&mut self) -> Result<ExpandedLabels, InferenceError> {
        let start = Instant::now();
        let transfers = self.plan.transfer_count();
        let labels = ExpandedLabels::expand(&mut self.session.receiver, transfers, self.workers)?;
        self.times.spent(Work::Transfer, start);
        Ok(labels)
    }

    /// Chooses labels for the bits of all shares that enter circuits and truncations.
    fn corrections(&mut self) -> Result<Vec<u8>, InferenceError> {
        let expanded = match self.expanded.take() {
            Some(expanded) => expanded,
            None => self.expand_labels()?,
        };
        let start = Instant::now();
        let mut choices = Secret::new(Vec::with_capacity(self.plan.transfer_count() / 8));
        for planned in self.plan.parts() {
            let share = self.shares.of(planned.input);
            let blinds = planned.step.map_or(&[][..], |StepId(step)| self.blinds[step].expose());
            planned.part.choose(OwnValues { share, blinds }, choices.expose_mut())?;
        }
        let (corrections, labels) = expanded.choose(choices.expose())?;
        self.labels = Some(labels);
        self.times.spent(Work::Transfer, start);
        Ok(corrections)
    }

    fn accept(&mut self, id: PartId, offer: &mut dyn Incoming) -> Result<(), InferenceError> {
        let planned = self.plan.part(id);
        let (Some(key), Some(labels)) = (self.key, &mut self.labels) else {
            unreachable!("the plan lists offers after the key and the corrections")
        };
        let share = self.shares.of(planned.input);
        let blinds = planned.step.map_or(&[][..], |StepId(step)| self.blinds[step].expose());
        let mut tools = ClientTools {
            key,
            counter: &mut self.counter,
            labels,
            reverse: self.session.reverse.as_mut(),
            reverse_labels: &mut self.reverse_labels,
            reverse_key: self.reverse_key,
            reverse_counter: &mut self.reverse_counter,
            reverse_offset: &self.session.reverse_offset,
            workers: self.workers,
            advance: Vec::new(),
        };
        let part = Arc::clone(&planned.part);
        self.parts.push(part.accept(OwnValues { share, blinds }, &mut tools, offer)?);
        self.advances.push(tools.advance);
        Ok(())
    }

    /// What is left when all messages have crossed.
    pub(crate) fn finish(mut self, records: bool) -> (PreparedClient, WorkTimes) {
        let record = records.then(|| self.record());
        let prepared = PreparedClient {
            made_for: self.session.made_for(),
            session: self.session.id,
            inference: self.inference,
            logits: Share::new(self.shares.of(self.plan.outline().output()).clone()),
            image_blind: self.shares.take(ValueId::IMAGE),
            parts: self.parts,
            record,
        };
        (prepared, self.times)
    }

    fn record(&self) -> ShareRecord {
        let values = (0..self.plan.outline().value_count()).map(ValueId);
        ShareRecord {
            session: self.session.id,
            inference: self.inference,
            relus: self.plan.relus(),
            shares: values.map(|value| self.shares.of(value).to_unsigned()).collect(),
        }
    }
}

impl Party for PreparingClient<'_> {
    type Said = ClientWords;
    type Heard = ServerWords;

    fn say(&mut self, _: usize, words: ClientWords, to: &mut dyn Outgoing) -> Result<(), InferenceError> {
        match words {
            ClientWords::PublicKey(ring) => to.piece(&self.public_key(ring)),
            ClientWords::Request(job) => to.piece(&self.request(job)?),
            ClientWords::Corrections => to.piece(&self.corrections()?),
            ClientWords::ReverseKey => to.piece(&self.reverse_key.to_bytes()),
            ClientWords::Advance(PartId(part)) => to.piece(&std::mem::take(&mut self.advances[part])),
        }
    }

    fn hear(
        &mut self,
        _: usize,
        words: ServerWords,
        bytes: usize,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError> {
        match words {
            ServerWords::Answer(job) => self.take_answer(job, &from.piece(bytes)?)?,
            ServerWords::HashKey => {
                let key = from.piece(bytes)?;
                self.key = key.first_chunk().map(|key| HashKey::from_bytes(*key));
            }
            ServerWords::ReverseSums => {
                self.session.finish_reverse(&TreeSums::from_bytes(&from.piece(bytes)?)?);
            }
            ServerWords::ReverseCorrections => self.reverse_labels.correct(from.piece(bytes)?),
            ServerWords::Offer(part) => self.accept(part, from)?,
        }
        Ok(())
    }

    fn after_saying(&mut self, words: ClientWords) -> Result<(), InferenceError> {
        // The server is busy with its answers, and this needs none of them.
        if matches!(words, ClientWords::Request(_)) && self.flight == 0 {
            self.expanded = Some(self.expand_labels()?);
        }
        Ok(())
    }

    fn after_hearing(&mut self, words: ServerWords) -> Result<(), InferenceError> {
        if let ServerWords::Answer(_) = words {
            self.flight += 1;
            self.follow_local_steps()?;
        }
        Ok(())
    }
}

/// The number of a layer in the scopes of its secrets; 0 belongs to the inference as a whole.
pub(super) fn scope_step(step: StepId) -> u32 {
    step.output().0 as u32
}

impl ClientSession {
    /// The uniform halves of a layer's ciphertexts.
    fn uniform(&self, step: StepId) -> LayerUniform {
        LayerUniform::new(&self.seed, scope_step(step))
    }
}

fn words(count: usize, generator: &mut Generator) -> Secret<Vec<u64>> {
    Secret::new((0..count).map(|_| generator.next_u64()).collect())
}
