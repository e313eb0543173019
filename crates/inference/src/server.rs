//! The server: owns the weights, learns nothing.
//!
//! A [`ServedModel`] holds a model in the forms the two phases need and is shared by all sessions. A [`Server`] is one
//! session over a connection; a [`PreparedServer`] serves exactly one inference and is spent by it. What it says and
//! hears is in [`crate::setup`], `offline` and `online`; here bytes are moved.

mod requests;

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::he::{LayerSecrets, PreparedWeights, PublicSeed, WeightStorage};
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::{Depth, TreeSums};
use crypto::random::{Direction, InferenceId, Seed, SessionId};
use crypto::ring::geometry::ConvGeometry;
use crypto::ring::{PackedWeights, Share, Weights};
use network::digest::Digest;
use network::inference_model::{InferenceModel, WeightBits};

pub use crate::stored::server::StoredServer;

use crate::connection::Connection;
use crate::connection::refusal::{Refusal, RefusalCode};
use crate::conversation::Words;
use crate::nonlinear::PreparedServerPart;
use crate::offline::{self, server::PreparingServer};
use crate::online::{self, server::ClassifyingServer};
use crate::plan::{JobId, Plan, Terms};
use crate::setup::messages::{Agreement, ClientHello, ModelName, Understood};
use crate::setup::server::{Greeted, ServerSession};
use crate::setup::{commit_to_weights, halves_id, plan_digest, session_scope};
use crate::stored::server::model_digest;
use crate::transcript::{Kind, Phase};
use crate::turns::Turns;
use crate::workers::Workers;
use crate::{InferenceError, geometry};

/// A model ready to be served: planned, its weights laid out for both phases.
pub struct ServedModel {
    plan: Arc<Plan>,
    outline_bytes: Vec<u8>,
    agreement: Agreement,
    layers: Vec<ServedLayer>,
    /// Of what the uniform halves of all ciphertexts are made.
    seed: PublicSeed,
    /// Where what hides the second halves of all answers comes from, and nothing else. Known to the server only.
    zeros_root: Seed,
    /// What prepared material belongs to. Known to the server only: it would let anyone test a guess of the weights.
    digest: Digest,
}

struct ServedLayer {
    /// For the offline phase, under encryption.
    encrypted: PreparedWeights,
    /// For the online phase, on shares.
    packed: PackedWeights,
    biases: Vec<i64>,
}

/// How much memory the weights of the offline phase may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightMemory {
    /// All weights are kept transformed: the fastest.
    #[default]
    Everything,
    /// At most so many bytes in all; the rest is transformed anew for each inference.
    AtMost(usize),
}

impl ServedModel {
    /// Prepares a model for serving. The salt of its commitment is fresh, so that clients of another process see another.
    ///
    /// # Errors
    /// As [`ServedModel::with_salt`].
    pub fn new(
        model: &InferenceModel,
        terms: impl Into<Terms>,
        memory: WeightMemory,
    ) -> Result<Self, InferenceError> {
        Self::with_salt(model, terms, memory, Seed::from_system()?.expose())
    }

    /// Prepares a model for serving. The salt is a secret of the server, as the weights are: whoever has it reads them off the
    /// second halves that every client gets. With the same salt, clients need not get those again.
    ///
    /// # Errors
    /// When no plan keeps the promises for it.
    pub fn with_salt(
        model: &InferenceModel,
        terms: impl Into<Terms>,
        memory: WeightMemory,
        salt: &[u8; 32],
    ) -> Result<Self, InferenceError> {
        let outline = Arc::new(model.outline().clone());
        let plan = Arc::new(Plan::new(Arc::clone(&outline), terms)?);
        let mut room = match memory {
            WeightMemory::Everything => usize::MAX,
            WeightMemory::AtMost(bytes) => bytes,
        };
        let mut layers = Vec::new();
        let jobs = plan.linear().iter().zip(outline.linear_steps()).zip(model.layers());
        for ((job, (id, layer)), secret) in jobs {
            let wanted = PreparedWeights::bytes(&job.layout);
            let storage =
                if wanted <= room { WeightStorage::Everything } else { WeightStorage::AtMost(room) };
            room = room.saturating_sub(wanted);
            let geometry = geometry::layer(&layer, outline.shape(outline.step(id).inputs[0]))?;
            layers.push(ServedLayer {
                encrypted: PreparedWeights::new(&job.layout, &secret.weights, storage)?,
                packed: packed_weights(geometry, outline.weight_bits, &secret.weights)?,
                biases: secret.biases.clone(),
            });
        }
        let outline_bytes = outline.to_bytes();
        let agreement = Agreement {
            outline: Digest::of(&outline_bytes),
            commitment: commit_to_weights(model, salt),
            plan: plan_digest(&plan),
        };
        let digest = model_digest(model, &agreement, plan.terms());
        let halves_id = halves_id(&agreement);
        let scope = session_scope(SessionId(halves_id.0), Direction::ServerToClient, 0);
        let zeros_root = Seed::from_bytes(*salt).derive(domain::HE_ZERO_ROOT, &scope);
        let seed = PublicSeed::derive(halves_id.as_bytes());
        Ok(Self { outline_bytes, agreement, plan, layers, seed, zeros_root, digest })
    }

