//! The server's offline work: answers under encryption, circuits, truncation offers.

mod answering;

use std::sync::Arc;

use crypto::domain;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::Offset;
use crypto::he::{AnswerSecrets, Halves, PublicKey};
use crypto::ot::TreeSums;
use crypto::ot::extension::CorrelatedReceiver;
use crypto::random::{Direction, Generator, InferenceId, Scope, Seed, SessionId};
use crypto::ring::{RingVector, RingWidth, Share};
use network::walk::StepId;

use super::messages::{ClientWords, ServerWords};
use crate::InferenceError;
use crate::clock::Instant;
use crate::conversation::{Incoming, Outgoing, Party, WorkTimes};
use crate::labels::{ReverseChoices, ZeroLabels};
use crate::nonlinear::{AdvanceTools, Offered, ServerTools};
use crate::plan::{JobId, PartId, Plan};
use crate::roots::fresh_seed;
use crate::server::{PreparedServer, ServedModel};
use crate::setup::server::ServerSession;
use crate::transcript::Work;
use crate::turns::Turns;
use crate::workers::Workers;
use answering::{Answering, Asked};

/// The server while it prepares one inference.
pub(crate) struct PreparingServer<'a> {
    model: Arc<ServedModel>,
    plan: Arc<Plan>,
    session: SessionId,
    inference: InferenceId,
    /// Where the masks come from, and nothing else: what a store may hold.
    masks_root: Seed,
    /// The client's, for each ring.
    keys: Vec<Arc<PublicKey>>,
    answering: Answering,
    /// By layer, as their answers are made.
    masks: Vec<Option<Share>>,
    offset: Arc<Offset>,
    tools: ServerTools<'a>,
    /// What the transfers of the other direction come from, until it is said.
    reverse: Option<&'a mut CorrelatedReceiver>,
    /// Where the server's shares of the signs come from.
    reverse_coins: Option<Generator>,
    reverse_sums: &'a mut Option<TreeSums>,
    /// The client's key of their hash.
    reverse_key: Option<HashKey>,
    reverse_counter: HashCounter,
    /// By part.
    parts: Vec<Option<Offered>>,
}

impl<'a> PreparingServer<'a> {
    pub(crate) fn new(
        session: &'a mut ServerSession,
        workers: &'a Arc<Workers>,
        (inference, halves): (InferenceId, Halves),
        turns: Option<Arc<dyn Turns>>,
    ) -> Result<Self, InferenceError> {
        let ServerSession { model, id, sender, offset, reverse, reverse_sums, .. } = session;
        let plan = Arc::clone(model.plan());
        // One of its own for each inference: nothing of one helps against another.
        let root = fresh_seed()?;
        let scope = Scope { session: *id, inference, step: 0, direction: Direction::ServerToClient };
        let tools = ServerTools {
            key: HashKey::random(&mut root.derive(domain::GARBLE_HASH_KEY, &scope).generator()),
            counter: HashCounter::new(),
            sender,
            labels: ZeroLabels::new(plan.transfer_count()),
            reverse: ReverseChoices::none(),
            seeds: root.derive(domain::GARBLE_LABELS, &scope).generator(),
            coins: root.derive(domain::TRUNCATION_BIT, &scope).generator(),
            offset,
            workers,
            times: WorkTimes::default(),
            frame: Vec::new(),
        };
        Ok(Self {
            answering: Answering::start(Arc::clone(model), halves, Arc::clone(workers), turns)?,
            masks: plan.linear().iter().map(|_| None).collect(),
            model: Arc::clone(model),
            plan,
            session: *id,
            inference,
            masks_root: root.derive(domain::MASKS_ROOT, &scope),
            keys: Vec::new(),
            offset: Arc::clone(offset),
            tools,
            reverse: reverse.as_mut(),
            reverse_coins: Some(root.derive(domain::GATE_MASK, &scope).generator()),
            reverse_sums,
            reverse_key: None,
            reverse_counter: HashCounter::new(),
            parts: Vec::new(),
        })
    }

    fn send_answer(&mut self, id: JobId, to: &mut dyn Outgoing) -> Result<(), InferenceError> {
        let (bytes, mask, time) = self.answering.next()?;
        self.tools.times.took(Work::Homomorphic, time);
        let step = self.plan.outline().step(self.plan.job(id).step);
        let width = RingWidth::new(step.ring_bits)?;
        self.masks[id.0] = Some(Share::new(RingVector::from_unsigned(width, mask.expose())));
        to.piece(&bytes)?;
        // The next answer takes a while.
        to.flush()
    }

