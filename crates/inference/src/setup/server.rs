//! The server's set-up: which model, whether both understood the same, the client's keys and base transfers.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::he::{HeParameters, PublicKey, PublicSeed};
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{CorrelatedSender, SenderSetup};
use crypto::ot::values::CorrelationOffset;
use crypto::ot::{Depth, TreeSums};
use crypto::random::{Direction, InferenceId, SessionId};

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
        Ok(Agreed { model, name, id, seed, keys: Vec::new() })
    }
}

/// A server whose client understood the same.
pub(crate) struct Agreed {
    model: Arc<ServedModel>,
    name: ModelName,
    pub(crate) id: SessionId,
    seed: PublicSeed,
    keys: Vec<PublicKey>,
}

impl Agreed {
    /// The parameters of the key that comes next, if one does.
    pub(crate) fn next_key(&self) -> Option<&HeParameters> {
        self.model.plan().parameters().get(self.keys.len())
    }

    /// Takes the next key.
    pub(crate) fn take_key(&mut self, bytes: &[u8]) -> Result<(), InferenceError> {
        let parameters = &self.model.plan().parameters()[self.keys.len()];
        self.keys.push(PublicKey::from_bytes(parameters, &self.seed, bytes)?);
        Ok(())
    }

    /// Answers the point of the base transfers.
    pub(crate) fn hear(self, point: &SenderPoint) -> Result<(ReceiverPoints, Waiting), InferenceError> {
        let scope = session_scope(self.id, Direction::ServerToClient, 0);
        let mut generator = fresh_seed()?.derive(domain::GARBLE_OFFSET, &scope).generator();
        let correlation = CorrelationOffset::random(&mut generator);
        let offset = Arc::new(Offset::new(correlation.expose())?);
        let (points, transfers) =
            SenderSetup::start(self.id, Depth::default(), correlation, point, &mut generator);
        Ok((points, Waiting { agreed: self, offset, transfers }))
    }
}

/// A server whose base transfers wait for the client's sums.
pub(crate) struct Waiting {
    agreed: Agreed,
    offset: Arc<Offset>,
    transfers: SenderSetup,
}

impl Waiting {
    pub(crate) fn hear(self, sums: &TreeSums) -> ServerSession {
        let Agreed { model, name, id, keys, .. } = self.agreed;
        let sender = self.transfers.finish(sums);
        ServerSession { model, name, id, keys: keys.into(), sender, offset: self.offset, prepared: 0 }
    }
}

/// What a server has once the set-up is done.
pub(crate) struct ServerSession {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) name: ModelName,
    pub(crate) id: SessionId,
    pub(crate) keys: Arc<[PublicKey]>,
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
}
