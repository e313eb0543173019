//! A model file: refused, or written back to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use network::inference_model::InferenceModel;

fuzz_target!(|bytes: &[u8]| {
    // A second look at the same body behind a good header and digest, so that the fuzzer gets past them.
    let body = [&b"SRDNMODL\x01\0\0\0"[..], bytes].concat();
    let sealed = [&body[..], blake3::hash(&body).as_bytes()].concat();
    for candidate in [bytes, &sealed[..]] {
        if let Ok(model) = InferenceModel::from_bytes(candidate) {
            assert_eq!(model.to_bytes(), candidate);
        }
    }
});
