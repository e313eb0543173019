//! The client's set-up: what it wants, what it understood, its base transfers.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::he::{PublicSeed, SecondHalves};
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup};
use crypto::ot::values::CorrelationOffset;
use crypto::ot::{Depth, TreeSums};
use crypto::random::{Direction, Generator, InferenceId, SessionId};
use network::digest::Digest;
use network::inference_model::ModelOutline;

use super::messages::{Agreement, ClientHello, ModelName, NONCE_BYTES, ServerHello, Understood};
use super::{halves_id, inference_id, plan_digest, session_id, session_scope};
use crate::InferenceError;
use crate::client::{HalvesCache, Wishes};
use crate::offline::messages::Once;
use crate::plan::{JobId, Plan};
use crate::roots::fresh_seed;
use crate::stored::made_for;

/// A client that has said hello.
pub(crate) struct Greeting<'a> {
    wishes: &'a Wishes,
    nonce: [u8; NONCE_BYTES],
}

impl<'a> Greeting<'a> {
    pub(crate) fn start(wishes: &'a Wishes) -> Result<(ClientHello, Self), InferenceError> {
        let nonce: [u8; NONCE_BYTES] = *fresh_seed()?.expose();
        let hello = ClientHello {
            nonce,
            wish: wishes.reveal,
            relus: wishes.relus,
            depth: wishes.depth,
            model: wishes.model.clone(),
        };
        Ok((hello, Self { wishes, nonce }))
    }

    /// The longest hello that may come back.
    pub(crate) fn max_hello_bytes(&self) -> u64 {
        ServerHello::BYTES as u64 + self.wishes.max_outline_bytes()
    }

    /// Plans what the server described, if that is what was wished for.
    pub(crate) fn hear(
        self,
        hello: ServerHello,
        channel_binding: &[u8],
    ) -> Result<(Understood, Agreed), InferenceError> {
        let Self { wishes, nonce } = self;
        let digest = Digest::of(&hello.outline);
        wishes.check_hello(&hello, digest)?;
        let outline = ModelOutline::from_bytes(&hello.outline)?;
        wishes.check_outline(&outline, hello.terms.reveal)?;
        let plan = Arc::new(Plan::new(Arc::new(outline), hello.terms)?);
        wishes.check_plan(&plan)?;
        let agreement = Agreement { outline: digest, commitment: hello.commitment, plan: plan_digest(&plan) };
        let id = session_id(&nonce, &hello.nonce, &agreement, (hello.terms, hello.depth), channel_binding);
        let halves = KnownHalves::look_up(wishes.halves.clone(), &agreement, &plan);
        let understood = Understood { agreement, has_halves: halves.are_complete() };
        Ok((understood, Agreed { plan, depth: hello.depth, model: hello.model, agreement, id, halves }))
    }
}

/// A client that knows the plan.
pub(crate) struct Agreed {
    plan: Arc<Plan>,
    depth: Depth,
    model: ModelName,
    agreement: Agreement,
    pub(crate) id: SessionId,
    halves: KnownHalves,
}

impl Agreed {
    /// Makes the point of the base transfers.
    pub(crate) fn start_transfers(self) -> Result<(SenderPoint, Transferring), InferenceError> {
        let mut generator = fresh_seed()?.generator();
        let (point, transfers) = ReceiverSetup::start(self.id, self.depth, &mut generator);
        Ok((point, Transferring { agreed: self, transfers, generator }))
    }
}

/// A client whose base transfers wait for the server's points.
pub(crate) struct Transferring {
    agreed: Agreed,
    transfers: ReceiverSetup,
    generator: Generator,
}

impl Transferring {
    /// Whether the server also sends a point, of the transfers in which it chooses.
    pub(crate) fn reverses(&self) -> bool {
        self.agreed.plan.reverse_count() > 0
    }

    /// Finishes the transfers in which the client chooses, and answers the point of the others.
    pub(crate) fn hear(
        mut self,
        points: &ReceiverPoints,
        reverse_point: Option<&SenderPoint>,
    ) -> Result<(TreeSums, Option<ReceiverPoints>, ClientSession), InferenceError> {
        let (sums, receiver) = self.transfers.finish(points, &mut self.generator)?;
        let Agreed { plan, depth, model, agreement, id, halves } = self.agreed;
        let seed = PublicSeed::derive(halves_id(&agreement).as_bytes());
        let once = Once::first(halves.are_complete());
        let scope = session_scope(id, Direction::ClientToServer, 0);
        let mut generator = fresh_seed()?.derive(domain::GATE_OFFSET, &scope).generator();
        let correlation = CorrelationOffset::random(&mut generator);
        let reverse_offset = Offset::new(correlation.expose())?;
        let answered = reverse_point
            .map(|point| SenderSetup::start(id.reversed(), depth, correlation, point, &mut generator));
        let (reverse_points, reverse_setup) = answered.unzip();
        let session = ClientSession {
            plan,
            depth,
            model,
            agreement,
            id,
            seed,
            halves,
            receiver,
            reverse: None,
            reverse_setup,
            reverse_offset,
            prepared: 0,
            once,
        };
        Ok((sums, reverse_points, session))
    }
}

