//! The server's side of a chunk: garble offline, encode its shares online, unmask the reply.

use std::sync::Arc;

use super::bits::{for_each_wire, low_bits, pack, packed_length, unpack};
use super::circuit::{Circuit, Output, check_lanes};
use super::error::{Counted, GarbleError, Message, check_count, check_length};
use super::hash::{CounterRange, HashKey, KeyStream};
use super::label::{LabelSeed, Offset, WireLabel};
use super::messages::{ActiveLabels, GarbledChunk, Reply};
use super::projection::RowContext;
use super::workspace::Workspace;
use crate::random::Generator;
use crate::secret::Secret;

/// The right to garble one chunk once: its counters and fresh labels.
#[derive(Debug)]
pub struct ChunkGarbler {
    circuit: Arc<Circuit>,
    lanes: usize,
    key: HashKey,
    counters: CounterRange,
    labels: LabelSeed,
}

impl ChunkGarbler {
    /// A chunk whose counters are the next of `counters`.
    ///
    /// # Errors
    /// When the lanes do not make a chunk or the counters do not suffice.
    pub fn new(
        circuit: &Arc<Circuit>,
        lanes: usize,
        key: HashKey,
        counters: &mut CounterRange,
        generator: &mut Generator,
    ) -> Result<Self, GarbleError> {
        check_lanes(lanes)?;
        let counters = counters.take(circuit.hash_count())?;
        let labels = LabelSeed::random(generator);
        Ok(Self { circuit: Arc::clone(circuit), lanes, key, counters, labels })
    }

    /// Lanes of the chunk.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// Garbles the chunk. `client_labels` are the zero labels of the client's wires, by wire, then lane: what
    /// the correlated oblivious transfer left with the server.
    ///
    /// # Errors
    /// When there are not as many labels as client wires and lanes.
    pub fn garble(
        self,
        offset: &Offset,
        client_labels: &[WireLabel],
        workspace: &mut Workspace,
    ) -> Result<(GarbledChunk, PreparedGarbler), GarbleError> {
        let mut tables = vec![0; self.circuit.table_bytes(self.lanes)];
        let prepared = self.garble_into(offset, client_labels, &mut tables, workspace)?;
        Ok((GarbledChunk(tables), prepared))
    }

    /// Like [`ChunkGarbler::garble`], with the tables written to bytes that the caller has room for, such as
    /// the frame it is about to send: fresh memory for each chunk would cost more than garbling.
    ///
    /// # Errors
    /// Also when `tables` has not the length of the chunk's tables.
    pub fn garble_into(
        self,
        offset: &Offset,
        client_labels: &[WireLabel],
        tables: &mut [u8],
        workspace: &mut Workspace,
    ) -> Result<PreparedGarbler, GarbleError> {
        let (circuit, lanes) = (self.circuit, self.lanes);
        check_length(Message::Tables, circuit.table_bytes(lanes), tables.len())?;
        check_count(Counted::ClientLabels, circuit.client_wires() * lanes, client_labels.len())?;
        workspace.prepare(&circuit, lanes, offset.expose());
        let server_wires = circuit.server_wires();
        self.labels.expand(workspace.kernel, workspace.labels.first_slots(server_wires));
        for (wire, labels) in client_labels.chunks_exact(lanes).enumerate() {
            for (slot, label) in workspace.labels.of_mut(server_wires + wire).iter_mut().zip(labels) {
                *slot = label.0;
            }
        }
        let mut keys = KeyStream::new(workspace.kernel, self.key, self.counters);
        let (gates, rows) = tables.split_at_mut(32 * lanes * circuit.and_count());
        garble_gates(&circuit, lanes, offset.expose(), &mut keys, workspace, gates);
        let output = garble_output(&circuit, lanes, offset.expose(), &mut keys, workspace, rows);
        Ok(PreparedGarbler { circuit, lanes, labels: self.labels, output: Secret::new(output) })
    }
}

fn garble_gates(
    circuit: &Circuit,
    lanes: usize,
    offset: u128,
    keys: &mut KeyStream,
    workspace: &mut Workspace,
    tables: &mut [u8],
) {
    let Workspace { kernel, labels, scratch } = workspace;
    let stride = labels.stride();
    let mut tables = tables.chunks_exact_mut(32 * lanes);
    for gate in circuit.program() {
        if !gate.operation.is_garbled() {
            labels.run_free_gate(*kernel, gate);
            continue;
        }
        let table = tables.next().expect("the tables have room for every gate");
        let (batch, key) = keys.take(2);
        labels.with_and(gate, |inputs, out| {
            if stride == lanes {
                kernel.garble_and(batch, key, offset, inputs, out, table);
            } else {
                kernel.garble_and(batch, key, offset, inputs, out, &mut scratch.table);
                let (generator, evaluator) = table.split_at_mut(16 * lanes);
                generator.copy_from_slice(&scratch.table[..16 * lanes]);
                evaluator.copy_from_slice(&scratch.table[16 * stride..][..16 * lanes]);
            }
        });
    }
}

/// Per lane, the mask of the share or the permute bits of the output wires.
fn garble_output(
    circuit: &Circuit,
    lanes: usize,
    offset: u128,
    keys: &mut KeyStream,
    workspace: &mut Workspace,
    tables: &mut [u8],
) -> Vec<u64> {
    let Workspace { kernel, labels, scratch } = workspace;
    match circuit.slot_output() {
        Output::Share(projection) => {
            let mut rows = RowContext { kernel: *kernel, keys, labels, scratch, lanes };
            rows.garble(projection, offset, tables)
        }
        Output::Colors(wires) | Output::Decoded(wires) => labels.colors(wires, lanes),
    }
}

