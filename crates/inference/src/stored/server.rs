//! The server's half of a prepared inference as bytes: a seed, an offset, and what unmasks each reply.
//!
//! Masks of linear layers are expanded from their seed again, from which nothing else of the inference follows: neither
//! the encryption of zero in its answers nor its labels. Of a circuit the server needs the seed of its own
//! labels and one masked value per ReLU, of a truncation its share and coin; these came out of the transfers' labels
//! while garbling, so neither the corrections nor any state of the OT extension is stored.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::label::Offset;
use crypto::he::AnswerSecrets;
use crypto::random::{InferenceId, Seed, SessionId};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::digest::Digest;
use network::inference_model::InferenceModel;

use super::{HEADER_BYTES, Header, Reader, StoredError, Writer, made_for};
use crate::connection::Role;
use crate::offline::server::answer_scope;
use crate::plan::{LinearJob, Plan, Terms};
use crate::server::{PreparedServer, ServedModel};
use crate::setup::messages::Agreement;

/// Seed of the masks and offset.
const SECRETS_BYTES: usize = 32 + 16;

/// What a server stores of an inference that a client will ask for over another connection, perhaps in another process.
///
/// The bytes are secret and serve once: whoever stores them destroys them durably before
/// [`revive`](StoredServer::revive).
#[derive(Debug)]
pub struct StoredServer(Secret<Vec<u8>>);

impl StoredServer {
    /// What a store gave back.
    pub fn from_bytes(bytes: Secret<Vec<u8>>) -> Self {
        Self(bytes)
    }

    /// What a store takes.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        self.0
    }

    /// Makes it usable again, once.
    ///
    /// # Errors
    /// When the bytes were made by another version or for another model, or are damaged.
    pub fn revive(self, model: &ServedModel) -> Result<PreparedServer, StoredError> {
        let plan = model.plan();
        let (header, mut reader) =
            Reader::new(Role::Server, model.stored_digest(), body_bytes(plan), self.0.expose())?;
        let masks_root = Seed::from_bytes(reader.array());
        let offset = Arc::new(Offset::new(u128::from_le_bytes(reader.array()))?);
        let masks = masks(plan, header.session, header.inference, &masks_root);
        let parts = plan.parts().iter().map(|planned| Arc::clone(&planned.part).revive_server(&mut reader));
        let parts = parts.collect::<Result<_, _>>()?;
        let Header { made_for, session, inference } = header;
        Ok(PreparedServer { made_for, session, inference, masks_root, offset, masks, parts })
    }
}

impl PreparedServer {
    /// What it was prepared for: [`ServedModel::stored_digest`] of its model.
    pub fn stored_digest(&self) -> Digest {
        self.made_for
    }

    /// The bytes to store until a client asks for this inference.
    pub fn into_stored(self) -> StoredServer {
        let length = SECRETS_BYTES + self.parts.iter().map(|part| part.stored_bytes()).sum::<usize>();
        let header = Header { made_for: self.made_for, session: self.session, inference: self.inference };
        let mut writer = Writer::new(Role::Server, &header, length);
        writer.push(self.masks_root.expose());
        writer.push(Secret::new(self.offset.expose().to_le_bytes()).expose());
        self.parts.into_iter().for_each(|part| part.store(&mut writer));
        StoredServer(writer.finish())
    }
}

impl Plan {
    /// Bytes that a server stores of one prepared inference.
    pub fn stored_server_bytes(&self) -> usize {
        HEADER_BYTES + body_bytes(self)
    }
}

/// What material of this model belongs to.
pub(crate) fn model_digest(model: &InferenceModel, agreement: &Agreement, terms: Terms) -> Digest {
    made_for(domain::KEPT_MODEL, model.digest(), agreement.plan, terms)
}

fn body_bytes(plan: &Plan) -> usize {
    SECRETS_BYTES + plan.parts().iter().map(|planned| planned.part.stored_server_bytes()).sum::<usize>()
}

/// The masks of the linear layers' answers, as they were drawn when those were made.
pub(crate) fn masks(
    plan: &Plan,
    session: SessionId,
    inference: InferenceId,
    masks_root: &Seed,
) -> Vec<Share> {
    let mask = |job: &LinearJob| {
        let scope = answer_scope(session, inference, job.step);
        let values = AnswerSecrets::rederive_masks(masks_root, &scope, &job.layout);
        let width = RingWidth::new(plan.outline().step(job.step).ring_bits).expect("the plan has this ring");
        Share::new(RingVector::from_unsigned(width, values.expose()))
    };
    plan.linear().iter().map(mask).collect()
}
