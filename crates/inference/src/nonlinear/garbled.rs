//! Half-gate circuits: tables offline, labels online, in chunks that stream through the memory of a few.

mod client;
mod server;

use crypto::garble::clip::ClipShape;
use crypto::garble::layer::Layer;
use crypto::garble::relu::ReluShape;
use crypto::ring::RingVector;
use crypto::secret::Secret;

use super::{Part, PartBytes, PartCounts, PartMemory, WORD_BYTES, low_bits};
use crate::transcript::Kind;

/// Bytes of a label.
const LABEL_BYTES: usize = 16;

/// Instances of one circuit.
#[derive(Debug)]
pub(super) struct GarbledPart {
    layer: Layer,
    encoding: Encoding,
    /// For each instance, the input values it reads, in a row.
    inputs: Vec<u32>,
    /// For each instance, the output value it makes.
    outputs: Vec<u32>,
    /// Whether the client decodes the outcome instead of replying with it.
    tells_client: bool,
}

/// How a share becomes a circuit's input.
#[derive(Clone, Copy, Debug)]
pub(super) enum Encoding {
    Relu(ReluShape),
    Clip(ClipShape),
    /// Reduced to so many bits.
    Reduced(u32),
}

impl GarbledPart {
    pub(super) fn new(layer: Layer, encoding: Encoding, inputs: Vec<u32>, outputs: Vec<u32>) -> Self {
        Self { layer, encoding, inputs, outputs, tells_client: false }
    }

    /// The same, with an outcome that the client decodes.
    pub(super) fn that_tells_the_client(self) -> Self {
        Self { tells_client: true, ..self }
    }

    /// Inputs of each instance.
    fn arity(&self) -> usize {
        self.inputs.len() / self.outputs.len()
    }

    /// The server's inputs, from its share of the whole value.
    fn server_inputs(&self, share: &RingVector) -> Secret<Vec<u64>> {
        self.encode(share, |shape, share| shape.server_input(share))
    }

    /// The client's inputs, from its share of the whole value.
    fn client_inputs(&self, share: &RingVector) -> Secret<Vec<u64>> {
        self.encode(share, |shape, share| shape.client_input(share))
    }

    fn encode(&self, share: &RingVector, relu: impl Fn(&ReluShape, u64) -> u64) -> Secret<Vec<u64>> {
        let words = Secret::new(share.to_unsigned());
        let encode = |position: &u32| {
            let word = words.expose()[*position as usize];
            match &self.encoding {
                Encoding::Relu(shape) => relu(shape, word),
                Encoding::Clip(shape) => relu(shape.relu(), word),
                Encoding::Reduced(bits) => word & low_bits(*bits),
            }
        };
        Secret::new(self.inputs.iter().map(encode).collect())
    }
}

impl Part for GarbledPart {
    fn kind(&self) -> Kind {
        Kind::Garbled
    }

    fn counts(&self) -> PartCounts {
        PartCounts { relus: self.layer.instances(), ..PartCounts::default() }
    }

    fn bytes(&self) -> PartBytes {
        let reply = if self.tells_client { 0 } else { self.layer.reply_bytes() };
        PartBytes { offer: self.layer.table_bytes(), advance: 0, opening: self.layer.label_bytes(), reply }
    }

    fn transfer_count(&self) -> usize {
        let wires = self.layer.circuit().client_wires();
        self.layer.chunks().map(|chunk| (chunk.len() * wires).next_multiple_of(8)).sum()
    }

    fn memory(&self) -> PartMemory {
        let instances = self.layer.instances();
        PartMemory {
            client_tables: self.layer.table_bytes(),
            client_labels: instances * self.layer.circuit().client_wires() * LABEL_BYTES,
            client_shares: instances * WORD_BYTES,
            server: instances * WORD_BYTES,
        }
    }
}
