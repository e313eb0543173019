//! A mask file for a known network: refused, or written back to the same bytes.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use network::mask::ActivationMask;
use network::spec::NetworkSpec;

static SPEC: LazyLock<NetworkSpec> =
    LazyLock::new(|| network::zoo::build("resnet10:m=3", 8, 10).expect("a network of the zoo"));

fuzz_target!(|bytes: &[u8]| {
    // A second look at the same body with a digest that matches, so that the fuzzer gets past it.
    let sealed = [bytes, blake3::hash(bytes).as_bytes()].concat();
    for candidate in [bytes, &sealed[..]] {
        if let Ok(mask) = ActivationMask::from_bytes(candidate, &*SPEC) {
            assert_eq!(mask.to_bytes(), candidate);
        }
    }
});
