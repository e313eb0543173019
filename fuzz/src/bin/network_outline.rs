//! A model outline, as it comes from the peer: refused, or written back to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use network::inference_model::ModelOutline;

fuzz_target!(|bytes: &[u8]| {
    // A second look at the same body behind a good header and digest, so that the fuzzer gets past them.
    let body = [&b"SRDNOUTL\x01\0\0\0"[..], bytes].concat();
    let sealed = [&body[..], blake3::hash(&body).as_bytes()].concat();
    for candidate in [bytes, &sealed[..]] {
        if let Ok(outline) = ModelOutline::from_bytes(candidate) {
            assert_eq!(outline.to_bytes(), candidate);
            assert!(outline.schedule().round_trips() <= outline.steps.len());
        }
    }
});
