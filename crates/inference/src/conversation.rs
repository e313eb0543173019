//! How a party speaks without knowing to what: messages in the order of a plan, bytes in pieces, no sockets.
//!
//! The plan lists every message of a phase once. A [`Party`] makes those it sends and takes those it gets; whoever holds
//! the bytes ([`Connection::converse`](crate::connection::Connection), or a test with two buffers) walks the list. So the
//! order and the lengths that are predicted are those that cross, and a party cannot say what the plan does not list.

use std::time::{Duration, Instant};

use crate::InferenceError;
use crate::transcript::{Kind, Work};

/// One message that the plan lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned<M> {
    /// Which one, in the words of its phase.
    pub(crate) content: M,
    pub(crate) kind: Kind,
    /// From client to server.
    pub(crate) is_upward: bool,
    /// The length of its body.
    pub(crate) bytes: usize,
}

impl<M> Planned<M> {
    /// From client to server.
    pub(crate) fn up(content: M, kind: Kind, bytes: usize) -> Self {
        Self { content, kind, is_upward: true, bytes }
    }

    /// From server to client.
    pub(crate) fn down(content: M, kind: Kind, bytes: usize) -> Self {
        Self { content, kind, is_upward: false, bytes }
    }
}

/// The runs of messages in one direction.
pub(crate) fn legs<M>(messages: &[Planned<M>]) -> impl Iterator<Item = &[Planned<M>]> {
    messages.chunk_by(|one, next| one.is_upward == next.is_upward)
}

/// Where the bytes of a message go. Its pieces are as long as the plan says, together.
pub(crate) trait Outgoing {
    fn piece(&mut self, bytes: &[u8]) -> Result<(), InferenceError>;

    /// Hands over what was said so far, because what comes next takes time.
    fn flush(&mut self) -> Result<(), InferenceError>;
}

/// Where the bytes of a message come from.
pub(crate) trait Incoming {
    fn piece(&mut self, length: usize) -> Result<Vec<u8>, InferenceError>;
}

/// One party in one phase, with one inference or several that share every leg.
pub(crate) trait Party<M> {
    /// Makes one message of the inference with this number.
    fn say(
        &mut self,
        inference: usize,
        message: &Planned<M>,
        to: &mut dyn Outgoing,
    ) -> Result<(), InferenceError>;

    /// Takes one message of the inference with this number.
    fn hear(
        &mut self,
        inference: usize,
        message: &Planned<M>,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError>;

    /// Does what can be done between this leg and the next.
    fn pause(&mut self, leg: &[Planned<M>]) -> Result<(), InferenceError>;
}

/// What a party spent its time on.
#[derive(Debug, Default)]
pub(crate) struct WorkTimes(Vec<(Work, Duration)>);

impl WorkTimes {
    /// Notes work done since a moment.
    pub(crate) fn spent(&mut self, work: Work, since: Instant) {
        self.took(work, since.elapsed());
    }

    /// Notes work that took so long.
    pub(crate) fn took(&mut self, work: Work, time: Duration) {
        self.0.push((work, time));
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (Work, Duration)> {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests;
