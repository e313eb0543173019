//! Prepared material read back from storage: wrong lengths and counters are refused without a panic.
#![no_main]

use std::sync::Arc;

use crypto::garble::evaluator::PreparedEvaluator;
use crypto::garble::garbler::PreparedGarbler;
use crypto::garble::relu::{ReluForm, ReluShape, Rounding};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let [lanes, stored @ ..] = data else { return };
    let lanes = usize::from(*lanes);
    let shape = ReluShape::new(3, 1, 5, Rounding::Floor, ReluForm::Projection).expect("a valid shape");
    let circuit = Arc::new(shape.circuit());
    if let Ok(prepared) = PreparedGarbler::from_bytes(&circuit, lanes, stored) {
        assert_eq!(prepared.into_bytes().expose(), stored);
    }
    if let Ok(prepared) = PreparedEvaluator::from_bytes(&circuit, lanes, stored) {
        assert_eq!(prepared.into_bytes().expose(), stored);
    }
});
