//! The server: owns the weights, learns nothing.
//!
//! A [`ServedModel`] holds a model in the forms the two phases need and is shared by all sessions. A [`Server`] is one
//! session; a [`PreparedServer`] serves exactly one inference and is spent by it.

mod classify;
mod kept;
mod prepare;
mod requests;

use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use crypto::domain;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::label::Offset;
use crypto::garble::truncate::OfferedTruncation;
use crypto::he::{PreparedWeights, PublicKey, PublicSeed, WeightStorage};
use crypto::ot::TreeSums;
use crypto::ot::base::SenderPoint;
use crypto::ot::extension::{CorrelatedSender, SenderSetup};
use crypto::ot::values::CorrelationOffset;
use crypto::random::{Direction, InferenceId, Seed, SessionId};
use crypto::ring::geometry::{ConvGeometry, ConvShape, Extent};
use crypto::ring::{PackedWeights, Share, Weights};
use network::inference_model::{InferenceModel, LinearGeometry, WeightBits};
use network::shape::Shape;

pub use kept::KeptServer;

use crate::InferenceError;
use crate::connection::Connection;
use crate::connection::refusal::{Refusal, RefusalCode};
use crate::plan::{Plan, Reveal};
use crate::setup::hello::{Agreement, ClientHello, ModelName, NONCE_BYTES, ServerHello};
use crate::setup::{commit_to_weights, inference_id, plan_digest, session_id, session_scope};
use crate::transcript::{Kind, Phase};
use crate::workers::Workers;

/// A model ready to be served: planned, its weights laid out for both phases.
pub struct ServedModel {
    plan: Arc<Plan>,
    outline_bytes: Vec<u8>,
    agreement: Agreement,
    layers: Vec<ServedLayer>,
    /// What prepared material belongs to. Known to the server only: it would let anyone test a guess of the weights.
    digest: [u8; 32],
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
    pub fn new(model: &InferenceModel, reveal: Reveal, memory: WeightMemory) -> Result<Self, InferenceError> {
        Self::with_salt(model, reveal, memory, Seed::from_system()?.expose())
    }

    /// Prepares a model for serving. The salt is a secret of the server: whoever has it can test guesses of the weights.
    ///
    /// # Errors
    /// When no plan keeps the promises for it.
    pub fn with_salt(
        model: &InferenceModel,
        reveal: Reveal,
        memory: WeightMemory,
        salt: &[u8; 32],
    ) -> Result<Self, InferenceError> {
        let outline = Arc::new(model.outline().clone());
        let plan = Arc::new(Plan::new(Arc::clone(&outline), reveal)?);
        let mut room = match memory {
            WeightMemory::Everything => usize::MAX,
            WeightMemory::AtMost(bytes) => bytes,
        };
        let mut layers = Vec::new();
        for (job, secret) in plan.linear().iter().zip(model.layers()) {
            let wanted = PreparedWeights::bytes(&job.layout);
            let storage =
                if wanted <= room { WeightStorage::Everything } else { WeightStorage::AtMost(room) };
            room = room.saturating_sub(wanted);
            let input = outline.shape(outline.steps[job.step].inputs[0]);
            let geometry = geometry(&job_geometry(&outline, job.step), input)?;
            layers.push(ServedLayer {
                encrypted: PreparedWeights::new(&job.layout, &secret.weights, storage)?,
                packed: packed_weights(geometry, outline.weight_bits, &secret.weights)?,
                biases: secret.biases.clone(),
            });
        }
        let outline_bytes = outline.to_bytes();
        let agreement = Agreement {
            outline: *blake3::hash(&outline_bytes).as_bytes(),
            commitment: commit_to_weights(model, salt),
            plan: plan_digest(&plan),
        };
        let digest = kept::model_digest(model, &agreement, reveal);
        Ok(Self { outline_bytes, agreement, plan, layers, digest })
    }

    /// What clients must agree with: digests of outline and plan, the commitment to the weights.
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// What both parties do.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}

fn job_geometry(outline: &network::inference_model::ModelOutline, step: usize) -> LinearGeometry {
    match &outline.steps[step].operation {
        network::inference_model::ModelOperation::Linear { geometry, .. } => *geometry,
        _ => unreachable!("the plan lists linear steps"),
    }
}

fn geometry(geometry: &LinearGeometry, input: Shape) -> Result<ConvGeometry, InferenceError> {
    let square = Extent::square;
    Ok(match geometry {
        LinearGeometry::FullyConnected { inputs, outputs } => {
            ConvGeometry::fully_connected(*inputs, *outputs)?
        }
        LinearGeometry::Conv(conv) => ConvGeometry::new(ConvShape {
            in_channels: conv.inputs,
            out_channels: conv.outputs,
            input: Extent { height: input.height, width: input.width },
            filter: square(conv.filter),
            stride: square(conv.stride),
            padding: square(conv.padding),
            dilation: square(conv.dilation),
            groups: conv.groups,
        })?,
    })
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
    model: Arc<ServedModel>,
    name: ModelName,
    session: SessionId,
    keys: Vec<PublicKey>,
    sender: CorrelatedSender,
    offset: Arc<Offset>,
    prepared: u64,
    /// An error leaves the parties at different places of the stream; nothing may follow it.
    is_broken: bool,
    workers: Workers,
}

/// Offline material of the server for one inference. It has no copy and is spent by use, over the connection that made
/// it or over any other one to the same client.
#[derive(Debug)]
pub struct PreparedServer {
    /// What it was prepared for.
    model: [u8; 32],
    session: SessionId,
    inference: InferenceId,
    /// Where its masks come from. Known to the server only.
    root: Seed,
    /// That of the session that made it: labels of two sessions never share one. Known to the server only.
    offset: Arc<Offset>,
    /// Masks of the linear layers' answers, in the rings of their outputs. Known to the server only.
    masks: Vec<Share>,
    rounds: Vec<Vec<PreparedPart>>,
    argmax: Option<PreparedGarbler>,
}

#[derive(Debug)]
enum PreparedPart {
    Garbled(Vec<PreparedGarbler>),
    Truncated(OfferedTruncation),
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
        connection.enter(Phase::SetUp);
        let result = greet(&mut connection, choose, channel_binding)
            .and_then(|greeted| set_up_transfers(&mut connection, greeted));
        let made = match result {
            Ok(made) => made,
            Err(error) => {
                // The error is what counts, not whether the client heard of it.
                let _ = error.for_peer().map(|refusal| connection.refuse(&refusal));
                return Err(error);
            }
        };
        let MadeSession { model, name, session, keys, sender, offset } = made;
        let workers = Workers::alone();
        let (prepared, is_broken) = (0, false);
        Ok(Self { connection, model, name, session, keys, sender, offset, prepared, is_broken, workers })
    }

