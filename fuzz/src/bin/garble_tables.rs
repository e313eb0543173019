//! Garbled tables from the server: the client refuses wrong lengths and evaluates anything else without a
//! panic.
#![no_main]

use std::sync::Arc;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use crypto::garble::evaluator::ChunkEvaluator;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::WireLabel;
use crypto::garble::messages::{ActiveLabels, GarbledChunk};
use crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [lanes, tables @ ..] = data else { return };
    let lanes = usize::from(*lanes);
    let shape = ReluShape::new(3, 1, 5, Rounding::Floor, ReluForm::Projection).expect("a valid shape");
    let circuit = Arc::new(shape.circuit());
    let decoded = GarbledChunk::from_bytes(&circuit, lanes, tables.to_vec());
    assert_eq!(decoded.is_ok(), (1..=64).contains(&lanes) && tables.len() == circuit.table_bytes(lanes));
    let Ok(tables) = decoded else { return };
    let mut counters = HashCounter::new().take(circuit.hash_count()).expect("a fresh counter");
    let key = HashKey::from_bytes([7; 16]);
    let evaluator = ChunkEvaluator::new(&circuit, lanes, key, &mut counters).expect("enough counters");
    let labels = vec![WireLabel::from(5); circuit.client_wires() * lanes];
    let prepared = evaluator.receive(tables, labels).expect("material of the chunk");
    let labels = vec![3; circuit.label_bytes(lanes)];
    let labels = ActiveLabels::from_bytes(&circuit, lanes, labels).expect("labels of the chunk");
    let mut workspace = Workspace::new(CpuFeatures::available());
    let reply =
        prepared.evaluate(&labels, &vec![0; lanes], &mut workspace).expect("an evaluation never fails");
    assert_eq!(reply.as_bytes().len(), circuit.reply_bytes(lanes));
});
