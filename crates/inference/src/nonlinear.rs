//! What needs messages: kinds of nonlinear steps, and who computes them how.
//!
//! The positions of a step that are treated alike are a [`Part`]. Every part has the same course:
//!
//! ```text
//!            client                                      server
//! offline    choices: bits of its shares       ------->  (oblivious transfer)
//!            ClientSide::accept                <-------  ServerSide::offer
//!            its advance, where there is one   ------->  OfferedServerPart::take_advance
//! online     PreparedClientPart::open          <-------  PreparedServerPart::open
//!            Opened::Reply                     ------->  WaitingServerPart::finish
//! ```
//!
//! Material owns its part of the plan, so neither party ever pairs one kind's material with another's. A new kind is a
//! file for what both plan, one for each side, and a line in [`KINDS`]:
//!
//! ```text
//! gated        a ReLU that rounds by shares: its sign as a shared bit, its value times it, or several values
//! garbled      half-gate circuits in chunks: the course that the next three share
//!   relu       a ReLU that rounds to nearest or is clipped
//!   maximum    the maximum of a window
//!   argmax     the class, which the client learns instead of replying
//! truncated    positions without ReLU: known-MSB truncation
//! ```

pub(crate) mod argmax;
pub(crate) mod garbled;
mod gated;
mod maximum;
mod relu;
mod truncated;

use std::fmt;
use std::sync::Arc;

use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::{Offset, WireLabel};
use crypto::ot::extension::CorrelatedSender;
use crypto::random::Generator;
use crypto::ring::RingVector;
use crypto::secret::Secret;
use network::inference_model::{ModelOutline, ModelStep};
use network::reference::bound::ReluRounding;

use crate::InferenceError;
use crate::conversation::{Incoming, Outgoing, WorkTimes};
use crate::labels::{ReceivedLabels, ReverseChoices, ZeroLabels};
use crate::stored::{Reader, StoredError, Writer};
use crate::transcript::Kind;
use crate::workers::Workers;

/// Finds the positions of an interactive step that a kind computes.
type Planner = fn(&ModelOutline, &ModelStep, ReluRounding) -> Result<Vec<Arc<dyn Part>>, InferenceError>;

/// Every kind, in the order in which a step's parts follow each other.
const KINDS: [Planner; 4] = [gated::plan, relu::plan, truncated::plan, maximum::plan];

/// The parts of an interactive step.
pub(crate) fn plan(
    outline: &ModelOutline,
    step: &ModelStep,
    relus: ReluRounding,
) -> Result<Vec<Arc<dyn Part>>, InferenceError> {
    let mut parts = Vec::new();
    for kind in KINDS {
        parts.extend(kind(outline, step, relus)?);
    }
    Ok(parts)
}

/// Positions of a step that are treated alike, as both parties plan them.
pub(crate) trait Part: ClientSide + ServerSide + fmt::Debug + Send + Sync {
    fn kind(&self) -> Kind;
    fn counts(&self) -> PartCounts;
    fn bytes(&self) -> PartBytes;
    /// Oblivious transfers, padding included.
    fn transfer_count(&self) -> usize;

    /// The same of transfers in which the server chooses.
    fn reverse_count(&self) -> usize {
        0
    }

    fn memory(&self) -> PartMemory;
}

/// What a part computes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartCounts {
    /// ReLUs, shared signs or maxima.
    pub(crate) relus: usize,
    /// Values that follow the sign of another one.
    pub(crate) gated: usize,
    /// Positions that are only rescaled.
    pub(crate) linearized: usize,
}

/// Lengths of a part's messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartBytes {
    pub(crate) offer: usize,
    /// Nothing where the client has no word before the image.
    pub(crate) advance: usize,
    pub(crate) opening: usize,
    /// Nothing where the client learns the outcome itself.
    pub(crate) reply: usize,
}

/// What a part's material takes while it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartMemory {
    pub(crate) client_tables: usize,
    pub(crate) client_labels: usize,
    pub(crate) client_shares: usize,
    pub(crate) server: usize,
}

/// The client's side of a part.
pub(crate) trait ClientSide {
    /// Appends the bits that the client wants labels for, padded to whole bytes: of its share of what the step reads, and
    /// coins of its own.
    fn choose(&self, own: OwnValues<'_>, choices: &mut Vec<u8>) -> Result<(), InferenceError>;

    /// Takes the server's offer.
    fn accept(
        self: Arc<Self>,
        own: OwnValues<'_>,
        tools: &mut ClientTools<'_>,
        offer: &mut dyn Incoming,
    ) -> Result<Box<dyn PreparedClientPart>, InferenceError>;

    fn stored_client_bytes(&self) -> usize;

    /// Makes stored material usable again.
    fn revive_client(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedClientPart>, StoredError>;
}

/// What the client knows of a step's values before there is an image.
#[derive(Clone, Copy)]
pub(crate) struct OwnValues<'a> {
    /// Its share of what the step reads.
    pub(crate) share: &'a RingVector,
    /// Fresh uniform words: its share of what the step makes, to be reduced to the ring at hand. The top bit is in no ring.
    pub(crate) blinds: &'a [u64],
}

/// What the client needs to take offers.
pub(crate) struct ClientTools<'a> {
    pub(crate) key: HashKey,
    pub(crate) counter: &'a mut HashCounter,
    pub(crate) labels: &'a mut ReceivedLabels,
    /// Of the transfers in which the server chooses, with a key and an offset of the client's.
    pub(crate) reverse: Option<&'a mut CorrelatedSender>,
    pub(crate) reverse_labels: &'a mut ZeroLabels,
    pub(crate) reverse_key: HashKey,
    pub(crate) reverse_counter: &'a mut HashCounter,
    pub(crate) reverse_offset: &'a Offset,
    pub(crate) workers: &'a Workers,
    /// What it says to the offer.
    pub(crate) advance: Vec<u8>,
}

