//! The server's half of a prepared inference as bytes: a seed, an offset, and what unmasks each reply.
//!
//! Masks of linear layers are expanded from the root seed again. Of a circuit the server needs the seed of its own
//! labels and one masked value per ReLU, of a truncation its share and coin; these came out of the transfers' labels
//! while garbling, so neither the corrections nor any state of the OT extension is kept.

use std::sync::Arc;

use crypto::domain;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::label::Offset;
use crypto::garble::truncate::OfferedTruncation;
use crypto::he::AnswerSecrets;
use crypto::random::{Direction, Scope, Seed};
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;
use network::inference_model::InferenceModel;

use super::{PreparedPart, PreparedServer, ServedModel};
use crate::kept::{HEADER_BYTES, Header, KeptError, Party, Reader, Writer, made_for, sum_parts};
use crate::plan::{GarbledPart, Part, Plan, Reveal, TruncatedPart};
use crate::setup::hello::Agreement;

/// Root seed and offset.
const SECRETS_BYTES: usize = 32 + 16;

/// What a server keeps of an inference that a client will ask for over another connection, perhaps in another process.
///
/// The bytes are secret and serve once: whoever stores them destroys them durably before
/// [`revive`](KeptServer::revive).
#[derive(Debug)]
pub struct KeptServer(Secret<Vec<u8>>);

impl KeptServer {
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
    pub fn revive(self, model: &ServedModel) -> Result<PreparedServer, KeptError> {
        let plan = &model.plan;
        let body = body_bytes(plan);
        let (header, mut reader) = Reader::new(Party::Server, &model.digest, body, self.0.expose())?;
        let root = Seed::from_bytes(reader.array());
        let offset = Arc::new(Offset::new(u128::from_le_bytes(reader.array()))?);
        let masks = masks(plan, &header, &root)?;
        let mut rounds = Vec::with_capacity(plan.rounds().len());
        for jobs in plan.rounds() {
            let parts = jobs.iter().flat_map(|job| &job.parts);
            rounds.push(parts.map(|part| read_part(part, &mut reader)).collect::<Result<_, _>>()?);
        }
        let argmax = plan.argmax().map(|part| read_garbled(part, &mut reader)).transpose()?;
        let argmax = argmax.and_then(|mut chunks| chunks.pop());
        let Header { made_for, session, inference } = header;
        Ok(PreparedServer { model: made_for, session, inference, root, offset, masks, rounds, argmax })
    }
}

impl PreparedServer {
    /// What it was prepared for: [`ServedModel::kept_digest`] of its model.
    pub fn kept_digest(&self) -> &[u8; 32] {
        &self.model
    }

    /// The bytes to keep until a client asks for this inference.
    pub fn into_kept(self) -> KeptServer {
        let mut parts = Vec::new();
        for part in self.rounds.into_iter().flatten() {
            match part {
                PreparedPart::Garbled(chunks) => {
                    parts.extend(chunks.into_iter().map(PreparedGarbler::into_bytes))
                }
                PreparedPart::Truncated(offered) => parts.push(offered.into_bytes()),
            }
        }
        parts.extend(self.argmax.map(PreparedGarbler::into_bytes));
        let length = SECRETS_BYTES + parts.iter().map(|part| part.expose().len()).sum::<usize>();
        let header = Header { made_for: self.model, session: self.session, inference: self.inference };
        let mut writer = Writer::new(Party::Server, &header, length);
        writer.push(self.root.expose());
        writer.push(Secret::new(self.offset.expose().to_le_bytes()).expose());
        parts.iter().for_each(|part| writer.push(part.expose()));
        KeptServer(writer.finish())
    }
}

impl Plan {
    /// Bytes that a server keeps of one prepared inference.
    pub fn kept_server_bytes(&self) -> usize {
        HEADER_BYTES + body_bytes(self)
    }
}

impl ServedModel {
    /// What kept material of this model belongs to. It is a hash of the weights, so it is the server's alone: in a
    /// client's hands it would confirm a guess of them.
    pub fn kept_digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// What material of this model belongs to.
pub(super) fn model_digest(model: &InferenceModel, agreement: &Agreement, reveal: Reveal) -> [u8; 32] {
    made_for(domain::KEPT_MODEL, &model.digest(), &agreement.plan, reveal)
}

fn body_bytes(plan: &Plan) -> usize {
    let truncated = |part: &TruncatedPart| OfferedTruncation::stored_bytes(&part.shape, part.count(), false);
    SECRETS_BYTES + sum_parts(plan, garbled_bytes, truncated, garbled_bytes)
}

fn garbled_bytes(part: &GarbledPart) -> usize {
    let circuit = part.layer.circuit();
    part.layer.chunks().map(|range| PreparedGarbler::stored_bytes(circuit, range.len())).sum()
}

/// The masks of the linear layers' answers, as they were drawn when those were made.
fn masks(plan: &Plan, header: &Header, root: &Seed) -> Result<Vec<Share>, KeptError> {
    let Header { session, inference, .. } = *header;
    let mask = |job: &crate::plan::LinearJob| {
        let step = job.step as u32 + 1;
        let scope = Scope { session, inference, step, direction: Direction::ServerToClient };
        let values = AnswerSecrets::rederive_masks(root, &scope, &job.layout);
        let width = RingWidth::new(plan.outline().steps[job.step].ring_bits)?;
        Ok(Share::new(RingVector::from_unsigned(width, values.expose())))
    };
    plan.linear().iter().map(mask).collect()
}

fn read_part(part: &Part, reader: &mut Reader<'_>) -> Result<PreparedPart, KeptError> {
    Ok(match part {
        Part::Garbled(part) => PreparedPart::Garbled(read_garbled(part, reader)?),
        Part::Truncated(part) => {
            let bytes = reader.take(OfferedTruncation::stored_bytes(&part.shape, part.count(), false));
            let offered = OfferedTruncation::from_bytes(&part.shape, part.count(), false, bytes)?;
            PreparedPart::Truncated(offered)
        }
    })
}

fn read_garbled(part: &GarbledPart, reader: &mut Reader<'_>) -> Result<Vec<PreparedGarbler>, KeptError> {
    let circuit = part.layer.circuit();
    let read = |range: std::ops::Range<usize>| {
        let bytes = reader.take(PreparedGarbler::stored_bytes(circuit, range.len()));
        Ok(PreparedGarbler::from_bytes(circuit, range.len(), bytes)?)
    };
    part.layer.chunks().map(read).collect()
}
