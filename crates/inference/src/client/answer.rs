//! What the client has in the end.

use std::fmt;

use crypto::random::{InferenceId, SessionId};
use network::reference::Coins;
use network::walk::ValueId;
use zeroize::Zeroize;

use crate::plan::ReluRounding;

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

/// The client's shares, for the oracle that repeats the protocol's rounding.
///
/// Alone it repeats all but the errors of the encryption, which the server's secrets decide with it:
/// [`crate::verify::ProtocolCoins`] takes both.
pub struct ShareRecord {
    pub(crate) session: SessionId,
    pub(crate) inference: InferenceId,
    pub(crate) relus: ReluRounding,
    /// By value, as far as the client has a share of it before there is an image: all but the answer's.
    pub(crate) shares: Vec<Vec<u64>>,
}

impl ShareRecord {
    /// The client's share of a value, in the value's ring.
    pub fn share(&self, value: ValueId) -> &[u64] {
        &self.shares[value.0]
    }
}

impl fmt::Debug for ShareRecord {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ShareRecord({} values)", self.shares.len())
    }
}

impl Drop for ShareRecord {
    fn drop(&mut self) {
        self.shares.iter_mut().for_each(Zeroize::zeroize);
    }
}

impl Coins for ShareRecord {
    fn client_share(&self, value: ValueId, scalar: usize) -> u64 {
        self.share(value)[scalar]
    }

    fn rounds_relus(&self) -> bool {
        self.relus == ReluRounding::Stochastic
    }
}