impl ClientTools<'_> {
    pub(crate) fn take_labels(&mut self, count: usize) -> Secret<Vec<WireLabel>> {
        self.labels.take(count)
    }

    /// Groups of labels, each of which was padded to whole bytes.
    pub(crate) fn take_label_groups(&mut self, groups: usize, count: usize) -> Secret<Vec<WireLabel>> {
        let mut labels = Secret::new(Vec::with_capacity(groups * count));
        for _ in 0..groups {
            labels.expose_mut().extend_from_slice(self.labels.take(count).expose());
        }
        labels
    }

    /// The client's labels of choice 0, where the server chooses.
    pub(crate) fn take_reverse_labels(
        &mut self,
        count: usize,
    ) -> Result<Secret<Vec<WireLabel>>, InferenceError> {
        let sender = self.reverse.as_deref_mut().expect("the set-up made what the plan needs");
        self.reverse_labels.take(sender, self.workers, count)
    }
}

/// The client's material for a part, until the server opens it.
pub(crate) trait PreparedClientPart: fmt::Debug + Send {
    fn open(
        self: Box<Self>,
        opening: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
    ) -> Result<Opened, InferenceError>;

    /// As many bytes as [`ClientSide::stored_client_bytes`] says.
    fn store(self: Box<Self>, writer: &mut Writer);
}

/// What the client has after an opening.
pub(crate) enum Opened {
    /// Its reply.
    Reply(Vec<u8>),
    /// The class of the image.
    Class(usize),
}

/// The server's side of a part.
pub(crate) trait ServerSide {
    /// Makes the offer.
    fn offer(
        self: Arc<Self>,
        tools: &mut ServerTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Offered, InferenceError>;

    fn stored_server_bytes(&self) -> usize;

    /// Makes stored material usable again.
    fn revive_server(
        self: Arc<Self>,
        reader: &mut Reader<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, StoredError>;
}

/// What the server has after an offer.
pub(crate) enum Offered {
    /// All it needs before the image.
    Ready(Box<dyn PreparedServerPart>),
    /// All but what the client says to it.
    Waiting(Box<dyn OfferedServerPart>),
}

/// The server's material for a part, until the client has answered the offer.
pub(crate) trait OfferedServerPart: fmt::Debug + Send {
    fn take_advance(
        self: Box<Self>,
        advance: &mut dyn Incoming,
        tools: &mut AdvanceTools<'_>,
    ) -> Result<Box<dyn PreparedServerPart>, InferenceError>;
}

/// What the server needs to take advances.
pub(crate) struct AdvanceTools<'a> {
    /// The client's.
    pub(crate) key: HashKey,
    pub(crate) counter: &'a mut HashCounter,
    pub(crate) workers: &'a Workers,
    pub(crate) times: &'a mut WorkTimes,
}

/// What the server needs to make offers.
pub(crate) struct ServerTools<'a> {
    pub(crate) key: HashKey,
    pub(crate) counter: HashCounter,
    pub(crate) sender: &'a mut CorrelatedSender,
    pub(crate) labels: ZeroLabels,
    /// Of the transfers in which the server chooses.
    pub(crate) reverse: ReverseChoices,
    /// Of labels.
    pub(crate) seeds: Generator,
    /// Of truncations and gates.
    pub(crate) coins: Generator,
    pub(crate) offset: &'a Offset,
    pub(crate) workers: &'a Workers,
    pub(crate) times: WorkTimes,
    /// Room for a piece of a message.
    pub(crate) frame: Vec<u8>,
}

impl ServerTools<'_> {
    pub(crate) fn take_labels(&mut self, count: usize) -> Result<Secret<Vec<WireLabel>>, InferenceError> {
        self.labels.take(self.sender, self.workers, count)
    }

    /// Groups of labels, each of which was padded to whole bytes.
    pub(crate) fn take_label_groups(
        &mut self,
        groups: usize,
        count: usize,
    ) -> Result<Secret<Vec<WireLabel>>, InferenceError> {
        let mut labels = Secret::new(Vec::with_capacity(groups * count));
        for _ in 0..groups {
            labels.expose_mut().extend_from_slice(self.take_labels(count)?.expose());
        }
        Ok(labels)
    }
}

/// The server's material for a part, until there is an image.
pub(crate) trait PreparedServerPart: fmt::Debug + Send {
    /// Says what it must of the server's share of what the step reads. The offset is that of the session that made it.
    fn open(
        self: Box<Self>,
        share: &RingVector,
        offset: &Offset,
        tools: &mut OnlineTools<'_>,
        to: &mut dyn Outgoing,
    ) -> Result<Box<dyn WaitingServerPart>, InferenceError>;

    fn stored_bytes(&self) -> usize;

    /// As many bytes as [`PreparedServerPart::stored_bytes`] says.
    fn store(self: Box<Self>, writer: &mut Writer);
}

/// The server's material for a part, until the client has replied.
pub(crate) trait WaitingServerPart {
    /// Writes the server's share of what the step makes to the part's positions.
    fn finish(
        self: Box<Self>,
        reply: &mut dyn Incoming,
        tools: &mut OnlineTools<'_>,
        values: &mut [u64],
    ) -> Result<(), InferenceError>;
}

/// What both parties need online.
pub(crate) struct OnlineTools<'a> {
    pub(crate) workers: &'a Workers,
    pub(crate) times: &'a mut WorkTimes,
    /// Room for a piece of a message.
    pub(crate) frame: &'a mut Vec<u8>,
}

/// Bytes of a share, held as a machine word.
pub(crate) const WORD_BYTES: usize = 8;

pub(crate) fn low_bits(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
