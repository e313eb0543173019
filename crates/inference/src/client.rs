//! The client: owns the image, learns the answer.
//!
//! `Client` (connected) prepares inferences; a [`PreparedClient`] serves exactly one and is spent by it.

mod kept;
mod prepare;
mod progress;
mod requests;
mod wishes;

use std::fmt;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::messages::ActiveLabels;
use crypto::garble::truncate::{PreparedTruncation, TruncationOpening};
use crypto::he::{ClientKey, PublicSeed};
use crypto::ot::base::ReceiverPoints;
use crypto::ot::extension::{CorrelatedReceiver, ReceiverSetup};
use crypto::random::{Direction, InferenceId, Seed, SessionId};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::image::Image;
use network::inference_model::ModelOutline;
use network::reference::Coins;
use zeroize::Zeroize;

use progress::Watcher;
pub use progress::{Progress, Watch};
pub use requests::LinkSpeed;
pub use wishes::{DEFAULT_MAX_MEMORY, Wishes};

use crate::InferenceError;
use crate::connection::Connection;
use crate::plan::{GarbledPart, NonlinearJob, Part, Plan, Reveal};
use crate::setup::hello::{Agreement, ClientHello, ModelName, NONCE_BYTES, ServerHello};
use crate::setup::{inference_id, plan_digest, session_id, session_scope};
use crate::transcript::{Kind, Phase, Work};
use crate::workers::Workers;

/// A client that is connected to a server.
pub struct Client<S> {
    connection: Connection<S>,
    plan: Arc<Plan>,
    model: ModelName,
    agreement: Agreement,
    session: SessionId,
    keys: Vec<ClientKey>,
    receiver: CorrelatedReceiver,
    prepared: u64,
    /// An error leaves the parties at different places of the stream; nothing may follow it.
    is_broken: bool,
    watcher: Watcher,
    workers: Workers,
}

/// What the client learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The logits, rounded as the model says.
    Logits(Vec<i64>),
    /// The class alone.
    Class(usize),
}

impl Answer {
    /// The class, the lowest of equals.
    pub fn class(&self) -> usize {
        match self {
            Self::Class(class) => *class,
            Self::Logits(logits) => {
                let best = logits.iter().copied().max().unwrap_or(0);
                logits.iter().position(|logit| *logit == best).unwrap_or(0)
            }
        }
    }
}

/// Offline material of the client for one inference. It has no copy and is spent by use, over the connection that made
/// it or over any other one to the same server.
#[derive(Debug)]
pub struct PreparedClient {
    /// What it was prepared for.
    plan: [u8; 32],
    session: SessionId,
    inference: InferenceId,
    /// Known to the client only.
    image_blind: Share,
    rounds: Vec<Vec<PreparedPart>>,
    /// The client's share of the logits.
    logits: Share,
    argmax: Option<PreparedEvaluator>,
    record: Option<ShareRecord>,
}

/// The client's shares of everything that is rounded, for the oracle that repeats the protocol's rounding.
#[derive(Default)]
pub struct ShareRecord {
    /// Per step, the shares of the value it reads; the last entry is that of the logits.
    pub shares: Vec<(usize, Vec<u64>)>,
}

impl fmt::Debug for ShareRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ShareRecord({} steps)", self.shares.len())
    }
}

impl Drop for ShareRecord {
    fn drop(&mut self) {
        self.shares.iter_mut().for_each(|(_, shares)| shares.zeroize());
    }
}

impl Coins for ShareRecord {
    fn client_share(&self, step: usize, scalar: usize) -> u64 {
        let found = self.shares.iter().find(|(recorded, _)| *recorded == step);
        found.map_or(0, |(_, shares)| shares[scalar])
    }
}

#[derive(Debug)]
enum PreparedPart {
    Garbled { chunks: Vec<PreparedEvaluator>, blinds: Secret<Vec<u64>> },
    Truncated(PreparedTruncation),
}

impl<S: Read + Write> Client<S> {
    /// Sets up a session with a server that has one model.
    ///
    /// # Errors
    /// As [`Client::connect_with`].
    pub fn connect(
        connection: Connection<S>,
        reveal: Reveal,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        let wishes = Wishes { reveal: Some(reveal), ..Wishes::default() };
        Self::connect_with(connection, &wishes, channel_binding)
    }