    /// What clients must agree with: digests of outline and plan, the commitment to the weights.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Memory that its weights take: what the plan says, but for those that are transformed for each answer.
    pub fn weight_bytes(&self) -> u64 {
        let spared = |layer: &ServedLayer| {
            PreparedWeights::bytes(layer.encrypted.layout()) - layer.encrypted.kept_bytes()
        };
        let spared: usize = self.layers.iter().map(spared).sum();
        self.plan.memory().server_weights.saturating_sub(spared as u64)
    }

    /// What both parties do.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// What prepared material of this model belongs to; a store keeps it beside the bytes.
    pub fn stored_digest(&self) -> Digest {
        self.digest
    }

    /// The outline as clients get it.
    pub(crate) fn outline_bytes(&self) -> &[u8] {
        &self.outline_bytes
    }

    /// Of what the uniform halves of all ciphertexts are made.
    pub(crate) fn public_seed(&self) -> &PublicSeed {
        &self.seed
    }

    /// What hides the second halves of a layer's answers, by its number in scopes.
    pub(crate) fn layer_secrets(&self, layer: u32) -> LayerSecrets {
        LayerSecrets::derive(&self.zeros_root, &self.seed, layer)
    }

    /// A layer's weights for computing under encryption.
    pub(crate) fn encrypted_weights(&self, job: JobId) -> &PreparedWeights {
        &self.layers[job.0].encrypted
    }

    /// A layer's weights and biases for computing on shares.
    pub(crate) fn shared_weights(&self, job: JobId) -> (&PackedWeights, &[i64]) {
        let layer = &self.layers[job.0];
        (&layer.packed, &layer.biases)
    }
}

/// Weights of at most 8 bits are kept as bytes, which the kernels like best. The outline decides, not the weights
/// themselves: the kernel shows in the time.
fn packed_weights(
    geometry: ConvGeometry,
    bits: WeightBits,
    weights: &[i16],
) -> Result<PackedWeights, InferenceError> {
    Ok(match bits {
        WeightBits::Eight => {
            let bytes: Vec<i8> = weights.iter().map(|weight| *weight as i8).collect();
            PackedWeights::new(geometry, Weights::Bytes(&bytes))?
        }
        WeightBits::Twelve => PackedWeights::new(geometry, Weights::Halves(weights))?,
    })
}

/// One session with one client.
pub struct Server<S> {
    connection: Connection<S>,
    session: ServerSession,
    workers: Arc<Workers>,
    turns: Option<Arc<dyn Turns>>,
}

/// Offline material of the server for one inference. It has no copy and is spent by use, over the connection that made
/// it or over any other one to the same client.
#[derive(Debug)]
pub struct PreparedServer {
    pub(crate) made_for: Digest,
    pub(crate) session: SessionId,
    pub(crate) inference: InferenceId,
    /// Where its masks come from, and nothing else of this inference. Known to the server only.
    pub(crate) masks_root: Seed,
    /// That of the session that made it: labels of two sessions never share one. Known to the server only.
    pub(crate) offset: Arc<Offset>,
    /// Masks of the linear layers' answers, in the rings of their outputs. Known to the server only.
    pub(crate) masks: Vec<Share>,
    pub(crate) parts: Vec<Box<dyn PreparedServerPart>>,
}

impl PreparedServer {
    /// What all its masks come from. It is the server's secret: for tests and benchmarks that compare with the reference
    /// ([`crate::verify::ProtocolCoins`]).
    pub fn mask_seed(&self) -> Seed {
        Seed::from_bytes(*self.masks_root.expose())
    }
}

impl<S: Read + Write> Server<S> {
    /// Sets up a session with a client that has just connected, for one model without a name.
    ///
    /// # Errors
    /// As [`Server::accept_with`].
    pub fn accept(
        connection: Connection<S>,
        model: Arc<ServedModel>,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        let choose = |name: &ModelName| {
            if name.as_str().is_empty() {
                return Ok((name.clone(), model));
            }
            Err(Refusal::new(RefusalCode::UnknownModel, "the only model here has no name; ask without one"))
        };
        Self::accept_with(connection, choose, channel_binding)
    }

    /// Sets up a session with a client that has just connected. The model it names is looked up by `choose`, which may
    /// refuse. A client with which it comes to nothing is told why.
    ///
    /// # Errors
    /// When the peer speaks another version, its keys are malformed, the parties derive different things, `choose`
    /// refuses, or the connection breaks.
    pub fn accept_with(
        mut connection: Connection<S>,
        choose: impl FnOnce(&ModelName) -> Result<(ModelName, Arc<ServedModel>), Refusal>,
        channel_binding: &[u8],
    ) -> Result<Self, InferenceError> {
        let session =
            connection.exchange(Phase::SetUp, |connection| set_up(connection, choose, channel_binding));
        let session = session.map_err(|error| connection.tell(error))?;
        Ok(Self { connection, session, workers: Arc::new(Workers::alone()), turns: None })
    }

