//! What a plan asks each party to hold.

use crypto::he::PreparedWeights;

use super::{GarbledPart, LinearJob, Part, Plan};

/// Bytes of a label.
const LABEL_BYTES: usize = 16;
/// Bytes of a share, held as a machine word.
const WORD_BYTES: usize = 8;
/// Words the client keeps for a truncated position: the top bit of its share, u_c, and what it already knows.
const TRUNCATION_WORDS: usize = 3;

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

    fn add_garbled(&mut self, part: &GarbledPart) {
        let instances = part.layer.instances();
        self.client_tables += part.layer.table_bytes() as u64;
        self.client_labels += (instances * part.layer.circuit().client_wires() * LABEL_BYTES) as u64;
        self.client_shares += (instances * WORD_BYTES) as u64;
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
        let outputs = self.linear.iter().map(|job| self.outline.steps[job.step].shape.scalars()).sum::<u64>();
        let words = |part: &Part| match part {
            Part::Garbled(part) => part.layer.instances(),
            Part::Truncated(part) => part.count() * TRUNCATION_WORDS,
        };
        (outputs + self.parts().map(words).sum::<usize>() as u64) * WORD_BYTES as u64
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
        for part in self.parts() {
            match part {
                Part::Garbled(part) => memory.add_garbled(part),
                Part::Truncated(part) => {
                    memory.client_shares += (part.count() * TRUNCATION_WORDS * WORD_BYTES) as u64;
                }
            }
        }
        self.argmax.iter().for_each(|part| memory.add_garbled(part));
        memory
    }
}