    /// Sets up a session: learns the outline, sends keys, makes base transfers.
    ///
    /// # Errors
    /// When the peer speaks another version, has another model, its outline is not usable or asks for too much, or the
    /// connection breaks. The server is told why where that helps it.
    pub fn connect_with(
        mut connection: Connection<S>,
        wishes: &Wishes,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        connection.enter(Phase::SetUp);
        let mut greeted = greet(&mut connection, wishes, channel_binding);
        if let Err(error) = &mut greeted {
            // The error is what counts, not whether the server heard of it.
            let _ = error.for_peer().map(|refusal| connection.refuse(&refusal));
        }
        let Greeted { plan, model, agreement, session, nonces } = greeted?;
        let root = Seed::from_system()?;
        let seed = PublicSeed::derive(&nonces.0, &nonces.1)?;
        let mut keys = Vec::new();
        for (number, parameters) in plan.parameters().iter().enumerate() {
            let scope = session_scope(session, Direction::ClientToServer, number as u32);
            let key = ClientKey::generate(parameters, &root, &scope);
            connection.send(Kind::SetUp, &key.public_key(&seed, &root, &scope).to_bytes(parameters))?;
            keys.push(key);
        }
        let mut generator = Seed::from_system()?.generator();
        let (point, waiting) = ReceiverSetup::start(session, &mut generator);
        connection.send(Kind::SetUp, &point.to_bytes())?;
        connection.flush()?;
        let points = connection.receive(Kind::SetUp, ReceiverPoints::BYTES)?;
        let (sums, receiver) = waiting.finish(&ReceiverPoints::from_bytes(&points)?, &mut generator)?;
        connection.send(Kind::SetUp, sums.to_bytes().as_ref())?;
        connection.flush()?;
        let watcher = Watcher::default();
        Ok(Self {
            connection,
            plan,
            model,
            agreement,
            session,
            keys,
            receiver,
            prepared: 0,
            is_broken: false,
            watcher,
            workers: Workers::alone(),
        })
    }

    /// Uses so many threads from here on.
    ///
    /// # Errors
    /// When the system does not give them.
    pub fn use_threads(&mut self, threads: NonZeroUsize) -> Result<(), InferenceError> {
        self.workers = Workers::new(threads)?;
        Ok(())
    }

    /// What both parties do.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The name of the model.
    pub fn model(&self) -> &ModelName {
        &self.model
    }

    /// What both parties agreed on: digests of outline and plan, the commitment to the weights.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// The bytes so far.
    pub fn connection(&self) -> &Connection<S> {
        &self.connection
    }

    /// From here on this is called for each layer whose offline work is done.
    pub fn watch(&mut self, watch: Watch) {
        self.watcher = Watcher(Some(watch));
    }

    /// Does the offline work for one inference.
    ///
    /// # Errors
    /// When the connection breaks or the peer's messages are malformed.
    pub fn prepare(&mut self) -> Result<PreparedClient, InferenceError> {
        self.prepare_with(false)
    }

    /// Like [`Client::prepare`], keeping the shares that decide about rounding. They are the client's own secrets:
    /// for tests and benchmarks that compare with the reference.
    ///
    /// # Errors
    /// As [`Client::prepare`].
    pub fn prepare_recorded(&mut self) -> Result<PreparedClient, InferenceError> {
        self.prepare_with(true)
    }

    fn prepare_with(&mut self, records: bool) -> Result<PreparedClient, InferenceError> {
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        self.connection.enter(Phase::Offline);
        let inference = inference_id(self.session, self.prepared);
        self.connection.concern(Some(inference));
        self.prepared += 1;
        let prepared = prepare::run(self, inference, records);
        let prepared = prepared.map_err(|error| self.tell(error))?;
        self.connection.concern(None);
        self.is_broken = false;
        Ok(prepared)
    }

    /// Does the online work: image in, answer out.
    ///
    /// # Errors
    /// When the image has another size, the connection breaks or the peer's messages are malformed. The prepared
    /// material is spent in any case, and after an error the session is over.
    pub fn classify(&mut self, prepared: PreparedClient, image: &Image) -> Result<Answer, InferenceError> {
        let mut answers = self.classify_batch(vec![(prepared, image)])?;
        Ok(answers.pop().expect("one image gives one answer"))
    }

