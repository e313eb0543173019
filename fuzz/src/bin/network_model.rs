//! A model file: refused, or a model that is written and read back. Version 1 has one byte form for a model.
#![no_main]

use libfuzzer_sys::fuzz_target;
use network::inference_model::InferenceModel;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // A second look at the same body behind good headers and digests, so that the fuzzer gets past them.
    for version in [1, 2] {
        let body = [&b"SRDNMODL"[..], &[version, 0, 0, 0], bytes].concat();
        check(&[&body[..], blake3::hash(&body).as_bytes()].concat());
    }
});

fn check(bytes: &[u8]) {
    if let Ok(model) = InferenceModel::from_bytes(bytes) {
        assert_eq!(InferenceModel::from_bytes(&model.to_bytes()).expect("it was just written"), model);
        if bytes[8] == 1 {
            assert_eq!(*model.digest().as_bytes(), bytes[bytes.len() - 32..]);
        }
    }
}