    /// Draws the coins that decide about signs, and what lets the client send by them.
    fn draw_reverse(&mut self) -> Result<Vec<u8>, InferenceError> {
        let start = Instant::now();
        let coins = self.reverse_coins.take().expect("the plan lists the corrections once");
        let receiver = self.reverse.as_deref_mut().expect("the set-up made what the plan needs");
        let (corrections, choices) =
            ReverseChoices::draw(receiver, self.plan.reverse_count(), coins, self.tools.workers)?;
        self.tools.reverse = choices;
        self.tools.times.spent(Work::Transfer, start);
        Ok(corrections)
    }

    fn take_advance(&mut self, PartId(part): PartId, from: &mut dyn Incoming) -> Result<(), InferenceError> {
        let (Some(Offered::Waiting(offered)), Some(key)) = (self.parts[part].take(), self.reverse_key) else {
            unreachable!("the plan lists an advance once, after its offer and the key")
        };
        let (workers, times) = (self.tools.workers, &mut self.tools.times);
        let mut tools = AdvanceTools { key, counter: &mut self.reverse_counter, workers, times };
        self.parts[part] = Some(Offered::Ready(offered.take_advance(from, &mut tools)?));
        Ok(())
    }

    /// Hands a request to the thread that answers, with what its answer takes.
    fn ask(&mut self, job: JobId, bytes: Vec<u8>) {
        let planned = self.plan.job(job);
        let scope = answer_scope(self.session, self.inference, planned.step);
        self.answering.ask(Asked {
            job,
            bytes,
            key: Arc::clone(&self.keys[planned.group]),
            layer: self.model.layer_secrets(scope.step),
            secrets: AnswerSecrets::derive(&self.masks_root, &scope),
        });
    }

    /// What is left when all messages have crossed.
    pub(crate) fn finish(self) -> (PreparedServer, WorkTimes) {
        let masks = self.masks.into_iter();
        let ready = |part| match part {
            Some(Offered::Ready(part)) => part,
            _ => unreachable!("every offer that waits gets its advance"),
        };
        let prepared = PreparedServer {
            made_for: self.model.stored_digest(),
            session: self.session,
            inference: self.inference,
            masks_root: self.masks_root,
            offset: self.offset,
            masks: masks.map(|mask| mask.expect("every layer was answered")).collect(),
            parts: self.parts.into_iter().map(ready).collect(),
        };
        (prepared, self.tools.times)
    }
}

/// The scope of what a layer's answer is masked with.
pub(crate) fn answer_scope(session: SessionId, inference: InferenceId, step: StepId) -> Scope {
    let step = super::client::scope_step(step);
    Scope { session, inference, step, direction: Direction::ServerToClient }
}

impl Party for PreparingServer<'_> {
    type Said = ServerWords;
    type Heard = ClientWords;

    fn say(&mut self, _: usize, words: ServerWords, to: &mut dyn Outgoing) -> Result<(), InferenceError> {
        match words {
            ServerWords::Answer(job) => self.send_answer(job, to),
            ServerWords::ReverseSums => {
                let sums = self.reverse_sums.take().expect("the set-up made them, for the first inference");
                to.piece(sums.to_bytes().as_ref())
            }
            ServerWords::ReverseCorrections => to.piece(&self.draw_reverse()?),
            ServerWords::HashKey => to.piece(&self.tools.key.to_bytes()),
            ServerWords::Offer(id) => {
                let part = Arc::clone(&self.plan.part(id).part);
                self.parts.push(Some(part.offer(&mut self.tools, to)?));
                Ok(())
            }
        }
    }

    fn hear(
        &mut self,
        _: usize,
        words: ClientWords,
        bytes: usize,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError> {
        match words {
            ClientWords::PublicKey(ring) => {
                let parameters = &self.plan.parameters()[ring];
                let key = PublicKey::from_bytes(parameters, self.model.public_seed(), &from.piece(bytes)?)?;
                self.keys.push(Arc::new(key));
            }
            ClientWords::Request(job) => self.ask(job, from.piece(bytes)?),
            ClientWords::Corrections => self.tools.labels.correct(from.piece(bytes)?),
            ClientWords::ReverseKey => {
                let key = from.piece(bytes)?;
                self.reverse_key = key.first_chunk().map(|key| HashKey::from_bytes(*key));
            }
            ClientWords::Advance(part) => self.take_advance(part, from)?,
        }
        Ok(())
    }
}
