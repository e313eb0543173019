//! A layer of equal circuits, cut into chunks: what both parties derive from the plan.

use std::ops::Range;
use std::sync::Arc;

use super::bits::{for_each_wire, pack};
use super::circuit::Circuit;
use super::error::{Counted, GarbleError, check_count};
use super::evaluator::ChunkEvaluator;
use super::garbler::ChunkGarbler;
use super::hash::{CounterRange, HashKey, MAX_LANES};
use crate::random::Generator;
use crate::secret::Secret;

/// Many instances of one circuit. Chunks of 64 run in lock-step; the last may be shorter.
///
/// Chunks are independent: each has its own counters, labels and messages, so a layer of millions streams
/// through the memory of one chunk, and chunks may be spread over threads.
#[derive(Clone, Debug)]
pub struct Layer {
    circuit: Arc<Circuit>,
    instances: usize,
}

impl Layer {
    /// A layer of this many instances.
    pub fn new(circuit: Arc<Circuit>, instances: usize) -> Self {
        Self { circuit, instances }
    }

    /// The circuit of one instance.
    pub fn circuit(&self) -> &Arc<Circuit> {
        &self.circuit
    }

    /// How many instances.
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// How many chunks.
    pub fn chunk_count(&self) -> usize {
        self.instances.div_ceil(MAX_LANES)
    }

    /// The instances of each chunk in turn.
    pub fn chunks(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let instances = self.instances;
        (0..self.chunk_count()).map(move |chunk| MAX_LANES * chunk..instances.min(MAX_LANES * (chunk + 1)))
    }

    /// Hash counters that the layer takes.
    pub fn hash_count(&self) -> u64 {
        self.circuit.hash_count() * self.chunk_count() as u64
    }

    /// Oblivious transfers that the layer takes.
    pub fn transfer_count(&self) -> usize {
        self.circuit.client_wires() * self.instances
    }

    /// Bytes of all garbled tables.
    pub fn table_bytes(&self) -> usize {
        self.chunks().map(|chunk| self.circuit.table_bytes(chunk.len())).sum()
    }

    /// Bytes of the server's online messages.
    pub fn label_bytes(&self) -> usize {
        self.chunks().map(|chunk| self.circuit.label_bytes(chunk.len())).sum()
    }

    /// Bytes of the evaluator's replies.
    pub fn reply_bytes(&self) -> usize {
        self.chunks().map(|chunk| self.circuit.reply_bytes(chunk.len())).sum()
    }

    /// The server's chunks, which take exactly [`Layer::hash_count`] counters.
    ///
    /// # Errors
    /// When the counters do not suffice.
    pub fn garblers(
        &self,
        key: HashKey,
        counters: &mut CounterRange,
        generator: &mut Generator,
    ) -> Result<Vec<ChunkGarbler>, GarbleError> {
        let mut counters = counters.take(self.hash_count())?;
        self.chunks()
            .map(|chunk| ChunkGarbler::new(&self.circuit, chunk.len(), key, &mut counters, generator))
            .collect()
    }

    /// The client's chunks, which take exactly [`Layer::hash_count`] counters.
    ///
    /// # Errors
    /// When the counters do not suffice.
    pub fn evaluators(
        &self,
        key: HashKey,
        counters: &mut CounterRange,
    ) -> Result<Vec<ChunkEvaluator>, GarbleError> {
        let mut counters = counters.take(self.hash_count())?;
        self.chunks()
            .map(|chunk| ChunkEvaluator::new(&self.circuit, chunk.len(), key, &mut counters))
            .collect()
    }
}

impl Circuit {
    /// The client's choice bits of a chunk, lowest bit of each byte first: bit j chooses in the j-th
    /// oblivious transfer, whose output is the j-th label of the client's wires. Values come lane after lane,
    /// one per entry of the circuit's client widths.
    ///
    /// # Errors
    /// When there are not as many values as the chunk takes.
    pub fn choices(&self, lanes: usize, values: &[u64]) -> Result<Secret<Vec<u8>>, GarbleError> {
        super::circuit::check_lanes(lanes)?;
        check_count(Counted::ClientValues, self.client_widths().len() * lanes, values.len())?;
        let mut words = Secret::new(Vec::with_capacity(self.client_wires()));
        for_each_wire(values, self.client_widths(), |_, word| words.expose_mut().push(word));
        Ok(Secret::new(pack(words.expose(), lanes as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garble::hash::HashCounter;
    use crate::garble::relu::{ReluForm, ReluShape, Rounding};
    use crate::random::Seed;

    fn layer(instances: usize) -> Layer {
        let shape = ReluShape::new(32, 12, 32, Rounding::Floor, ReluForm::Projection).unwrap();
        Layer::new(Arc::new(shape.circuit()), instances)
    }

    #[test]
    fn a_layer_is_cut_into_chunks_of_64_and_a_rest() {
        let chunks: Vec<_> = layer(130).chunks().collect();
        assert_eq!(chunks, [0..64, 64..128, 128..130]);
        assert_eq!(layer(0).chunks().count(), 0);
        assert_eq!(layer(130).table_bytes(), 130 * 1148);
        assert_eq!(layer(130).label_bytes(), 130 * 512);
        assert_eq!(layer(130).reply_bytes(), 130 * 4);
        assert_eq!(layer(130).transfer_count(), 130 * 32);
    }

    #[test]
    fn a_layer_takes_its_counters_and_no_more() {
        let layer = layer(130);
        let mut counters = HashCounter::new().take(3 * 82).unwrap();
        let mut generator = Seed::from_bytes([1; 32]).generator();
        let key = HashKey::random(&mut generator);
        assert_eq!(layer.garblers(key, &mut counters, &mut generator).unwrap().len(), 3);
        assert_eq!(counters.remaining(), 0);
        assert!(matches!(
            layer.evaluators(key, &mut counters),
            Err(GarbleError::CountersExhausted { asked: 246, left: 0 })
        ));
    }

    #[test]
    fn choices_stand_by_wire_then_lane() {
        let shape = ReluShape::new(3, 1, 3, Rounding::Floor, ReluForm::Projection).unwrap();
        let circuit = shape.circuit();
        assert_eq!(circuit.choices(2, &[0b110, 0b011]).unwrap().expose()[..], [0b01_11_10]);
        assert!(circuit.choices(2, &[1]).is_err());
    }
}
