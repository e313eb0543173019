//! How a party speaks without knowing to what: messages in the order of a plan, bytes in pieces, no sockets.
//!
//! The plan lists every message of a phase once. A [`Party`] makes those it sends and takes those it gets; whoever holds
//! the bytes ([`Connection::converse`](crate::connection::Connection), or a test with two buffers) walks the list. So the
//! order and the lengths that are predicted are those that cross, and a party cannot say what the plan does not list.

use std::time::Duration;

use crate::InferenceError;
use crate::clock::Instant;
use crate::transcript::{Kind, Work};

/// One message that the plan lists. `U` are the client's words in a phase, `D` the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned<U, D> {
    pub(crate) words: Words<U, D>,
    pub(crate) kind: Kind,
    /// The length of its body.
    pub(crate) bytes: usize,
}

/// Whose words a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words<U, D> {
    /// From client to server.
    Up(U),
    /// From server to client.
    Down(D),
}

/// What one party does with a message.
pub(crate) enum Turn<S, H> {
    Say(S),
    Hear(H),
}

impl<U, D> Planned<U, D> {
    pub(crate) fn up(words: U, kind: Kind, bytes: usize) -> Self {
        Self { words: Words::Up(words), kind, bytes }
    }

    pub(crate) fn down(words: D, kind: Kind, bytes: usize) -> Self {
        Self { words: Words::Down(words), kind, bytes }
    }

    pub(crate) fn is_upward(&self) -> bool {
        matches!(self.words, Words::Up(_))
    }
}

impl<U, D> Words<U, D> {
    pub(crate) fn for_client(self) -> Turn<U, D> {
        match self {
            Self::Up(words) => Turn::Say(words),
            Self::Down(words) => Turn::Hear(words),
        }
    }

    pub(crate) fn for_server(self) -> Turn<D, U> {
        match self {
            Self::Up(words) => Turn::Hear(words),
            Self::Down(words) => Turn::Say(words),
        }
    }
}

/// The runs of messages in one direction, each with its last one.
pub(crate) fn legs<U, D>(
    messages: &[Planned<U, D>],
) -> impl Iterator<Item = (&[Planned<U, D>], &Planned<U, D>)> {
    let legs = messages.chunk_by(|one, next| one.is_upward() == next.is_upward());
    legs.filter_map(|leg| leg.last().map(|last| (leg, last)))
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

/// One party in one phase, with one inference or several that share every leg. It is given its own words to say and its
/// peer's to hear, never the other way round.
pub(crate) trait Party {
    type Said: Copy;
    type Heard: Copy;

    /// Makes one message of the inference with this number.
    fn say(
        &mut self,
        inference: usize,
        words: Self::Said,
        to: &mut dyn Outgoing,
    ) -> Result<(), InferenceError>;

    /// Takes one message of so many bytes, of the inference with this number.
    fn hear(
        &mut self,
        inference: usize,
        words: Self::Heard,
        bytes: usize,
        from: &mut dyn Incoming,
    ) -> Result<(), InferenceError>;

    /// Does what can be done while the peer answers a leg that ended with these words.
    fn after_saying(&mut self, _: Self::Said) -> Result<(), InferenceError> {
        Ok(())
    }

    /// Does what has become possible by a leg that ended with these words.
    fn after_hearing(&mut self, _: Self::Heard) -> Result<(), InferenceError> {
        Ok(())
    }
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