    /// Does the online work for several images that share every round trip. The server must expect as many.
    ///
    /// # Errors
    /// As [`Client::classify`].
    pub fn classify_batch(
        &mut self,
        batch: Vec<(PreparedClient, &Image)>,
    ) -> Result<Vec<Answer>, InferenceError> {
        let made_for = kept::agreed_made_for(&self.agreement, self.plan.reveal());
        if batch.iter().any(|(prepared, _)| prepared.plan != made_for) {
            return Err(InferenceError::ForeignMaterial);
        }
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        let answers = self.classify_all(batch).map_err(|error| self.tell(error))?;
        self.is_broken = false;
        Ok(answers)
    }

    /// Lets the server hear why this is the end, where that helps it.
    fn tell(&mut self, error: InferenceError) -> InferenceError {
        if let Some(refusal) = error.for_peer() {
            // The error is what counts, not whether the server heard of it.
            let _ = self.connection.refuse(&refusal);
        }
        error
    }

    fn classify_all(&mut self, batch: Vec<(PreparedClient, &Image)>) -> Result<Vec<Answer>, InferenceError> {
        let plan = Arc::clone(&self.plan);
        let outline = plan.outline();
        for (_, image) in &batch {
            image.expect_shape(outline.input)?;
        }
        self.connection.enter(Phase::Online);
        let mut ends = Vec::with_capacity(batch.len());
        let mut material: Vec<_> = plan.rounds().iter().map(|_| Vec::with_capacity(batch.len())).collect();
        for (prepared, image) in batch {
            let width = RingWidth::new(outline.image_ring_bits)?;
            let pixels = Secret::new(outline.image.encode(image));
            let mut blinded = RingVector::from_signed(width, pixels.expose());
            // The server sees only this difference; the blind was drawn offline and stays with the client.
            blinded.subtract(prepared.image_blind.expose())?;
            self.connection.concern(Some(prepared.inference));
            self.connection.send(Kind::Values, &blinded.to_bytes())?;
            material.iter_mut().zip(prepared.rounds).for_each(|(round, own)| round.push(own));
            ends.push((prepared.inference, prepared.logits, prepared.argmax));
        }
        self.connection.flush()?;
        let mut workspace = Workspace::new(CpuFeatures::available());
        for (jobs, material) in plan.rounds().iter().zip(material) {
            let mut replies = Vec::new();
            for ((inference, ..), own) in ends.iter().zip(material) {
                self.connection.concern(Some(*inference));
                replies.push((*inference, self.round(jobs, own)?));
            }
            for (inference, replies) in replies {
                self.connection.concern(Some(inference));
                for (kind, reply) in replies {
                    self.connection.send(kind, &reply)?;
                }
            }
            self.connection.flush()?;
        }
        let answer = |(inference, logits, argmax)| {
            self.connection.concern(Some(inference));
            self.answer(&plan, &logits, argmax, &mut workspace)
        };
        let answers = ends.into_iter().map(answer).collect();
        self.connection.concern(None);
        answers
    }

    /// Receives and evaluates one image's part of a round; its replies wait for those of the others.
    fn round(
        &mut self,
        jobs: &[NonlinearJob],
        material: Vec<PreparedPart>,
    ) -> Result<Vec<(Kind, Vec<u8>)>, InferenceError> {
        let mut replies = Vec::new();
        let parts = jobs.iter().flat_map(|job| &job.parts);
        for (part, material) in parts.zip(material) {
            match (part, material) {
                (Part::Garbled(part), PreparedPart::Garbled { chunks, blinds }) => {
                    replies.push((Kind::Garbled, self.evaluate(part, chunks, &blinds)?));
                }
                (Part::Truncated(part), PreparedPart::Truncated(truncation)) => {
                    let bytes = self.connection.receive(Kind::Truncation, part.opening_bytes())?;
                    let start = Instant::now();
                    let opening = TruncationOpening::from_bytes(&part.shape, part.count(), &bytes)?;
                    replies.push((Kind::Truncation, truncation.reply(&opening)?.to_bytes()));
                    self.connection.spent(Work::Truncation, start);
                }
                _ => unreachable!("material is prepared part by part from the same plan"),
            }
        }
        Ok(replies)
    }