    /// Uses so many threads from here on.
    ///
    /// # Errors
    /// When the system does not give them.
    pub fn use_threads(&mut self, threads: NonZeroUsize) -> Result<(), InferenceError> {
        self.workers = Workers::new(threads)?;
        Ok(())
    }

    /// The model of this session.
    pub fn model(&self) -> &Arc<ServedModel> {
        &self.model
    }

    /// Its name.
    pub fn name(&self) -> &ModelName {
        &self.name
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
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        self.connection.enter(Phase::Offline);
        let inference = inference_id(self.session, self.prepared);
        self.connection.concern(Some(inference));
        self.prepared += 1;
        let prepared = prepare::run(self, inference)?;
        self.connection.concern(None);
        self.is_broken = false;
        Ok(prepared)
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
        // Each brings the offset of its own session, so they may come from any; but masks and circuits fit one model.
        if batch.iter().any(|prepared| prepared.model != self.model.digest) {
            return Err(InferenceError::ForeignMaterial);
        }
        if std::mem::replace(&mut self.is_broken, true) {
            return Err(InferenceError::Broken);
        }
        self.connection.enter(Phase::Online);
        classify::run(self, batch)?;
        self.connection.concern(None);
        self.is_broken = false;
        Ok(())
    }
}

/// What the two hellos come to.
struct Greeted {
    model: Arc<ServedModel>,
    name: ModelName,
    session: SessionId,
    seed: PublicSeed,
}

fn greet<S: Read + Write>(
    connection: &mut Connection<S>,
    choose: impl FnOnce(&ModelName) -> Result<(ModelName, Arc<ServedModel>), Refusal>,
    channel_binding: &[u8],
) -> Result<Greeted, InferenceError> {
    let hello = ClientHello::from_bytes(&connection.receive(Kind::SetUp, ClientHello::BYTES)?)?;
    let chosen = choose(&hello.model);
    if let Err(refusal) = &chosen {
        connection.refuse(refusal)?;
    }
    let (name, model) = chosen.map_err(|refusal| InferenceError::Declined { refusal })?;
    let reveal = model.plan.reveal();
    if let Some(wish) = hello.wish.filter(|wish| *wish != reveal) {
        return Err(InferenceError::Reveal { expected: wish, came: reveal });
    }
    let nonce: [u8; NONCE_BYTES] = *Seed::from_system()?.expose();
    let (commitment, outline) = (model.agreement.commitment, model.outline_bytes.clone());
    let answer = ServerHello { nonce, reveal, commitment, model: name.clone(), outline };
    connection.send(Kind::SetUp, &answer.to_bytes())?;
    connection.flush()?;
    let theirs = Agreement::from_bytes(&connection.receive(Kind::SetUp, Agreement::BYTES)?)?;
    let session = session_id(&hello.nonce, &nonce, &model.agreement, reveal, channel_binding);
    if let Some(what) = model.agreement.difference(&theirs) {
        return Err(InferenceError::Difference { what });
    }
    connection.join(session);
    let seed = PublicSeed::derive(&hello.nonce, &nonce)?;
    Ok(Greeted { model, name, session, seed })
}

/// What a session consists of besides its connection.
struct MadeSession {
    model: Arc<ServedModel>,
    name: ModelName,
    session: SessionId,
    keys: Vec<PublicKey>,
    sender: CorrelatedSender,
    offset: Arc<Offset>,
}

fn set_up_transfers<S: Read + Write>(
    connection: &mut Connection<S>,
    greeted: Greeted,
) -> Result<MadeSession, InferenceError> {
    let Greeted { model, name, session, seed } = greeted;
    let mut keys = Vec::new();
    for parameters in model.plan.parameters() {
        let bytes = connection.receive(Kind::SetUp, PublicKey::length(parameters))?;
        keys.push(PublicKey::from_bytes(parameters, &seed, &bytes)?);
    }
    let scope = session_scope(session, Direction::ServerToClient, 0);
    let mut generator = Seed::from_system()?.derive(domain::GARBLE_OFFSET, &scope).generator();
    let correlation = CorrelationOffset::random(&mut generator);
    let offset = Arc::new(Offset::new(correlation.expose())?);
    let point = SenderPoint::from_bytes(&connection.receive(Kind::SetUp, SenderPoint::BYTES)?)?;
    let (points, waiting) = SenderSetup::start(session, correlation, &point, &mut generator);
    connection.send(Kind::SetUp, points.to_bytes().as_ref())?;
    connection.flush()?;
    let sums = TreeSums::from_bytes(&connection.receive(Kind::SetUp, TreeSums::BYTES)?)?;
    Ok(MadeSession { model, name, session, keys, sender: waiting.finish(&sums), offset })
}
