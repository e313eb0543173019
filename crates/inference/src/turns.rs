//! Who computes when. A server computes for a few clients at a time; one whose client is slow gives its turn to another.
//!
//! A session has one turn, which all of its threads share. It has it while one of them computes, and gives it up while all
//! of them wait for the peer: reading and writing need no turn.

use std::fmt;
use std::sync::Arc;

/// One session's turn to compute.
pub trait Turns: fmt::Debug + Send + Sync {
    /// One more thread of this session computes from here on. Waits until the session has its turn.
    fn begin(&self);

    /// One thread fewer computes.
    fn end(&self);
}

/// A thread that computes until this is dropped.
pub(crate) struct Computing<'a>(Option<&'a Arc<dyn Turns>>);

impl<'a> Computing<'a> {
    /// Waits for the turn, where there are turns.
    pub(crate) fn begin(turns: Option<&'a Arc<dyn Turns>>) -> Self {
        if let Some(turns) = turns {
            turns.begin();
        }
        Self(turns)
    }
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        if let Some(turns) = self.0 {
            turns.end();
        }
    }
}
