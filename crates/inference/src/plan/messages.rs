//! Every message of a session with one inference, in order, predicted from the plan alone.
//!
//! Each is one frame. Requests and replies stand between them and are not listed: they are the service's.

use crypto::he::Halves;

use super::Plan;
use crate::connection::frame::HEADER_BYTES;
use crate::conversation::Planned;
use crate::transcript::{Kind, Phase};
use crate::{offline, online, setup};

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

    fn of<U, D>(phase: Phase, message: &Planned<U, D>) -> Self {
        Self { phase, kind: message.kind, is_upward: message.is_upward(), bytes: message.bytes }
    }
}

impl Plan {
    /// Lengths and order of all messages of a session with one inference.
    pub fn messages(&self) -> Vec<PlannedMessage> {
        let set_up = setup::messages::list(self);
        let set_up = set_up.iter().map(|message| PlannedMessage::of(Phase::SetUp, message));
        set_up.chain(self.inference_messages(Halves::Both)).collect()
    }

    /// The same of each further inference in that session: answers come without their second halves.
    pub fn further_messages(&self) -> Vec<PlannedMessage> {
        self.inference_messages(Halves::First)
    }

    fn inference_messages(&self, halves: Halves) -> Vec<PlannedMessage> {
        let (offline, online) = (offline::messages::list(self, halves), online::messages::list(self));
        let offline = offline.iter().map(|message| PlannedMessage::of(Phase::Offline, message));
        let online = online.iter().map(|message| PlannedMessage::of(Phase::Online, message));
        offline.chain(online).collect()
    }
}
