//! Any bytes as a client's public key: refused, or read and written back unchanged.
#![no_main]

use std::sync::LazyLock;

use crypto::he::{ClientKey, HeOutline, HeParameters, PublicKey, PublicSeed, WeightBits};
use crypto::random::{Direction, InferenceId, Scope, Seed, SessionId};
use libfuzzer_sys::fuzz_target;

/// The session and an honest key.
struct Session {
    parameters: HeParameters,
    seed: PublicSeed,
    honest: Vec<u8>,
}

static SESSION: LazyLock<Session> = LazyLock::new(|| {
    let outline = HeOutline::from_taps(32, WeightBits::Eight, 4608);
    let parameters = HeParameters::from_outline(&outline).expect("the working point");
    let seed = PublicSeed::derive(&[3; 32]);
    let scope = Scope {
        session: SessionId([1; 32]),
        inference: InferenceId([2; 16]),
        step: 0,
        direction: Direction::ClientToServer,
    };
    let root = Seed::from_bytes([5; 32]);
    let honest = ClientKey::generate(&parameters, &root, &scope).public_key(&seed, &root, &scope);
    Session { honest: honest.to_bytes(&parameters), parameters, seed }
});

fuzz_target!(|data: &[u8]| {
    let session = &*SESSION;
    let _ = PublicKey::from_bytes(&session.parameters, &session.seed, data);
    // The fuzzer's bytes over an honest key: the first two say where.
    if let [first, second, patch @ ..] = data {
        let mut bytes = session.honest.clone();
        let start = usize::from(u16::from_le_bytes([*first, *second])) % bytes.len();
        bytes[start..].iter_mut().zip(patch).for_each(|(byte, patch)| *byte = *patch);
        if let Ok(key) = PublicKey::from_bytes(&session.parameters, &session.seed, &bytes) {
            assert!(key.to_bytes(&session.parameters) == bytes);
        }
    }
});
