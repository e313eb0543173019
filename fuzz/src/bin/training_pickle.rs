//! A file of a CIFAR python release: refused or read, never run, with no value in it that the file is too short for.
//!
//! The reader is taken from the trainer's own source; a whole release in a folder would only be slower.
#![no_main]

#[path = "../../../crates/recipes/src/data/pickle.rs"]
mod pickle;

use libfuzzer_sys::fuzz_target;
use pickle::Value;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = pickle::read(bytes) {
        check(&value, bytes.len());
    }
});

fn check(value: &Value, file_bytes: usize) {
    match value {
        Value::List(items) | Value::Tuple(items) => items.iter().for_each(|item| check(item, file_bytes)),
        Value::Dictionary(items) => items.values().for_each(|item| check(item, file_bytes)),
        Value::Bytes(bytes) => assert!(bytes.len() < file_bytes),
        Value::Matrix { rows, columns, bytes } => {
            assert!(bytes.len() < file_bytes);
            assert_eq!(rows.checked_mul(*columns), Some(bytes.len()));
        }
        Value::Nothing | Value::Truth(_) | Value::Integer(_) | Value::Global(_) | Value::Unbuilt(_) => {}
    }
}