    /// Uses so many threads from here on.
    ///
    /// # Errors
    /// When the system does not give them.
    pub fn use_threads(&mut self, threads: NonZeroUsize) -> Result<(), InferenceError> {
        self.workers = Arc::new(Workers::new(threads)?);
        Ok(())
    }

    /// From here on what computes beside the thread that has the connection does so in this session's turn. That thread
    /// itself has its turn already; its stream gives it up while it waits.
    pub fn take_turns(&mut self, turns: Arc<dyn Turns>) {
        self.turns = Some(turns);
    }

    /// The model of this session.
    pub fn model(&self) -> &Arc<ServedModel> {
        &self.session.model
    }

    /// How deep the trees of this session's transfers are.
    pub fn depth(&self) -> Depth {
        self.session.depth
    }

    /// Its name.
    pub fn name(&self) -> &ModelName {
        &self.session.name
    }

    /// The bytes so far.
    pub fn connection(&self) -> &Connection<S> {
        &self.connection
    }

    /// Does the offline work for one inference.
    ///
    /// # Errors
    /// When the connection breaks or the peer's messages are malformed.
    pub fn prepare(&mut self) -> Result<PreparedServer, InferenceError> {
        let Self { connection, session, workers, turns } = self;
        connection.exchange(Phase::Offline, |connection| {
            let inference = session.next_inference();
            connection.concern(Some(inference));
            let once = session.take_once();
            let messages = offline::messages::list(session.model.plan(), session.depth, once);
            let mut party = PreparingServer::new(session, workers, (inference, once.halves), turns.clone())?;
            connection.converse(&messages, Words::for_server, &[inference], &mut party, |_, _| {})?;
            let (prepared, times) = party.finish();
            connection.took(times);
            Ok(prepared)
        })
    }

    /// Does the online work of one inference.
    ///
    /// # Errors
    /// When the material is another model's, the connection breaks or the peer's messages are malformed. It is spent in
    /// any case, and after an error the session is over.
    pub fn classify(&mut self, prepared: PreparedServer) -> Result<(), InferenceError> {
        self.classify_batch(vec![prepared])
    }

    /// Does the online work of several inferences that share every round trip and every pass over the weights.
    ///
    /// # Errors
    /// As [`Server::classify`].
    pub fn classify_batch(&mut self, batch: Vec<PreparedServer>) -> Result<(), InferenceError> {
        let Self { connection, session, workers, .. } = self;
        let model = &session.model;
        // Each brings the offset of its own session, so they may come from any; but masks and circuits fit one model.
        if batch.iter().any(|prepared| prepared.made_for != model.digest) {
            return Err(InferenceError::ForeignMaterial);
        }
        connection.exchange(Phase::Online, |connection| {
            let inferences: Vec<_> = batch.iter().map(|prepared| prepared.inference).collect();
            let messages = online::messages::list(model.plan());
            let mut party = ClassifyingServer::new(Arc::clone(model), workers, batch);
            connection.converse(&messages, Words::for_server, &inferences, &mut party, |_, _| {})?;
            connection.took(party.finish());
            Ok(())
        })
    }
}

fn set_up<S: Read + Write>(
    connection: &mut Connection<S>,
    choose: impl FnOnce(&ModelName) -> Result<(ModelName, Arc<ServedModel>), Refusal>,
    channel_binding: &[u8],
) -> Result<ServerSession, InferenceError> {
    let hello = ClientHello::from_bytes(&connection.receive(Kind::SetUp, ClientHello::BYTES)?)?;
    let chosen = choose(&hello.model);
    if let Err(refusal) = &chosen {
        connection.refuse(refusal)?;
    }
    let (name, model) = chosen.map_err(|refusal| InferenceError::Declined { refusal })?;
    let (answer, greeted) = Greeted::answer(&hello, name, model)?;
    connection.send(Kind::SetUp, &answer.to_bytes())?;
    let theirs = Understood::from_bytes(&connection.receive(Kind::SetUp, Understood::BYTES)?)?;
    let agreed = greeted.hear(&theirs, channel_binding)?;
    connection.join(agreed.id);
    let point = SenderPoint::from_bytes(&connection.receive(Kind::SetUp, SenderPoint::BYTES)?)?;
    let (points, reverse_point, waiting) = agreed.hear(&point)?;
    connection.send(Kind::SetUp, points.to_bytes().as_ref())?;
    if let Some(point) = reverse_point {
        connection.send(Kind::SetUp, &point.to_bytes())?;
    }
    let sums = TreeSums::from_bytes(&connection.receive(Kind::SetUp, TreeSums::BYTES)?)?;
    let reverse_points = match waiting.reverses() {
        true => Some(ReceiverPoints::from_bytes(&connection.receive(Kind::SetUp, ReceiverPoints::BYTES)?)?),
        false => None,
    };
    waiting.hear(&sums, reverse_points.as_ref())
}
