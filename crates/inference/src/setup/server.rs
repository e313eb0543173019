//! The server's set-up: which model, whether both understood the same, base transfers.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::ot::base::{ReceiverPoints, SenderPoint};
use crypto::ot::extension::{CorrelatedReceiver, CorrelatedSender, ReceiverSetup, SenderSetup};
use crypto::ot::values::CorrelationOffset;
use crypto::ot::{Depth, TreeSums};
use crypto::random::{Direction, Generator, InferenceId, SessionId};

use super::messages::{ClientHello, ModelName, NONCE_BYTES, ServerHello, Understood};
use super::{check_wishes, inference_id, session_id, session_scope};
use crate::InferenceError;
use crate::offline::messages::Once;
use crate::roots::fresh_seed;
use crate::server::ServedModel;

/// A server that has answered a hello.
pub(crate) struct Greeted {
    model: Arc<ServedModel>,
    depth: Depth,
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
        let terms = model.plan().terms();
        check_wishes(hello.wish, hello.relus, terms)?;
        let nonce: [u8; NONCE_BYTES] = *fresh_seed()?.expose();
        let (commitment, outline) = (model.agreement().commitment, model.outline_bytes().to_vec());
        let depth = hello.depth.unwrap_or_default();
        let answer = ServerHello { nonce, terms, depth, commitment, model: name.clone(), outline };
        Ok((answer, Self { model, depth, name, nonces: (hello.nonce, nonce) }))
    }

    /// Compares what the client understood.
    pub(crate) fn hear(self, theirs: &Understood, channel_binding: &[u8]) -> Result<Agreed, InferenceError> {
        let Self { model, depth, name, nonces: (client, server) } = self;
        let (ours, terms) = (model.agreement(), model.plan().terms());
        if let Some(what) = ours.difference(&theirs.agreement) {
            return Err(InferenceError::Difference { what });
        }
        let id = session_id(&client, &server, ours, (terms, depth), channel_binding);
        Ok(Agreed { model, depth, name, id, once: Once::first(theirs.has_halves) })
    }
}

/// A server whose client understood the same.
pub(crate) struct Agreed {
    model: Arc<ServedModel>,
    depth: Depth,
    name: ModelName,
    pub(crate) id: SessionId,
    once: Once,
}

impl Agreed {
    /// Answers the point of the base transfers.
    pub(crate) fn hear(
        self,
        point: &SenderPoint,
    ) -> Result<(ReceiverPoints, Option<SenderPoint>, Waiting), InferenceError> {
        let scope = session_scope(self.id, Direction::ServerToClient, 0);
        let mut generator = fresh_seed()?.derive(domain::GARBLE_OFFSET, &scope).generator();
        let correlation = CorrelationOffset::random(&mut generator);
        let offset = Arc::new(Offset::new(correlation.expose())?);
        let depth = self.depth;
        let (points, transfers) = SenderSetup::start(self.id, depth, correlation, point, &mut generator);
        let reverses = self.model.plan().reverse_count() > 0;
        let reverse = reverses.then(|| ReceiverSetup::start(self.id.reversed(), depth, &mut generator));
        let (reverse_point, reverse) = reverse.unzip();
        Ok((points, reverse_point, Waiting { agreed: self, offset, transfers, reverse, generator }))
    }
}

/// A server whose base transfers wait for the client's sums.
pub(crate) struct Waiting {
    agreed: Agreed,
    offset: Arc<Offset>,
    transfers: SenderSetup,
    /// Of the transfers in which the server chooses.
    reverse: Option<ReceiverSetup>,
    generator: Generator,
}

impl Waiting {
    /// Whether the client also answers the server's point.
    pub(crate) fn reverses(&self) -> bool {
        self.reverse.is_some()
    }

    pub(crate) fn hear(
        mut self,
        sums: &TreeSums,
        reverse_points: Option<&ReceiverPoints>,
    ) -> Result<ServerSession, InferenceError> {
        let Agreed { model, depth, name, id, once } = self.agreed;
        let sender = self.transfers.finish(sums);
        let reverse = self.reverse.zip(reverse_points);
        let reverse = reverse.map(|(setup, points)| setup.finish(points, &mut self.generator)).transpose()?;
        let (reverse_sums, reverse) = reverse.unzip();
        Ok(ServerSession {
            model,
            depth,
            name,
            id,
            sender,
            offset: self.offset,
            reverse,
            reverse_sums,
            prepared: 0,
            once,
        })
    }
}

/// What a server has once the set-up is done.
pub(crate) struct ServerSession {
    pub(crate) model: Arc<ServedModel>,
    pub(crate) depth: Depth,
    pub(crate) name: ModelName,
    pub(crate) id: SessionId,
    pub(crate) sender: CorrelatedSender,
    pub(crate) offset: Arc<Offset>,
    /// The transfers in which the server chooses.
    pub(crate) reverse: Option<CorrelatedReceiver>,
    /// What the client needs for them, until its first inference.
    pub(crate) reverse_sums: Option<TreeSums>,
    /// How many inferences were begun.
    prepared: u64,
    /// What the next one brings for those after it.
    once: Once,
}

impl ServerSession {
    /// The name of the next inference.
    pub(crate) fn next_inference(&mut self) -> InferenceId {
        self.prepared += 1;
        inference_id(self.id, self.prepared)
    }

    /// What the inference brings that begins now.
    pub(crate) fn take_once(&mut self) -> Once {
        std::mem::take(&mut self.once)
    }
}
