//! Any bytes as a server's answer, or as second halves that were kept: refused, or read, decrypted without a panic, and written
//! back unchanged.
#![no_main]

use std::sync::LazyLock;

use crypto::he::{
    ClientKey, ConvolutionShape, Halves, HeOutline, HeParameters, Layout, LinearAnswer, LinearShape,
    SecondHalves, WeightBits,
};
use crypto::random::{Direction, InferenceId, Scope, Seed, SessionId};
use libfuzzer_sys::fuzz_target;

/// Rings with one and with two kept primes, and the client's keys.
static CLIENTS: LazyLock<[(Layout, ClientKey); 2]> = LazyLock::new(|| {
    [32, 64].map(|ring_bits| {
        let shape = LinearShape::Convolution(ConvolutionShape::same(3, 3, 5, 3));
        let outline = HeOutline::from_layers(ring_bits, WeightBits::Eight, vec![shape]);
        let parameters = HeParameters::from_outline(&outline).expect("a small layer");
        let scope = Scope {
            session: SessionId([1; 32]),
            inference: InferenceId([2; 16]),
            step: 0,
            direction: Direction::ClientToServer,
        };
        let key = ClientKey::generate(&parameters, &Seed::from_bytes([5; 32]), &scope);
        (Layout::new(&parameters, &shape).expect("announced"), key)
    })
});

fuzz_target!(|data: &[u8]| {
    for (layout, key) in &*CLIENTS {
        let _ = LinearAnswer::from_bytes(layout, Halves::First, data);
        let _ = SecondHalves::from_bytes(layout, data);
        if data.is_empty() {
            continue;
        }
        let length = LinearAnswer::length(layout, Halves::Both);
        let bytes: Vec<u8> = data.iter().copied().cycle().take(length).collect();
        if let Ok(mut answer) = LinearAnswer::from_bytes(layout, Halves::Both, &bytes) {
            assert!(answer.to_bytes() == bytes);
            let second = answer.take_second_halves().expect("both halves were read");
            assert!(SecondHalves::from_bytes(layout, &second.to_bytes()).as_ref() == Ok(&second));
            let share = key.decrypt(layout, &second, &answer).expect("the layout's own length");
            assert_eq!(share.expose().len(), layout.shape().output_values());
        }
    }
});
