//! What a plan asks each party to hold.

use std::num::NonZeroUsize;

use crypto::he::{Halves, LinearAnswer, LinearRequest, PreparedWeights, SecondHalves};
use crypto::ot::Depth;

use super::{LinearJob, Plan};
use crate::labels::{BATCH as LABEL_BATCH, correction_bytes};
use crate::nonlinear::WORD_BYTES;

/// Bytes of a label.
const LABEL_BYTES: usize = 16;
/// A message of ciphertexts against its polynomials: words instead of packed bits, of which there are twenty and more, both
/// halves instead of one and a seed, and the message itself.
const POLYNOMIALS: u64 = 8;
/// What a thread that garbles or multiplies takes: a workspace, tables of a few chunks, a block of products.
const THREAD_BYTES: u64 = 4 << 20;
/// The largest layer of one image in a batch: narrowed, joined with others, multiplied, split, masked, shifted.
const LAYER_COPIES: u64 = 6;
/// What an image takes besides values: names, lists, half-open parts.
const IMAGE_BYTES: u64 = 64 << 10;
/// A stored inference as the database gave it, opened, and in the database's own buffer.
const STORED_COPIES: u64 = 3;

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
    /// What a client keeps for the whole session: the second halves of answers.
    pub fn client_session_memory(&self) -> u64 {
        self.linear.iter().map(|job| SecondHalves::length(&job.layout) as u64).sum()
    }

    /// What one inference takes at the client: what is kept, for the session too, and the largest message beside it.
    pub fn client_memory(&self) -> u64 {
        let largest =
            self.messages(Depth::Four).iter().map(|message| message.bytes as u64).max().unwrap_or(0);
        self.memory().client() + self.client_session_memory() + largest
    }

    /// What one inference under way takes at the server besides the weights, at most: the larger of its two phases, with
    /// so many threads.
    pub fn server_memory(&self, threads: NonZeroUsize) -> u64 {
        let offline = self.server_offline_memory(threads) + self.server_prepared_memory();
        offline.max(self.server_online_memory() + self.server_prepared_memory())
    }

    /// What preparing one inference takes at the server, at most, besides what is left of it afterwards: all requests and
    /// answers of a flight, which may wait for the thread that computes or for a slow client; the largest of them as
    /// polynomials; corrections, labels of a batch a thread, tables on their way.
    pub fn server_offline_memory(&self, threads: NonZeroUsize) -> u64 {
        let messages = |job: &LinearJob| {
            (
                LinearRequest::length(&job.layout) as u64,
                LinearAnswer::length(&job.layout, Halves::Both) as u64,
            )
        };
        let flight = self.flights().map(|jobs| jobs.map(messages).map(|(up, down)| up + down).sum::<u64>());
        let largest = self.linear.iter().map(messages).map(|(up, down)| POLYNOMIALS * (up + down)).max();
        let transfers = self.transfer_count();
        let labels = transfers.min(LABEL_BATCH.saturating_mul(threads.get())) * LABEL_BYTES;
        let (corrections, labels) = (correction_bytes(transfers, Depth::Four) as u64, labels as u64);
        let threads = THREAD_BYTES.saturating_mul(threads.get() as u64);
        flight.max().unwrap_or(0) + largest.unwrap_or(0) + corrections + labels + threads
    }

    /// What one image of a batch takes at the server while it is classified, at most, besides what was prepared for it: its
    /// share of every value, and the largest layer's inputs and outputs a few times over.
    pub fn server_online_memory(&self) -> u64 {
        let scalars = self.outline.steps.iter().map(|step| step.shape.scalars());
        let image = self.outline.input.scalars();
        let largest = scalars.clone().max().unwrap_or(0).max(image);
        let all = scalars.fold(image, u64::saturating_add);
        (all + LAYER_COPIES * largest) * WORD_BYTES as u64 + IMAGE_BYTES
    }

    /// What one inference takes at the server on its way into the store or out of it, besides what was prepared.
    pub fn server_stored_memory(&self) -> u64 {
        STORED_COPIES * self.stored_server_bytes() as u64
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
