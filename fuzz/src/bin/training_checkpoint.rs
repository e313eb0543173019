//! A checkpoint's folder: refused, or written and read back as itself; what it holds is refused or used.
//!
//! The input is `state.json`, a zero byte, the length of the mask in one byte, the mask, and the file of the weights,
//! which serves as that of the optimizer too.
#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use recipes::checkpoint::{Checkpoint, Part};
use serde_json::{Value, json};

static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("sordino-fuzz-checkpoint-{}", std::process::id()));
    fs::create_dir_all(path.join("read")).expect("a folder for temporary files");
    path
});

/// The least size of a shard.
const SHARD_BYTES: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let (state, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let (mask_bytes, rest) = rest.split_first().unwrap_or((&0, &[]));
    let (mask, weights) = rest.split_at(rest.len().min(usize::from(*mask_bytes)));
    let files =
        [("weights.safetensors", weights), ("optimizer.safetensors", weights), ("mask.sordino-mask", mask)];
    let folder = SCRATCH.join("read");
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).expect("the folder can be written");
    }
    check(&folder, state);
    // A second look at the same state with lengths and digests that match, so that the fuzzer gets past them.
    if let Ok(Value::Object(mut state)) = serde_json::from_slice(state) {
        let entry = |(name, bytes): (&str, &[u8])| json!({"name": name, "bytes": bytes.len(), "digest": blake3::hash(bytes).to_hex().as_str()});
        let count = if mask.is_empty() { 2 } else { 3 };
        state.insert("files".to_owned(), files.into_iter().take(count).map(entry).collect());
        check(&folder, &serde_json::to_vec(&state).expect("it was just read"));
    }
});

fn check(folder: &Path, state: &[u8]) {
    fs::write(folder.join("state.json"), state).expect("the folder can be written");
    for part in [Part::Description, Part::Weights] {
        let _ = Checkpoint::load(folder, part);
    }
    let Ok(checkpoint) = Checkpoint::load(folder, Part::All) else { return };
    let written =
        checkpoint.save(&SCRATCH.join("written"), SHARD_BYTES).expect("what was read can be written");
    assert_eq!(Checkpoint::load(&written, Part::All).expect("it was just written"), checkpoint);
    // As the trainer shows it and goes on with it.
    let _ = checkpoint.state.recipe.to_toml();
    if let Ok(spec) = checkpoint.spec() {
        let _ = checkpoint.mask(&spec);
        let _ = checkpoint.float_weights(&spec);
    }
}
