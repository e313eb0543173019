//! The client's side of a chunk: keep the tables with its own labels, then evaluate once.

use std::sync::Arc;

use super::bits::{low_bits, pack, unpack};
use super::circuit::{Circuit, Output, check_lanes};
use super::error::{Counted, GarbleError, Message, check_count, check_length};
use super::hash::{CounterRange, HashKey, KeyStream};
use super::label::WireLabel;
use super::messages::{ActiveLabels, GarbledChunk, Reply};
use super::projection::RowContext;
use super::workspace::Workspace;
use crate::secret::{Secret, Wipe};

/// The right to evaluate one chunk once: the same counters that the garbler took.
#[derive(Debug)]
pub struct ChunkEvaluator {
    circuit: Arc<Circuit>,
    lanes: usize,
    key: HashKey,
    counters: CounterRange,
}

impl ChunkEvaluator {
    /// A chunk whose counters are the next of `counters`.
    ///
    /// # Errors
    /// When the lanes do not make a chunk or the counters do not suffice.
    pub fn new(
        circuit: &Arc<Circuit>,
        lanes: usize,
        key: HashKey,
        counters: &mut CounterRange,
    ) -> Result<Self, GarbleError> {
        check_lanes(lanes)?;
        let counters = counters.take(circuit.hash_count())?;
        Ok(Self { circuit: Arc::clone(circuit), lanes, key, counters })
    }

    /// Lanes of the chunk.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Keeps the tables and the labels of the client's inputs, by wire, then lane: what the oblivious
    /// transfer gave.
    ///
    /// # Errors
    /// When there are not as many labels as client wires and lanes, or the tables are another chunk's.
    pub fn receive(
        self,
        tables: GarbledChunk,
        client_labels: Vec<WireLabel>,
    ) -> Result<PreparedEvaluator, GarbleError> {
        check_length(Message::Tables, self.circuit.table_bytes(self.lanes), tables.0.len())?;
        check_count(Counted::ClientLabels, self.circuit.client_wires() * self.lanes, client_labels.len())?;
        Ok(PreparedEvaluator { chunk: self, tables, client_labels: Secret::new(client_labels) })
    }
}

/// What the client keeps of a garbled chunk: good for one inference.
#[derive(Debug)]
pub struct PreparedEvaluator {
    chunk: ChunkEvaluator,
    tables: GarbledChunk,
    client_labels: Secret<Vec<WireLabel>>,
}

impl PreparedEvaluator {
    /// Evaluates and answers. A circuit with a shared output takes one blind per lane, which becomes the
    /// client's share; one that returns colors took its blinds as inputs, and here takes none.
    ///
    /// # Errors
    /// When the labels or blinds are not as many as the chunk takes, or the output is the client's alone.
    pub fn evaluate(
        self,
        server_labels: &ActiveLabels,
        blinds: &[u64],
        workspace: &mut Workspace,
    ) -> Result<Reply, GarbleError> {
        let (lanes, bits) = (self.chunk.lanes, self.chunk.circuit.output_bits());
        let expected = match self.chunk.circuit.output() {
            Output::Share(_) => lanes,
            Output::Colors(_) => 0,
            Output::Decoded(_) => return Err(GarbleError::OutputKind),
        };
        check_count(Counted::Blinds, expected, blinds.len())?;
        let mut values = self.run(server_labels, workspace)?;
        for (value, blind) in values.iter_mut().zip(blinds) {
            // The garbler sees only this difference; the blind was drawn offline and stays with the client.
            *value = value.wrapping_sub(*blind) & low_bits(bits);
        }
        let reply = Reply(pack(&values, bits));
        values.wipe();
        Ok(reply)
    }

    /// Evaluates a circuit whose output is the client's alone, and reads it.
    ///
    /// # Errors
    /// When the labels are not as many as the chunk takes, or the output is not the client's alone.
    pub fn decode(
        self,
        server_labels: &ActiveLabels,
        workspace: &mut Workspace,
    ) -> Result<Vec<u64>, GarbleError> {
        let (circuit, lanes) = (Arc::clone(&self.chunk.circuit), self.chunk.lanes);
        let Output::Decoded(wires) = circuit.output() else { return Err(GarbleError::OutputKind) };
        let mut colors = self.run(server_labels, workspace)?;
        let permute = &server_labels.0[16 * lanes * circuit.server_wires()..];
        let permute = unpack(Message::Labels, permute, lanes, wires.len() as u32)?;
        for (color, permute) in colors.iter_mut().zip(permute) {
            *color ^= permute;
        }
        Ok(colors)
    }

