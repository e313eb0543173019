//! Kept halves of a prepared inference, of either party: whatever the bytes, they are refused or read back the same.
#![no_main]

use std::sync::{Arc, OnceLock};

use crypto::secret::Secret;
use inference::client::PreparedClient;
use inference::plan::Reveal;
use inference::server::{ServedModel, StoredServer, WeightMemory};
use libfuzzer_sys::fuzz_target;
use network::inference_model::InferenceModel;

const MODEL: &[u8] = include_bytes!("../../../crates/inference/tests/golden/model-v1");
const CLIENT: &[u8] = include_bytes!("../../../crates/inference/tests/golden/kept-client-v4");
const SERVER: &[u8] = include_bytes!("../../../crates/inference/tests/golden/kept-server-v4");

fn served() -> &'static Arc<ServedModel> {
    static SERVED: OnceLock<Arc<ServedModel>> = OnceLock::new();
    SERVED.get_or_init(|| {
        let model = InferenceModel::from_bytes(MODEL).expect("the golden model");
        let served = ServedModel::new(&model, Reveal::Logits, WeightMemory::AtMost(0));
        Arc::new(served.expect("a plan"))
    })
}

/// The golden bytes with the input written over them from some place on, and cut or grown by a little.
fn changed(golden: &[u8], place: usize, length: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = golden.to_vec();
    let place = place % bytes.len();
    for (byte, other) in bytes[place..].iter_mut().zip(data) {
        *byte = *other;
    }
    match length {
        0 => bytes.truncate(place),
        1 => bytes.push(0),
        _ => {}
    }
    bytes
}

fuzz_target!(|data: &[u8]| {
    let [low, high, length, is_server, data @ ..] = data else { return };
    let place = usize::from(*low) | usize::from(*high) << 8;
    let served = served();
    if is_server & 1 == 1 {
        let bytes = changed(SERVER, place, *length, data);
        if let Ok(prepared) = StoredServer::from_bytes(Secret::new(bytes.clone())).revive(served) {
            assert_eq!(prepared.into_stored().into_bytes().expose(), &bytes);
        }
    } else {
        let bytes = changed(CLIENT, place, *length, data);
        if let Ok(prepared) = PreparedClient::from_bytes(served.plan(), &Secret::new(bytes.clone())) {
            assert_eq!(prepared.into_bytes(served.plan()).expect("the same plan").expose(), &bytes);
        }
    }
});
