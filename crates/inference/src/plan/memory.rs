//! What a plan asks each party to hold.

use crypto::he::PreparedWeights;

use super::{LinearJob, Plan};
use crate::nonlinear::WORD_BYTES;

/// Bytes of a label.
const LABEL_BYTES: usize = 16;

/// Memory for a served model and for one prepared inference, what computing needs besides left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMemory {
    /// The server's transformed weights, all of them kept; shared by all sessions.
    pub server_weights: u64,
    /// The client's garbled tables.
    pub client_tables: u64,
    /// The client's labels of its own shares.
    pub client_labels: u64,
    /// The client's blinds, and its part of the truncations.
    pub client_shares: u64,
}

impl PlannedMemory {
    /// What a prepared inference keeps at the client.
    pub fn client(&self) -> u64 {
        self.client_tables + self.client_labels + self.client_shares
    }
}

impl LinearJob {
    /// What its transformed weights take at the server.
    pub fn weight_bytes(&self) -> u64 {
        PreparedWeights::bytes(&self.layout) as u64
    }
}

impl Plan {
    /// What one inference takes at the client: what is kept, and the largest message beside it.
    pub fn client_memory(&self) -> u64 {
        let largest = self.messages().iter().map(|message| message.bytes as u64).max().unwrap_or(0);
        self.memory().client() + largest
    }

    /// What one inference takes at the server besides the weights, at most: masks and shares as machine words, secrets
    /// of the circuits, and the messages it reads whole.
    pub fn server_memory(&self) -> u64 {
        let scalars = self.outline.steps.iter().map(|step| step.shape.scalars());
        let words = scalars.fold(self.outline.input.scalars(), u64::saturating_add) * WORD_BYTES as u64;
        let largest = self.messages().iter().map(|message| message.bytes as u64).max().unwrap_or(0);
        2 * words + (self.transfer_count() * LABEL_BYTES) as u64 + 2 * largest
    }

    /// What one prepared inference keeps at the server until its image comes: a mask for each output of a linear layer,
    /// one word for each circuit, three for each truncated position. Labels are derived again.
    pub fn server_prepared_memory(&self) -> u64 {
        let outputs = self.linear.iter().map(|job| self.outline.step(job.step).shape.scalars()).sum::<u64>();
        let parts = self.parts.iter().filter(|planned| planned.step.is_some());
        let parts = parts.map(|planned| planned.part.memory().server as u64).sum::<u64>();
        outputs * WORD_BYTES as u64 + parts
    }

    /// What each party must hold.
    pub fn memory(&self) -> PlannedMemory {
        let image_and_logits = self.outline.input.scalars() as usize + self.outline.classes;
        let mut memory = PlannedMemory {
            server_weights: self.linear.iter().map(LinearJob::weight_bytes).sum(),
            client_tables: 0,
            client_labels: 0,
            client_shares: (image_and_logits * WORD_BYTES) as u64,
        };
        for part in self.parts.iter().map(|planned| planned.part.memory()) {
            memory.client_tables += part.client_tables as u64;
            memory.client_labels += part.client_labels as u64;
            memory.client_shares += part.client_shares as u64;
        }
        memory
    }
}
