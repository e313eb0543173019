//! The client's half of a prepared inference as bytes: its blinds, the tables and its labels.

use crypto::domain;
use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::truncate::PreparedTruncation;
use crypto::ring::{RingVector, RingWidth, Share};
use crypto::secret::Secret;

use super::{PreparedClient, PreparedPart};
use crate::kept::{
    HEADER_BYTES, Header, KeptError, Party, Reader, Writer, end_widths, made_for, packed_bytes, sum_parts,
};
use crate::plan::{GarbledPart, Part, Plan, Reveal, TruncatedPart};
use crate::setup::hello::Agreement;
use crate::setup::plan_digest;

impl PreparedClient {
    /// The secret bytes to keep until there is an image. They serve once: whoever stores them destroys them durably
    /// before they are read back and used.
    ///
    /// # Errors
    /// When the plan is not the one this was prepared for.
    pub fn into_bytes(self, plan: &Plan) -> Result<Secret<Vec<u8>>, KeptError> {
        if self.plan != plan_made_for(plan) {
            return Err(KeptError::OtherModel);
        }
        let header = Header { made_for: self.plan, session: self.session, inference: self.inference };
        let mut writer = Writer::new(Party::Client, &header, body_bytes(plan)?);
        writer.push_share(&self.image_blind);
        writer.push_share(&self.logits);
        for (part, own) in plan.parts().zip(self.rounds.into_iter().flatten()) {
            match (part, own) {
                (Part::Garbled(part), PreparedPart::Garbled { chunks, blinds }) => {
                    let width = blind_width(part)?;
                    writer.push_share(&Share::new(RingVector::from_unsigned(width, blinds.expose())));
                    chunks.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
                }
                (Part::Truncated(_), PreparedPart::Truncated(truncation)) => {
                    writer.push(truncation.into_bytes().expose());
                }
                _ => unreachable!("material is prepared part by part from the same plan"),
            }
        }
        self.argmax.into_iter().for_each(|chunk| writer.push(chunk.into_bytes().expose()));
        Ok(writer.finish())
    }

    /// Makes kept bytes usable again, once.
    ///
    /// # Errors
    /// When the bytes were made by another version or for another model, or are damaged.
    pub fn from_bytes(plan: &Plan, bytes: &Secret<Vec<u8>>) -> Result<Self, KeptError> {
        let body = body_bytes(plan)?;
        let (header, mut reader) = Reader::new(Party::Client, &plan_made_for(plan), body, bytes.expose())?;
        let (image_width, logits_width) = end_widths(plan)?;
        let image_blind = reader.share(image_width, plan.outline().input.scalars() as usize)?;
        let logits = reader.share(logits_width, plan.outline().classes)?;
        let mut rounds = Vec::with_capacity(plan.rounds().len());
        for jobs in plan.rounds() {
            let parts = jobs.iter().flat_map(|job| &job.parts);
            rounds.push(parts.map(|part| read_part(part, &mut reader)).collect::<Result<_, _>>()?);
        }
        let argmax = plan.argmax().map(|part| read_chunks(part, &mut reader)).transpose()?;
        let argmax = argmax.and_then(|mut chunks| chunks.pop());
        let Header { made_for, session, inference } = header;
        Ok(Self { plan: made_for, session, inference, image_blind, rounds, logits, argmax, record: None })
    }
}

impl Plan {
    /// Bytes that a client keeps of one prepared inference.
    ///
    /// # Errors
    /// When the outline asks for a ring that does not exist.
    pub fn kept_client_bytes(&self) -> Result<usize, KeptError> {
        Ok(HEADER_BYTES + body_bytes(self)?)
    }
}

/// What material of this plan belongs to.
fn plan_made_for(plan: &Plan) -> [u8; 32] {
    let outline = blake3::hash(&plan.outline().to_bytes());
    made_for(domain::KEPT_PLAN, outline.as_bytes(), &plan_digest(plan), plan.reveal())
}

/// The same, for those who have both digests already.
pub(super) fn agreed_made_for(agreement: &Agreement, reveal: Reveal) -> [u8; 32] {
    made_for(domain::KEPT_PLAN, &agreement.outline, &agreement.plan, reveal)
}

fn body_bytes(plan: &Plan) -> Result<usize, KeptError> {
    let outline = plan.outline();
    let (image, logits) = end_widths(plan)?;
    let ends = packed_bytes(image, outline.input.scalars() as usize) + packed_bytes(logits, outline.classes);
    let garbled = |part: &GarbledPart| {
        let blinds = blind_width(part).map_or(0, |width| packed_bytes(width, part.outputs.len()));
        blinds + chunk_bytes(part)
    };
    let truncated = |part: &TruncatedPart| PreparedTruncation::stored_bytes(&part.shape, part.count(), false);
    Ok(ends + sum_parts(plan, garbled, truncated, chunk_bytes))
}

fn chunk_bytes(part: &GarbledPart) -> usize {
    let circuit = part.layer.circuit();
    part.layer.chunks().map(|range| PreparedEvaluator::stored_bytes(circuit, range.len())).sum()
}

/// A blind lives in the ring of the circuit's output.
fn blind_width(part: &GarbledPart) -> Result<RingWidth, KeptError> {
    Ok(RingWidth::new(part.layer.circuit().output_bits())?)
}

fn read_part(part: &Part, reader: &mut Reader<'_>) -> Result<PreparedPart, KeptError> {
    Ok(match part {
        Part::Garbled(part) => {
            let blinds = reader.share(blind_width(part)?, part.outputs.len())?;
            let blinds = Secret::new(blinds.expose().to_unsigned());
            PreparedPart::Garbled { chunks: read_chunks(part, reader)?, blinds }
        }
        Part::Truncated(part) => {
            let bytes = reader.take(PreparedTruncation::stored_bytes(&part.shape, part.count(), false));
            PreparedPart::Truncated(PreparedTruncation::from_bytes(&part.shape, part.count(), false, bytes)?)
        }
    })
}

fn read_chunks(part: &GarbledPart, reader: &mut Reader<'_>) -> Result<Vec<PreparedEvaluator>, KeptError> {
    let circuit = part.layer.circuit();
    let read = |range: std::ops::Range<usize>| {
        let bytes = reader.take(PreparedEvaluator::stored_bytes(circuit, range.len()));
        Ok(PreparedEvaluator::from_bytes(circuit, range.len(), bytes)?)
    };
    part.layer.chunks().map(read).collect()
}