    /// Per lane, the masked sum or the colors of the output wires.
    fn run(self, server_labels: &ActiveLabels, workspace: &mut Workspace) -> Result<Vec<u64>, GarbleError> {
        let ChunkEvaluator { circuit, lanes, key, counters } = self.chunk;
        check_length(Message::Labels, circuit.label_bytes(lanes), server_labels.0.len())?;
        workspace.prepare(&circuit, lanes, 0);
        let server_wires = circuit.server_wires();
        let (server, _) = server_labels.0.as_chunks::<16>();
        for (wire, labels) in server.chunks_exact(lanes).take(server_wires).enumerate() {
            for (slot, label) in workspace.labels.of_mut(wire).iter_mut().zip(labels) {
                *slot = u128::from_le_bytes(*label);
            }
        }
        for (wire, labels) in self.client_labels.expose().chunks_exact(lanes).enumerate() {
            for (slot, label) in workspace.labels.of_mut(server_wires + wire).iter_mut().zip(labels) {
                *slot = label.0;
            }
        }
        let mut keys = KeyStream::new(workspace.kernel, key, counters);
        let (gates, rows) = self.tables.0.split_at(32 * lanes * circuit.and_count());
        evaluate_gates(&circuit, lanes, &mut keys, workspace, gates);
        let Workspace { kernel, labels, scratch } = workspace;
        Ok(match circuit.slot_output() {
            Output::Share(projection) => {
                let mut context = RowContext { kernel: *kernel, keys: &mut keys, labels, scratch, lanes };
                context.evaluate(projection, rows)
            }
            Output::Colors(wires) | Output::Decoded(wires) => labels.colors(wires, lanes),
        })
    }

    /// Length of the bytes below.
    pub fn stored_bytes(circuit: &Circuit, lanes: usize) -> usize {
        8 + HashKey::BYTES + circuit.table_bytes(lanes) + circuit.client_wires() * lanes * WireLabel::BYTES
    }

    /// The secret bytes to store until the inference. Whoever stores them must see to it that they are used
    /// once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let mut bytes = Vec::with_capacity(Self::stored_bytes(&self.chunk.circuit, self.chunk.lanes));
        bytes.extend_from_slice(&self.chunk.counters.position().to_le_bytes());
        bytes.extend_from_slice(&self.chunk.key.to_bytes());
        bytes.extend_from_slice(&self.tables.0);
        for label in self.client_labels.expose() {
            bytes.extend_from_slice(&label.to_bytes());
        }
        Secret::new(bytes)
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the lanes do not make a chunk, the length is not theirs or the counters run out.
    pub fn from_bytes(circuit: &Arc<Circuit>, lanes: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
        check_lanes(lanes)?;
        check_length(Message::Prepared, Self::stored_bytes(circuit, lanes), bytes.len())?;
        let (position, rest) = bytes.split_first_chunk().expect("the length was checked");
        let (key, rest) = rest.split_first_chunk().expect("the length was checked");
        let (tables, labels) = rest.split_at(circuit.table_bytes(lanes));
        let counters = CounterRange::restored(u64::from_le_bytes(*position), circuit.hash_count())?;
        let labels = labels.as_chunks().0.iter().map(|label| WireLabel::from_bytes(*label)).collect();
        let chunk =
            ChunkEvaluator { circuit: Arc::clone(circuit), lanes, key: HashKey::from_bytes(*key), counters };
        chunk.receive(GarbledChunk(tables.to_vec()), labels)
    }
}

fn evaluate_gates(
    circuit: &Circuit,
    lanes: usize,
    keys: &mut KeyStream,
    workspace: &mut Workspace,
    tables: &[u8],
) {
    let Workspace { kernel, labels, scratch } = workspace;
    let stride = labels.stride();
    let mut tables = tables.chunks_exact(32 * lanes);
    for gate in circuit.program() {
        if !gate.operation.is_garbled() {
            labels.run_free_gate(*kernel, gate);
            continue;
        }
        let table = tables.next().expect("the tables hold every gate");
        let (batch, key) = keys.take(2);
        labels.with_and(gate, |inputs, out| {
            if stride == lanes {
                kernel.evaluate_and(batch, key, inputs, out, table);
            } else {
                let (generator, evaluator) = table.split_at(16 * lanes);
                scratch.table[..16 * lanes].copy_from_slice(generator);
                scratch.table[16 * stride..][..16 * lanes].copy_from_slice(evaluator);
                kernel.evaluate_and(batch, key, inputs, out, &scratch.table);
            }
        });
    }
}
