//! What the client has in the end.

use std::fmt;

use network::reference::Coins;
use network::walk::ValueId;
use zeroize::Zeroize;

/// What the client learns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The logits, rounded as the model says.
    Logits(Vec<i64>),
    /// The class alone.
    Class(usize),
}

impl Answer {
    /// The class, the lowest of equals.
    pub fn class(&self) -> usize {
        match self {
            Self::Class(class) => *class,
            Self::Logits(logits) => {
                let best = logits.iter().copied().max().unwrap_or(0);
                logits.iter().position(|logit| *logit == best).unwrap_or(0)
            }
        }
    }
}

/// The client's shares of everything that is rounded, for the oracle that repeats the protocol's rounding.
#[derive(Default)]
pub struct ShareRecord {
    /// Of every value that an interactive step reads, and of the logits.
    pub shares: Vec<(ValueId, Vec<u64>)>,
}

impl fmt::Debug for ShareRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ShareRecord({} values)", self.shares.len())
    }
}

impl Drop for ShareRecord {
    fn drop(&mut self) {
        self.shares.iter_mut().for_each(|(_, shares)| shares.zeroize());
    }
}

impl Coins for ShareRecord {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        let found = self.shares.iter().find(|(recorded, _)| *recorded == value);
        found.map_or(0, |(_, shares)| shares[scalar])
    }
}
