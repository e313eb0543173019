//! Active labels and decoding bits from the server: the client refuses wrong lengths and padding, nothing
//! else.
#![no_main]

use std::sync::Arc;

use crypto::cpu::CpuFeatures;
use crypto::garble::Workspace;
use crypto::garble::argmax::ArgmaxShape;
use crypto::garble::evaluator::ChunkEvaluator;
use crypto::garble::hash::{HashCounter, HashKey};
use crypto::garble::label::WireLabel;
use crypto::garble::messages::{ActiveLabels, GarbledChunk};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [lanes, labels @ ..] = data else { return };
    let lanes = usize::from(*lanes);
    let circuit = Arc::new(ArgmaxShape::new(3, 2).expect("a valid shape").circuit());
    let decoded = ActiveLabels::from_bytes(&circuit, lanes, labels.to_vec());
    assert_eq!(decoded.is_ok(), (1..=64).contains(&lanes) && labels.len() == circuit.label_bytes(lanes));
    let Ok(labels) = decoded else { return };
    let mut counters = HashCounter::new().take(circuit.hash_count()).expect("a fresh counter");
    let key = HashKey::from_bytes([7; 16]);
    let evaluator = ChunkEvaluator::new(&circuit, lanes, key, &mut counters).expect("enough counters");
    let tables = vec![9; circuit.table_bytes(lanes)];
    let tables = GarbledChunk::from_bytes(&circuit, lanes, tables).expect("tables of the chunk");
    let own = vec![WireLabel::from(5); circuit.client_wires() * lanes];
    let prepared = evaluator.receive(tables, own).expect("material of the chunk");
    let mut workspace = Workspace::new(CpuFeatures::available());
    if let Ok(classes) = prepared.decode(&labels, &mut workspace) {
        assert!(classes.len() == lanes && classes.iter().all(|class| *class < 4));
    }
});
