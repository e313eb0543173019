//! What can be wrong with a message or a request to this module.

/// A refusal: what was expected and what came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GarbleError {
    /// An offset whose lowest bit is zero.
    #[error("the lowest bit of a free-XOR offset must be one")]
    EvenOffset,
    /// A message of the peer has the wrong length.
    #[error("peer sent {came} bytes of {message}, this step has {expected}")]
    MessageLength {
        /// The message.
        message: Message,
        /// Its length by the plan.
        expected: usize,
        /// The length that came.
        came: usize,
    },
    /// A message has bits set behind its last value.
    #[error("peer set padding bits behind the last value of {message}")]
    Padding {
        /// The message.
        message: Message,
    },
    /// The caller handed over the wrong number of values.
    #[error("{came} {what} were given, this step takes {expected}")]
    Count {
        /// What was counted.
        what: Counted,
        /// How many the step takes.
        expected: usize,
        /// How many were given.
        came: usize,
    },
    /// A chunk must hold between one and 64 lanes: more would share one hash key too widely.
    #[error("{lanes} lanes in one chunk; a chunk has 1 to 64")]
    Lanes {
        /// The lanes asked for.
        lanes: usize,
    },
    /// A range of hash counters is too short for the work.
    #[error("{left} hash counters left, {asked} needed")]
    CountersExhausted {
        /// The counters needed.
        asked: u64,
        /// The counters left.
        left: u64,
    },
    /// A shape that no circuit can be built for.
    #[error("{what} is {came}, it must lie in {least}..={most}")]
    Shape {
        /// The parameter.
        what: &'static str,
        /// Its least value.
        least: u64,
        /// Its greatest value.
        most: u64,
        /// The value that came.
        came: u64,
    },
    /// The circuit's output is decoded by the other party, or by no one alone.
    #[error("this circuit's output is not of the kind asked for")]
    OutputKind,
}

/// The messages of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Garbled tables of a chunk.
    Tables,
    /// The server's active labels of a chunk.
    Labels,
    /// The evaluator's reply.
    Reply,
    /// The server's offline message of a truncation.
    TruncationOffer,
    /// The server's online bits of a truncation.
    TruncationOpening,
    /// The client's online reply of a truncation.
    TruncationReply,
    /// The server's offline message of gates.
    GateOffer,
    /// The client's offline message of gates.
    GateAdvance,
    /// The server's online message of gates.
    GateOpening,
    /// The client's online reply of gates.
    GateReply,
    /// Prepared material read back from storage.
    Prepared,
}

impl std::fmt::Display for Message {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Tables => "garbled tables",
            Self::Labels => "active labels",
            Self::Reply => "evaluator's reply",
            Self::TruncationOffer => "truncation offer",
            Self::TruncationOpening => "truncation opening",
            Self::TruncationReply => "truncation reply",
            Self::GateOffer => "gate offer",
            Self::GateAdvance => "gate advance",
            Self::GateOpening => "gate opening",
            Self::GateReply => "gate reply",
            Self::Prepared => "prepared material",
        })
    }
}

/// What a caller may hand over in the wrong number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Labels of the client's input wires.
    ClientLabels,
    /// Labels of transfers in the other direction.
    ReverseLabels,
    /// The server's input values.
    ServerValues,
    /// The client's input values.
    ClientValues,
    /// The client's blinds.
    Blinds,
    /// Slopes of gated values.
    Slopes,
    /// What truncated values are multiplied by.
    Factors,
}

impl std::fmt::Display for Counted {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::ClientLabels => "client labels",
            Self::ReverseLabels => "labels of reverse transfers",
            Self::ServerValues => "server values",
            Self::ClientValues => "client values",
            Self::Blinds => "blinds",
            Self::Slopes => "slopes",
            Self::Factors => "factors",
        })
    }
}

/// Refuses a message of the wrong length.
pub(super) fn check_length(message: Message, expected: usize, came: usize) -> Result<(), GarbleError> {
    if expected == came { Ok(()) } else { Err(GarbleError::MessageLength { message, expected, came }) }
}

/// Refuses a wrong number of values.
pub(super) fn check_count(what: Counted, expected: usize, came: usize) -> Result<(), GarbleError> {
    if expected == came { Ok(()) } else { Err(GarbleError::Count { what, expected, came }) }
}

/// Refuses a parameter out of its range.
pub(super) fn check_shape(what: &'static str, least: u64, most: u64, came: u64) -> Result<(), GarbleError> {
    if (least..=most).contains(&came) { Ok(()) } else { Err(GarbleError::Shape { what, least, most, came }) }
}
