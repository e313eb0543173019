//! The server's set-up: which model, whether both understood the same, base transfers.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::he::{Halves, PublicSeed};
use crypto::ot::TreeSums;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{CorrelatedSender, SenderSetup};
use crypto::ot::values::CorrelationOffset;
use crypto::random::{Direction, InferenceId, Seed, SessionId};

use super::messages::{Agreement, ClientHello, ModelName, NONCE_BYTES, ServerHello};
use super::{inference_id, session_id, session_scope};
use crate::InferenceError;
use crate::roots::fresh_seed;
use crate::server::ServedModel;

/// A server that has answered a hello.
pub(crate) struct Greeted {
    model: Arc<ServedModel>,
    name: ModelName,
    nonces: ([u8; NONCE_BYTES], [u8; NONCE_BYTES]),
}

impl Greeted {
    /// Describes the model that was chosen for a client.
    pub(crate) fn answer(
        hello: &ClientHello,
        name: ModelName,
        model: Arc<ServedModel>,
    ) -> Result<(ServerHello, Self), InferenceError> {
        let reveal = model.plan().reveal();
        if let Some(wish) = hello.wish.filter(|wish| *wish != reveal) {
            return Err(InferenceError::Reveal { expected: wish, came: reveal });
        }
        let nonce: [u8; NONCE_BYTES] = *fresh_seed()?.expose();
        let (commitment, outline) = (model.agreement().commitment, model.outline_bytes().to_vec());
        let answer = ServerHello { nonce, reveal, commitment, model: name.clone(), outline };
        Ok((answer, Self { model, name, nonces: (hello.nonce, nonce) }))
    }

    /// Compares what the client understood.
    pub(crate) fn hear(self, theirs: &Agreement, channel_binding: &[u8]) -> Result<Agreed, InferenceError> {
        let Self { model, name, nonces: (client, server) } = self;
        let (ours, reveal) = (model.agreement(), model.plan().reveal());
        if let Some(what) = ours.difference(theirs) {
            return Err(InferenceError::Difference { what });
        }
        let id = session_id(&client, &server, ours, reveal, channel_binding);
        let seed = PublicSeed::derive(&client, &server)?;
        Ok(Agreed { model, name, id, seed })
    }
}

/// A server whose client understood the same.
pub(crate) struct Agreed {
    model: Arc<ServedModel>,
    name: ModelName,
    pub(crate) id: SessionId,
    seed: PublicSeed,
}

impl Agreed {
    /// Answers the point of the base transfers.
    pub(crate) fn hear(self, point: &SenderPoint) -> Result<(ReceiverPoints, Waiting), InferenceError> {
        let scope = session_scope(self.id, Direction::ServerToClient, 0);
        let mut generator = fresh_seed()?.derive(domain::GARBLE_OFFSET, &scope).generator();
        let correlation = CorrelationOffset::random(&mut generator);
        let offset = Arc::new(Offset::new(correlation.expose())?);
        let (points, transfers) = SenderSetup::start(self.id, correlation, point, &mut generator);
        Ok((points, Waiting { agreed: self, offset, transfers, zeros_root: fresh_seed()? }))
    }
}

/// A server whose base transfers wait for the client's sums.
pub(crate) struct Waiting {
    agreed: Agreed,
    offset: Arc<Offset>,
    transfers: SenderSetup,
    zeros_root: Seed,
}

impl Waiting {
    pub(crate) fn hear(self, sums: &TreeSums) -> ServerSession {
        let Agreed { model, name, id, seed } = self.agreed;
        let (sender, zeros_root) = (self.transfers.finish(sums), self.zeros_root);
        ServerSession { model, name, id, seed, zeros_root, sender, offset: self.offset, prepared: 0 }
    }
}

/// What a server has once the set-up is done.
pub(crate) struct ServerSession {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) name: ModelName,
    pub(crate) id: SessionId,
    /// Of what the uniform halves of all ciphertexts are made.
    pub(crate) seed: PublicSeed,
    /// Where what hides the second halves of all answers comes from, and nothing else. It is never stored.
    pub(crate) zeros_root: Seed,
    pub(crate) sender: CorrelatedSender,
    pub(crate) offset: Arc<Offset>,
    /// How many inferences were begun.
    prepared: u64,
}

impl ServerSession {
    /// The name of the next inference.
    pub(crate) fn next_inference(&mut self) -> InferenceId {
        self.prepared += 1;
        inference_id(self.id, self.prepared)
    }

    /// Which halves of answers the inference gets that was begun last.
    pub(crate) fn halves(&self) -> Halves {
        Halves::of_inference(self.prepared)
    }
}