/// The second halves of a model's answers at the client, by layer.
pub(crate) struct KnownHalves {
    id: Digest,
    layers: Vec<Option<SecondHalves>>,
    cache: Option<Arc<dyn HalvesCache>>,
}

impl KnownHalves {
    /// What the cache has of this model. What is damaged there is fetched again.
    fn look_up(cache: Option<Arc<dyn HalvesCache>>, agreement: &Agreement, plan: &Plan) -> Self {
        let id = halves_id(agreement);
        let kept =
            cache.as_ref().and_then(|cache| cache.get(&id)).and_then(|bytes| read_halves(plan, &bytes));
        let layers = match kept {
            Some(halves) => halves.into_iter().map(Some).collect(),
            None => plan.linear().iter().map(|_| None).collect(),
        };
        Self { id, layers, cache }
    }

    pub(crate) fn are_complete(&self) -> bool {
        self.layers.iter().all(Option::is_some)
    }

    /// Those of a layer.
    pub(crate) fn of(&self, JobId(layer): JobId) -> &SecondHalves {
        self.layers[layer].as_ref().expect("a client that has none gets them with its first inference")
    }

    /// Takes what came with an answer, and keeps them all once they are.
    pub(crate) fn take(&mut self, JobId(layer): JobId, came: SecondHalves) {
        self.layers[layer] = Some(came);
        if let (true, Some(cache)) = (self.are_complete(), &self.cache) {
            let bytes: Vec<u8> = self.layers.iter().flatten().flat_map(SecondHalves::to_bytes).collect();
            cache.put(&self.id, &bytes);
        }
    }
}

/// The second halves of all layers, one after the other, if that is what the bytes are.
fn read_halves(plan: &Plan, mut bytes: &[u8]) -> Option<Vec<SecondHalves>> {
    let mut halves = Vec::with_capacity(plan.linear().len());
    for job in plan.linear() {
        let (own, rest) = bytes.split_at_checked(SecondHalves::length(&job.layout))?;
        halves.push(SecondHalves::from_bytes(&job.layout, own).ok()?);
        bytes = rest;
    }
    bytes.is_empty().then_some(halves)
}

/// What a client has once the set-up is done.
pub(crate) struct ClientSession {
    pub(crate) plan: Arc<Plan>,
    pub(crate) depth: Depth,
    pub(crate) model: ModelName,
    pub(crate) agreement: Agreement,
    pub(crate) id: SessionId,
    /// Of what the uniform halves of all ciphertexts are made.
    pub(crate) seed: PublicSeed,
    /// What the client has of the model's answers beforehand, or from the first inference on.
    pub(crate) halves: KnownHalves,
    pub(crate) receiver: CorrelatedReceiver,
    /// The transfers in which the server chooses, from the first inference on.
    pub(crate) reverse: Option<CorrelatedSender>,
    reverse_setup: Option<SenderSetup>,
    /// The client's, of those transfers alone.
    pub(crate) reverse_offset: Offset,
    /// How many inferences were begun.
    prepared: u64,
    /// What the next one brings for those after it.
    once: Once,
}

impl ClientSession {
    /// The name of the next inference.
    pub(crate) fn next_inference(&mut self) -> InferenceId {
        self.prepared += 1;
        inference_id(self.id, self.prepared)
    }

    /// What the inference brings that begins now.
    pub(crate) fn take_once(&mut self) -> Once {
        std::mem::take(&mut self.once)
    }

    /// Takes the sums of the trees in which the server chooses.
    pub(crate) fn finish_reverse(&mut self, sums: &TreeSums) {
        self.reverse = self.reverse_setup.take().map(|setup| setup.finish(sums));
    }

    /// What material of this session belongs to.
    pub(crate) fn made_for(&self) -> Digest {
        let Agreement { outline, plan, .. } = self.agreement;
        made_for(domain::KEPT_PLAN, outline, plan, self.plan.terms())
    }
}
