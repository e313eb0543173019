//! Circuits as data: gates over numbered wires, two parties' inputs, and what becomes of the output.
//!
//! One circuit describes one lane. The garbler, the evaluator and the oracle in the clear all walk the same
//! gates. A wire belongs to its lane alone: there are no constant wires, and NOT only exchanges a wire's two
//! labels.

mod arithmetic;
mod builder;
mod clear;

pub use builder::Builder;

use super::bits::packed_length;
use super::error::GarbleError;
use super::hash::MAX_LANES;
use super::label::WireLabel;

/// A wire of a circuit under construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire(u32);

impl Wire {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a gate computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The first two inputs' XOR; free.
    Xor,
    /// The XOR of three inputs; free.
    Parity,
    /// The first input's complement; free.
    Not,
    /// The first two inputs' AND.
    And,
    /// Whether at least two of three inputs are one: an adder's carry, for the price of an AND.
    Majority,
}

impl Operation {
    /// How many inputs the gate reads.
    pub fn arity(self) -> usize {
        match self {
            Self::Not => 1,
            Self::Xor | Self::And => 2,
            Self::Parity | Self::Majority => 3,
        }
    }

    /// Whether the gate costs a garbled table.
    pub fn is_garbled(self) -> bool {
        matches!(self, Self::And | Self::Majority)
    }
}

/// A gate: an operation on places, which are wires in [`Circuit::gates`] and slots of labels in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What it computes.
    pub operation: Operation,
    /// The places it reads; entries behind the operation's arity repeat the first.
    pub inputs: [u32; 3],
    /// The place it writes.
    pub out: u32,
}

/// A wire and the number its bit stands for, modulo the output ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// The wire.
    pub wire: Wire,
    /// What a one on it is worth; negative weights as their two's complement.
    pub weight: u64,
}

/// An additive share made by projection rows: `select * sum(selected) + sum(plain)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Bits of the ring of the share.
    pub output_bits: u32,
    /// Counted where the select wire is one.
    pub selected: Option<Selection>,
    /// Counted always.
    pub plain: Vec<Term>,
}

/// The terms that one wire switches on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The switch.
    pub select: Wire,
    /// What it switches.
    pub terms: Vec<Term>,
}

impl Projection {
    /// Bytes of one entry of a row.
    pub(super) fn entry_bytes(&self) -> usize {
        self.output_bits.div_ceil(8) as usize
    }

    fn rows(&self) -> usize {
        self.plain.len() + self.selected.as_ref().map_or(0, |selection| selection.terms.len() + 1)
    }

    fn bytes_per_lane(&self) -> usize {
        let selected = self.selected.as_ref().map_or(0, |selection| 2 * selection.terms.len() + 1);
        (selected + self.plain.len()) * self.entry_bytes()
    }

    fn wires(&self) -> impl Iterator<Item = Wire> {
        let selected = self.selected.iter();
        let selected = selected
            .flat_map(|selection| selection.terms.iter().map(|term| term.wire).chain([selection.select]));
        selected.chain(self.plain.iter().map(|term| term.wire))
    }
}

/// What becomes of the output wires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// An additive share: the evaluator returns the masked sum less its blind.
    Share(Projection),
    /// The evaluator returns colors, the permute bits stay with the garbler, who learns the value: it must be
    /// blinded by an input. Lowest bit first.
    Colors(Vec<Wire>),
    /// The evaluator alone learns the value. Lowest bit first.
    Decoded(Vec<Wire>),
}

impl Output {
    /// Bits of the value that comes out.
    pub fn bits(&self) -> u32 {
        match self {
            Self::Share(projection) => projection.output_bits,
            Self::Colors(wires) | Self::Decoded(wires) => wires.len() as u32,
        }
    }
}

/// A circuit for one lane, checked and ready to garble.
#[derive(Clone, Debug)]
pub struct Circuit {
    server_widths: Vec<u32>,
    client_widths: Vec<u32>,
    gates: Vec<Gate>,
    and_count: usize,
    output: Output,
    /// The gates on slots instead of wires: a slot is reused when the last gate that reads it is done.
    program: Vec<Gate>,
    slots: usize,
    /// The output with slots in place of wires.
    slot_output: Output,
}

impl Circuit {
    /// Widths of the values that the server puts in, in order.
    pub fn server_widths(&self) -> &[u32] {
        &self.server_widths
    }

    /// Widths of the values that the client puts in, in order.
    pub fn client_widths(&self) -> &[u32] {
        &self.client_widths
    }

    /// The gates in the order of their wires: inputs come first, then one wire per gate.
    pub fn gates(&self) -> &[Gate] {
        &self.gates
    }

    /// What becomes of the output wires.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Gates that cost a garbled table.
    pub fn and_count(&self) -> usize {
        self.and_count
    }

    /// Projection rows of bits, not counting the one of the select wire.
    pub fn row_count(&self) -> usize {
        match &self.output {
            Output::Share(projection) => projection.rows() - usize::from(projection.selected.is_some()),
            Output::Colors(_) | Output::Decoded(_) => 0,
        }
    }

    /// Hash counters that one chunk of this circuit takes.
    pub fn hash_count(&self) -> u64 {
        let rows = match &self.output {
            Output::Share(projection) => projection.rows(),
            Output::Colors(_) | Output::Decoded(_) => 0,
        };
        (2 * self.and_count() + rows) as u64
    }

    /// The server's input wires.
    pub fn server_wires(&self) -> usize {
        self.server_widths.iter().sum::<u32>() as usize
    }

    /// The client's input wires: the oblivious transfers that a lane takes.
    pub fn client_wires(&self) -> usize {
        self.client_widths.iter().sum::<u32>() as usize
    }

    /// Bits of the value that comes out.
    pub fn output_bits(&self) -> u32 {
        self.output.bits()
    }

    /// Length of the garbled tables of a chunk.
    pub fn table_bytes(&self, lanes: usize) -> usize {
        let rows = match &self.output {
            Output::Share(projection) => projection.bytes_per_lane(),
            Output::Colors(_) | Output::Decoded(_) => 0,
        };
        lanes * (32 * self.and_count() + rows)
    }

    /// Length of the server's online message of a chunk: its active labels, and the decoding bits if there
    /// are any.
    pub fn label_bytes(&self, lanes: usize) -> usize {
        let decoding = match &self.output {
            Output::Decoded(wires) => packed_length(lanes, wires.len() as u32),
            Output::Share(_) | Output::Colors(_) => 0,
        };
        lanes * self.server_wires() * WireLabel::BYTES + decoding
    }

    /// Length of the evaluator's reply of a chunk.
    pub fn reply_bytes(&self, lanes: usize) -> usize {
        match &self.output {
            Output::Decoded(_) => 0,
            Output::Share(_) | Output::Colors(_) => packed_length(lanes, self.output_bits()),
        }
    }

    pub(super) fn program(&self) -> &[Gate] {
        &self.program
    }

    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn slot_output(&self) -> &Output {
        &self.slot_output
    }
}

/// Refuses a number of lanes that one hash key must not serve.
pub(super) fn check_lanes(lanes: usize) -> Result<(), GarbleError> {
    if (1..=MAX_LANES).contains(&lanes) { Ok(()) } else { Err(GarbleError::Lanes { lanes }) }
}