    /// Evaluates the chunks of a part as their labels come in.
    fn evaluate(
        &mut self,
        part: &GarbledPart,
        chunks: Vec<PreparedEvaluator>,
        blinds: &Secret<Vec<u64>>,
    ) -> Result<Vec<u8>, InferenceError> {
        let circuit = part.layer.circuit();
        let mut replied = Vec::with_capacity(part.layer.reply_bytes());
        let mut chunks = part.layer.chunks().zip(chunks);
        self.connection.expect(Kind::Garbled, part.layer.label_bytes())?;
        loop {
            let mut group = Vec::new();
            for (range, chunk) in chunks.by_ref().take(self.workers.chunks_at_once()) {
                let bytes = self.connection.receive_piece(circuit.label_bytes(range.len()))?;
                group.push((range, chunk, bytes));
            }
            if group.is_empty() {
                return Ok(replied);
            }
            let start = Instant::now();
            let replies = self.workers.map(group, |(range, chunk, bytes)| {
                let labels = ActiveLabels::from_bytes(circuit, range.len(), bytes)?;
                self.workers.with_workspace(|space| chunk.evaluate(&labels, &blinds.expose()[range], space))
            })?;
            replies.iter().for_each(|reply| replied.extend_from_slice(reply.as_bytes()));
            self.connection.spent(Work::Garbling, start);
        }
    }

    fn answer(
        &mut self,
        plan: &Plan,
        logits: &Share,
        argmax: Option<PreparedEvaluator>,
        workspace: &mut Workspace,
    ) -> Result<Answer, InferenceError> {
        let outline = plan.outline();
        if let (Some(part), Some(evaluator)) = (plan.argmax(), argmax) {
            let circuit = part.layer.circuit();
            let bytes = self.connection.receive(Kind::Garbled, circuit.label_bytes(1))?;
            let labels = ActiveLabels::from_bytes(circuit, 1, bytes)?;
            let class = evaluator.decode(&labels, workspace)?;
            return Ok(Answer::Class(class[0] as usize));
        }
        let width = RingWidth::new(outline.ring_bits(outline.output()) - outline.logit_drop)?;
        let length = width.packed_bytes(outline.classes).unwrap_or(0);
        let bytes = self.connection.receive(Kind::Values, length)?;
        let mut values = RingVector::from_bytes(width, outline.classes, &bytes)?;
        let upper = Share::new(logits.expose().without_low_bits(outline.logit_drop)?);
        values.add(upper.expose())?;
        Ok(Answer::Logits(values.to_signed()))
    }
}

impl PreparedClient {
    /// The shares that decide about rounding, if they were asked for.
    pub fn take_record(&mut self) -> Option<ShareRecord> {
        self.record.take()
    }
}

/// What the two hellos come to.
struct Greeted {
    plan: Arc<Plan>,
    model: ModelName,
    agreement: Agreement,
    session: SessionId,
    nonces: ([u8; NONCE_BYTES], [u8; NONCE_BYTES]),
}

fn greet<S: Read + Write>(
    connection: &mut Connection<S>,
    wishes: &Wishes,
    channel_binding: &[u8],
) -> Result<Greeted, InferenceError> {
    let nonce: [u8; NONCE_BYTES] = *Seed::from_system()?.expose();
    let hello = ClientHello { nonce, wish: wishes.reveal, model: wishes.model.clone() };
    connection.send(Kind::SetUp, &hello.to_bytes())?;
    connection.flush()?;
    let limit = ServerHello::BYTES as u64 + wishes.max_outline_bytes();
    let hello = ServerHello::from_bytes(&connection.receive_at_most(Kind::SetUp, limit)?)?;
    let digest = *blake3::hash(&hello.outline).as_bytes();
    wishes.check_hello(&hello, &digest)?;
    let outline = ModelOutline::from_bytes(&hello.outline)?;
    wishes.check_outline(&outline)?;
    let plan = Arc::new(Plan::new(Arc::new(outline), hello.reveal)?);
    wishes.check_plan(&plan)?;
    let agreement = Agreement { outline: digest, commitment: hello.commitment, plan: plan_digest(&plan) };
    let session = session_id(&nonce, &hello.nonce, &agreement, hello.reveal, channel_binding);
    connection.send(Kind::SetUp, &agreement.to_bytes())?;
    connection.join(session);
    Ok(Greeted { plan, model: hello.model, agreement, session, nonces: (nonce, hello.nonce) })
}
