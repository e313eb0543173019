//! The client's file of prepared inferences: head, description and slots, refused or written back to the same bytes.
//!
//! The decoders are taken from the client's own source, with a seal that lets everything through: behind the real one,
//! which only the owner's key opens, no fuzzer would ever come.
#![no_main]
#![allow(dead_code, unused_imports, reason = "the decoders alone are of interest")]

// The decoders find the seal, the token and the errors of files here.
extern crate self as sealed;

#[path = "../../../crates/client/src/prepared_file/error.rs"]
mod error;
#[path = "../../../crates/client/src/prepared_file/format.rs"]
mod format;

pub mod secret_file {
    #[derive(Debug, thiserror::Error)]
    #[error("no file is touched here")]
    pub struct SecretFileError;
}

pub mod seal {
    use crypto::domain::Domain;
    use crypto::secret::Secret;

    pub const OVERHEAD: usize = 28;

    pub fn derive_key(_domain: Domain, key: &[u8; 32], _name: &[u8]) -> Secret<[u8; 32]> {
        Secret::new(*key)
    }

    pub fn open(_key: &Secret<[u8; 32]>, _data: &[u8], sealed: &[u8]) -> Result<Secret<Vec<u8>>, ()> {
        let end = sealed.len().checked_sub(16).ok_or(())?;
        Ok(Secret::new(sealed.get(12..end).ok_or(())?.to_vec()))
    }
}

#[derive(Debug)]
pub struct ClientToken([u8; 32]);

impl ClientToken {
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

use std::path::Path;

use crypto::secret::Secret;
use format::{HEADER_BYTES, Head, SLOT_BYTES, Slot, read_description};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let path = Path::new("file");
    if let Some(head) = data.first_chunk::<HEADER_BYTES>()
        && let Ok(head) = Head::from_bytes(path, head)
    {
        assert_eq!(head.to_bytes()[..], data[..HEADER_BYTES]);
        // No sum of what a header may say overflows.
        assert!(head.body(head.slots) >= head.slot(0));
    }
    if let Ok(description) = read_description(path, &Secret::new([0; 32]), data) {
        let bytes = description.to_bytes();
        assert_eq!(data[HEADER_BYTES + 12..][..bytes.expose().len()], bytes.expose()[..]);
    }
    if let Some(slot) = data.first_chunk::<SLOT_BYTES>().and_then(Slot::from_bytes) {
        assert_eq!(slot.id.0[..], data[8..24]);
        assert_eq!(slot.expires.to_le_bytes()[..], data[24..32]);
    }
});
