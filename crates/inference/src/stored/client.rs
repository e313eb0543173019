//! The client's half of a prepared inference as bytes: its blinds, the tables and its labels.

use std::sync::Arc;

use crypto::domain;
use crypto::secret::Secret;
use network::digest::Digest;

use super::{HEADER_BYTES, Header, Reader, StoredError, Writer, made_for, packed_bytes};
use crate::client::PreparedClient;
use crate::connection::Role;
use crate::plan::Plan;
use crate::setup::plan_digest;

impl PreparedClient {
    /// The secret bytes to keep until there is an image. They serve once: whoever stores them destroys them durably
    /// before they are read back and used.
    ///
    /// # Errors
    /// When the plan is not the one this was prepared for.
    pub fn into_bytes(self, plan: &Plan) -> Result<Secret<Vec<u8>>, StoredError> {
        if self.made_for != plan_made_for(plan) {
            return Err(StoredError::OtherModel);
        }
        let header = Header { made_for: self.made_for, session: self.session, inference: self.inference };
        let mut writer = Writer::new(Role::Client, &header, body_bytes(plan));
        writer.push_share(&self.image_blind);
        writer.push_share(&self.logits);
        self.parts.into_iter().for_each(|part| part.store(&mut writer));
        Ok(writer.finish())
    }

    /// Makes stored bytes usable again, once.
    ///
    /// # Errors
    /// When the bytes were made by another version or for another model, or are damaged.
    pub fn from_bytes(plan: &Plan, bytes: &Secret<Vec<u8>>) -> Result<Self, StoredError> {
        let (header, mut reader) =
            Reader::new(Role::Client, plan_made_for(plan), body_bytes(plan), bytes.expose())?;
        let image_blind = reader.share(plan.image_width(), plan.outline().input.scalars() as usize)?;
        let logits = reader.share(plan.logits_width(), plan.outline().classes)?;
        let parts = plan.parts().iter().map(|planned| Arc::clone(&planned.part).revive_client(&mut reader));
        let parts = parts.collect::<Result<_, _>>()?;
        let Header { made_for, session, inference } = header;
        Ok(Self { made_for, session, inference, image_blind, logits, parts, record: None })
    }
}

impl Plan {
    /// Bytes that a client stores of one prepared inference.
    pub fn stored_client_bytes(&self) -> usize {
        HEADER_BYTES + body_bytes(self)
    }
}

/// What material of this plan belongs to.
fn plan_made_for(plan: &Plan) -> Digest {
    let outline = Digest::of(&plan.outline().to_bytes());
    made_for(domain::KEPT_PLAN, outline, plan_digest(plan), plan.terms())
}

fn body_bytes(plan: &Plan) -> usize {
    let outline = plan.outline();
    let image = packed_bytes(plan.image_width(), outline.input.scalars() as usize);
    let logits = packed_bytes(plan.logits_width(), outline.classes);
    image + logits + plan.parts().iter().map(|planned| planned.part.stored_client_bytes()).sum::<usize>()
}
