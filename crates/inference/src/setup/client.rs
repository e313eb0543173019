//! The client's set-up: what it wants, what it understood, its base transfers.

use std::sync::Arc;

use crypto::domain;
use crypto::he::{Halves, PublicSeed, SecondHalves};
use crypto::ot::TreeSums;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{CorrelatedReceiver, ReceiverSetup};
use crypto::random::{Generator, InferenceId, SessionId};
use network::digest::Digest;
use network::inference_model::ModelOutline;

use super::messages::{Agreement, ClientHello, ModelName, NONCE_BYTES, ServerHello};
use super::{inference_id, plan_digest, session_id};
use crate::InferenceError;
use crate::client::Wishes;
use crate::plan::Plan;
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
        let hello = ClientHello { nonce, wish: wishes.reveal, model: wishes.model.clone() };
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
    ) -> Result<(Agreement, Agreed), InferenceError> {
        let Self { wishes, nonce } = self;
        let digest = Digest::of(&hello.outline);
        wishes.check_hello(&hello, digest)?;
        let outline = ModelOutline::from_bytes(&hello.outline)?;
        wishes.check_outline(&outline)?;
        let plan = Arc::new(Plan::new(Arc::new(outline), hello.reveal)?);
        wishes.check_plan(&plan)?;
        let agreement = Agreement { outline: digest, commitment: hello.commitment, plan: plan_digest(&plan) };
        let id = session_id(&nonce, &hello.nonce, &agreement, hello.reveal, channel_binding);
        let seed = PublicSeed::derive(&nonce, &hello.nonce)?;
        Ok((agreement, Agreed { plan, model: hello.model, agreement, id, seed }))
    }
}

/// A client that knows the plan.
pub(crate) struct Agreed {
    plan: Arc<Plan>,
    model: ModelName,
    agreement: Agreement,
    pub(crate) id: SessionId,
    seed: PublicSeed,
}

impl Agreed {
    /// Makes the point of the base transfers.
    pub(crate) fn start_transfers(self) -> Result<(SenderPoint, Transferring), InferenceError> {
        let mut generator = fresh_seed()?.generator();
        let (point, transfers) = ReceiverSetup::start(self.id, &mut generator);
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
    pub(crate) fn hear(
        mut self,
        points: &ReceiverPoints,
    ) -> Result<(TreeSums, ClientSession), InferenceError> {
        let (sums, receiver) = self.transfers.finish(points, &mut self.generator)?;
        let Agreed { plan, model, agreement, id, seed } = self.agreed;
        let second_halves = plan.linear().iter().map(|_| None).collect();
        let session =
            ClientSession { plan, model, agreement, id, seed, second_halves, receiver, prepared: 0 };
        Ok((sums, session))
    }
}

/// What a client has once the set-up is done.
pub(crate) struct ClientSession {
    pub(crate) plan: Arc<Plan>,
    pub(crate) model: ModelName,
    pub(crate) agreement: Agreement,
    pub(crate) id: SessionId,
    /// Of what the uniform halves of all ciphertexts are made.
    pub(crate) seed: PublicSeed,
    /// By layer: what the first inference brought for all.
    pub(crate) second_halves: Vec<Option<SecondHalves>>,
    pub(crate) receiver: CorrelatedReceiver,
    /// How many inferences were begun.
    prepared: u64,
}

impl ClientSession {
    /// The name of the next inference.
    pub(crate) fn next_inference(&mut self) -> InferenceId {
        self.prepared += 1;
        inference_id(self.id, self.prepared)
    }

    /// Which halves of answers the inference gets that was begun last.
    pub(crate) fn halves(&self) -> Halves {
        Halves::of_inference(self.prepared)
    }

    /// What material of this session belongs to.
    pub(crate) fn made_for(&self) -> Digest {
        let Agreement { outline, plan, .. } = self.agreement;
        made_for(domain::KEPT_PLAN, outline, plan, self.plan.reveal())
    }
}
