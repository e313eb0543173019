//! Every message of a session with one inference, in order, predicted from the plan alone.
//!
//! Each is one frame. Requests and replies stand between them and are not listed: they are the service's.

use crypto::ot::Depth;

use super::Plan;
use crate::connection::frame::HEADER_BYTES;
use crate::conversation::Planned;
use crate::offline::messages::Once;
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
    /// Whether only the first inference of a session has it.
    pub is_once: bool,
}

impl PlannedMessage {
    /// What crosses the wire: header and body.
    pub const fn framed_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes
    }

    fn of<U, D>(phase: Phase, message: &Planned<U, D>) -> Self {
        let is_once = phase == Phase::SetUp;
        Self { phase, kind: message.kind, is_upward: message.is_upward(), bytes: message.bytes, is_once }
    }
}

impl Plan {
    /// Lengths and order of all messages of a session with one inference, whose transfers have this depth, for a client that
    /// has no second halves of this model's answers.
    pub fn messages(&self, depth: Depth) -> Vec<PlannedMessage> {
        self.first_messages(depth, Once::first(false))
    }

    /// The same for a client that has them from an earlier session.
    pub fn returning_messages(&self, depth: Depth) -> Vec<PlannedMessage> {
        self.first_messages(depth, Once::first(true))
    }

    fn first_messages(&self, depth: Depth, once: Once) -> Vec<PlannedMessage> {
        let set_up = setup::messages::list(self);
        let set_up = set_up.iter().map(|message| PlannedMessage::of(Phase::SetUp, message));
        let mut later = offline::messages::list(self, depth, Once::default()).into_iter().peekable();
        let offline = offline::messages::list(self, depth, once).into_iter().map(|message| {
            let is_once = later.next_if(|later| later.words == message.words).is_none();
            PlannedMessage { is_once, ..PlannedMessage::of(Phase::Offline, &message) }
        });
        set_up.chain(offline).chain(self.online_messages()).collect()
    }

    /// The same of each further inference in that session: it has no messages that are sent once, and answers come without
    /// their second halves.
    pub fn further_messages(&self, depth: Depth) -> Vec<PlannedMessage> {
        let offline = offline::messages::list(self, depth, Once::default());
        let offline = offline.iter().map(|message| PlannedMessage::of(Phase::Offline, message));
        offline.chain(self.online_messages()).collect()
    }

    fn online_messages(&self) -> Vec<PlannedMessage> {
        let online = online::messages::list(self);
        online.iter().map(|message| PlannedMessage::of(Phase::Online, message)).collect()
    }
}