/// What the server keeps of a garbled chunk: good for one inference. Known to the server only.
#[derive(Debug)]
pub struct PreparedGarbler {
    circuit: Arc<Circuit>,
    lanes: usize,
    labels: LabelSeed,
    output: Secret<Vec<u64>>,
}

impl PreparedGarbler {
    /// The message that carries the server's inputs, and what remains to be done with the reply. Values come
    /// lane after lane, one per entry of the circuit's server widths.
    ///
    /// # Errors
    /// When there are not as many values as the chunk takes.
    pub fn encode(
        self,
        offset: &Offset,
        values: &[u64],
        workspace: &mut Workspace,
    ) -> Result<(ActiveLabels, WaitingGarbler), GarbleError> {
        let mut bytes = vec![0; self.circuit.label_bytes(self.lanes)];
        let waiting = self.encode_into(offset, values, &mut bytes, workspace)?;
        Ok((ActiveLabels(bytes), waiting))
    }

    /// Like [`PreparedGarbler::encode`], with the message written to bytes that the caller has room for.
    ///
    /// # Errors
    /// Also when `message` has not the length of the chunk's labels.
    pub fn encode_into(
        self,
        offset: &Offset,
        values: &[u64],
        message: &mut [u8],
        workspace: &mut Workspace,
    ) -> Result<WaitingGarbler, GarbleError> {
        let (circuit, lanes) = (self.circuit, self.lanes);
        check_count(Counted::ServerValues, circuit.server_widths().len() * lanes, values.len())?;
        check_length(Message::Labels, circuit.label_bytes(lanes), message.len())?;
        workspace.prepare(&circuit, lanes, 0);
        self.labels.expand(workspace.kernel, workspace.labels.first_slots(circuit.server_wires()));
        let offset = offset.expose();
        let (labels, decoding) = message.split_at_mut(16 * lanes * circuit.server_wires());
        let (labels, _) = labels.as_chunks_mut::<16>();
        for_each_wire(values, circuit.server_widths(), |wire, word| {
            let active = &mut labels[wire * lanes..][..lanes];
            for (lane, (active, zero)) in active.iter_mut().zip(workspace.labels.of(wire)).enumerate() {
                let mask = u128::from(word >> lane & 1).wrapping_neg();
                *active = (zero ^ (mask & offset)).to_le_bytes();
            }
        });
        if let Output::Decoded(wires) = circuit.output() {
            // The permute bits go out with the inputs, not with the tables: before the inputs are fixed they
            // would bind a simulator to an output it cannot know.
            decoding.copy_from_slice(&pack(self.output.expose(), wires.len() as u32));
        }
        Ok(WaitingGarbler { circuit, lanes, output: self.output })
    }

    /// Length of the bytes below.
    pub fn stored_bytes(circuit: &Circuit, lanes: usize) -> usize {
        LabelSeed::BYTES + packed_length(lanes, circuit.output_bits())
    }

    /// The secret bytes to store until the inference: the seed of the labels and, per lane, what unmasks the
    /// reply. Whoever stores them must see to it that they are used once.
    pub fn into_bytes(self) -> Secret<Vec<u8>> {
        let bits = self.circuit.output_bits();
        let mut bytes = Secret::new(Vec::with_capacity(Self::stored_bytes(&self.circuit, self.lanes)));
        bytes.expose_mut().extend_from_slice(&self.labels.to_bytes());
        bytes.expose_mut().extend_from_slice(Secret::new(pack(self.output.expose(), bits)).expose());
        bytes
    }

    /// Reads stored bytes back.
    ///
    /// # Errors
    /// When the lanes do not make a chunk, the length is not theirs or bits behind the last value are set.
    pub fn from_bytes(circuit: &Arc<Circuit>, lanes: usize, bytes: &[u8]) -> Result<Self, GarbleError> {
        check_lanes(lanes)?;
        check_length(Message::Prepared, Self::stored_bytes(circuit, lanes), bytes.len())?;
        let (seed, words) = bytes.split_first_chunk().expect("the length was checked");
        let output = Secret::new(unpack(Message::Prepared, words, lanes, circuit.output_bits())?);
        Ok(Self { circuit: Arc::clone(circuit), lanes, labels: LabelSeed::from_bytes(seed), output })
    }
}

/// What turns the evaluator's reply into the server's shares.
#[derive(Debug)]
pub struct WaitingGarbler {
    circuit: Arc<Circuit>,
    lanes: usize,
    output: Secret<Vec<u64>>,
}

impl WaitingGarbler {
    /// The server's share of each lane: the circuit's value less the client's blind.
    ///
    /// # Errors
    /// When the reply sets bits behind its last value, or the circuit's output is the client's alone.
    pub fn finish(self, reply: Reply) -> Result<Secret<Vec<u64>>, GarbleError> {
        let bits = self.circuit.output_bits();
        let mut values = Secret::new(unpack(Message::Reply, &reply.0, self.lanes, bits)?);
        let secrets = self.output.expose();
        match self.circuit.output() {
            Output::Share(_) => {
                for (value, mask) in values.expose_mut().iter_mut().zip(secrets) {
                    *value = value.wrapping_sub(*mask) & low_bits(bits);
                }
            }
            Output::Colors(_) => {
                for (value, permute) in values.expose_mut().iter_mut().zip(secrets) {
                    *value ^= permute;
                }
            }
            Output::Decoded(_) => return Err(GarbleError::OutputKind),
        }
        Ok(values)
    }
}
