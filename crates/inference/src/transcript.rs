//! What was sent, when, in which phase and of which kind: the source of reports.

use std::fmt;
use std::time::Duration;

use crate::connection::frame::FrameKind;

/// Before the image is known, or after. The numbers stand in the plan's digest, so they stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Once per connection: keys and base transfers.
    SetUp = 0,
    /// Before the image is known.
    Offline = 1,
    /// After.
    Online = 2,
    /// Between the others: requests and replies.
    Service = 3,
}

/// What a message carries. The numbers stand in the plan's digest, so they stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Nonces, outline, keys, base transfers.
    SetUp = 0,
    /// Ciphertexts of linear layers.
    Homomorphic = 1,
    /// Corrections of oblivious transfers.
    Transfer = 2,
    /// Garbled tables, labels and replies.
    Garbled = 3,
    /// Signs as shared bits, and values times them.
    Gates = 4,
    /// Truncations at positions without ReLU.
    Truncation = 5,
    /// The image and the logits.
    Values = 6,
    /// Requests, replies and refusals.
    Service = 7,
}

impl Kind {
    /// What stands in the header.
    pub(crate) const fn frame(self) -> FrameKind {
        match self {
            Self::SetUp => FrameKind::SetUp,
            Self::Homomorphic => FrameKind::Homomorphic,
            Self::Transfer => FrameKind::Transfer,
            Self::Garbled => FrameKind::Garbled,
            Self::Gates => FrameKind::Gates,
            Self::Truncation => FrameKind::Truncation,
            Self::Values => FrameKind::Values,
            Self::Service => FrameKind::Service,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::SetUp => "set-up",
            Self::Homomorphic => "he",
            Self::Transfer => "ot",
            Self::Garbled => "garble",
            Self::Gates => "gates",
            Self::Truncation => "truncation",
            Self::Values => "values",
            Self::Service => "service",
        })
    }
}

/// What a party spends its time on, apart from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Linear layers under encryption.
    Homomorphic,
    /// Oblivious transfer.
    Transfer,
    /// Garbling, labels, evaluation.
    Garbling,
    /// Signs as shared bits, and values times them.
    Gates,
    /// Linear steps on shares.
    Linear,
    /// Truncation at positions without ReLU.
    Truncation,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Self; 6] =
        [Self::Homomorphic, Self::Gates, Self::Garbling, Self::Transfer, Self::Linear, Self::Truncation];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Homomorphic => "he",
            Self::Transfer => "ot",
            Self::Garbling => "garble",
            Self::Gates => "gates",
            Self::Linear => "linear",
            Self::Truncation => "truncation",
        }
    }
}

/// Bytes and changes of direction in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From client to server.
    pub bytes_up: u64,
    /// From server to client.
    pub bytes_down: u64,
    /// Changes of direction; the first message is one.
    pub rounds: u64,
}

/// One party's count of everything that crossed the connection.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    phases: Vec<(Phase, Traffic)>,
    kinds: Vec<((Phase, Kind), u64)>,
    work: Vec<((Phase, Work), Duration)>,
    last: Option<(Phase, bool)>,
}

impl Transcript {
    /// Notes a message.
    pub(crate) fn note(&mut self, phase: Phase, kind: Kind, is_upward: bool, bytes: u64) {
        let traffic = entry(&mut self.phases, phase);
        if is_upward {
            traffic.bytes_up += bytes;
        } else {
            traffic.bytes_down += bytes;
        }
        if bytes > 0 && self.last != Some((phase, is_upward)) {
            traffic.rounds += 1;
            self.last = Some((phase, is_upward));
        }
        *entry(&mut self.kinds, (phase, kind)) += bytes;
    }

    /// Notes work that took so long.
    pub(crate) fn took(&mut self, phase: Phase, work: Work, time: Duration) {
        *entry(&mut self.work, (phase, work)) += time;
    }

    /// Time spent on one kind of work in one phase.
    pub fn work(&self, phase: Phase, work: Work) -> Duration {
        self.work.iter().find(|(found, _)| *found == (phase, work)).map_or(Duration::ZERO, |(_, time)| *time)
    }

    /// What crossed in one phase.
    pub fn phase(&self, phase: Phase) -> Traffic {
        self.phases
            .iter()
            .find(|(found, _)| *found == phase)
            .map_or_else(Traffic::default, |(_, traffic)| *traffic)
    }

    /// Bytes in one phase, both directions.
    pub fn bytes(&self, phase: Phase) -> u64 {
        let traffic = self.phase(phase);
        traffic.bytes_up + traffic.bytes_down
    }

    /// Bytes of one kind in one phase, both directions.
    pub fn kind(&self, phase: Phase, kind: Kind) -> u64 {
        self.kinds.iter().find(|(found, _)| *found == (phase, kind)).map_or(0, |(_, bytes)| *bytes)
    }
}

fn entry<K: PartialEq, V: Default>(list: &mut Vec<(K, V)>, key: K) -> &mut V {
    let position = list.iter().position(|(found, _)| *found == key).unwrap_or_else(|| {
        list.push((key, V::default()));
        list.len() - 1
    });
    &mut list[position].1
}
