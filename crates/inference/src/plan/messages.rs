//! Every message of a session with one inference, in order, predicted from the plan alone.
//!
//! Each is one frame. Requests and replies stand between them and are not listed: they are the service's.

use crypto::he::{LinearAnswer, LinearRequest, PublicKey};
use crypto::ot::TreeSums;
use crypto::ot::base::{ReceiverPoints, SenderPoint};

use super::traffic::packed;
use super::{Part, Plan};
use crate::connection::frame::HEADER_BYTES;
use crate::labels::correction_bytes;
use crate::setup::hello::{Agreement, ClientHello, ServerHello};
use crate::transcript::{Kind, Phase};

/// One message that will be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMessage {
    /// When.
    pub phase: Phase,
    /// What it carries.
    pub kind: Kind,
    /// From client to server.
    pub is_upward: bool,
    /// The length of its body.
    pub bytes: usize,
}

impl PlannedMessage {
    /// What crosses the wire: header and body.
    pub const fn framed_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes
    }
}

/// Bytes of the key of the gate hash.
const HASH_KEY_BYTES: usize = 16;

impl Plan {
    /// Lengths and order of all messages of a session with one inference.
    pub fn messages(&self) -> Vec<PlannedMessage> {
        let mut list = List(Vec::new());
        self.list_set_up(&mut list);
        self.list_offline(&mut list);
        self.list_online(&mut list);
        list.0
    }

    fn list_set_up(&self, list: &mut List) {
        let up = |bytes| (true, bytes);
        let keys = self.parameters.iter().map(|parameters| (true, PublicKey::length(parameters)));
        let down = |bytes| (false, bytes);
        let outline = self.outline.to_bytes().len();
        let hello = [up(ClientHello::BYTES), down(ServerHello::BYTES + outline), up(Agreement::BYTES)];
        let transfers = [up(SenderPoint::BYTES), down(ReceiverPoints::BYTES), up(TreeSums::BYTES)];
        for (is_upward, bytes) in hello.into_iter().chain(keys).chain(transfers) {
            list.push(Phase::SetUp, Kind::SetUp, is_upward, bytes);
        }
    }

    fn list_offline(&self, list: &mut List) {
        let phase = Phase::Offline;
        for flight in 0..self.flight_count() {
            let jobs = || self.linear.iter().filter(|job| job.flight == flight);
            jobs().for_each(|job| {
                list.push(phase, Kind::Homomorphic, true, LinearRequest::length(&job.layout));
            });
            jobs().for_each(|job| {
                list.push(phase, Kind::Homomorphic, false, LinearAnswer::length(&job.layout));
            });
        }
        let transfers = self.transfer_count();
        if transfers == 0 {
            return;
        }
        list.push(phase, Kind::Transfer, true, correction_bytes(transfers));
        list.push(phase, Kind::Garbled, false, HASH_KEY_BYTES);
        for part in self.parts() {
            match part {
                Part::Garbled(part) => list.push(phase, Kind::Garbled, false, part.layer.table_bytes()),
                Part::Truncated(part) => list.push(phase, Kind::Truncation, false, part.offer_bytes()),
            }
        }
        if let Some(part) = &self.argmax {
            list.push(phase, Kind::Garbled, false, part.layer.table_bytes());
        }
    }

    fn list_online(&self, list: &mut List) {
        let phase = Phase::Online;
        let outline = &self.outline;
        let image = packed(outline.image_ring_bits, outline.input.scalars() as usize);
        list.push(phase, Kind::Values, true, image);
        for jobs in &self.rounds {
            let parts = || jobs.iter().flat_map(|job| &job.parts);
            parts().for_each(|part| match part {
                Part::Garbled(part) => list.push(phase, Kind::Garbled, false, part.layer.label_bytes()),
                Part::Truncated(part) => list.push(phase, Kind::Truncation, false, part.opening_bytes()),
            });
            parts().for_each(|part| match part {
                Part::Garbled(part) => list.push(phase, Kind::Garbled, true, part.layer.reply_bytes()),
                Part::Truncated(part) => list.push(phase, Kind::Truncation, true, part.reply_bytes()),
            });
        }
        let logits = packed(outline.ring_bits(outline.output()) - outline.logit_drop, outline.classes);
        match &self.argmax {
            Some(part) => list.push(phase, Kind::Garbled, false, part.layer.label_bytes()),
            None => list.push(phase, Kind::Values, false, logits),
        }
    }
}

struct List(Vec<PlannedMessage>);

impl List {
    fn push(&mut self, phase: Phase, kind: Kind, is_upward: bool, bytes: usize) {
        self.0.push(PlannedMessage { phase, kind, is_upward, bytes });
    }
}
