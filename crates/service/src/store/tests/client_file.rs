//! A client's file whose inferences are any bytes, for the tests of the store.

use std::path::{Path, PathBuf};

use client::prepared_file::{Chosen, Description, PreparedFile, PreparedFileError, StoredEntry};
use crypto::secret::Secret;
use inference::setup::messages::Agreement;
use network::digest::Digest;
use sealed::ClientToken;

/// The file and what it takes to open it, as a client that opens it anew for each use.
pub(super) struct BytesFile {
    path: PathBuf,
}

impl BytesFile {
    pub(super) fn create(path: &Path, body_bytes: u64, slots: u32) -> Self {
        let token = ClientToken::from_bytes([1; 32]);
        let agreement =
            Agreement { outline: Digest([0; 32]), commitment: Digest([0; 32]), plan: Digest([0; 32]) };
        let description = Description { token, server: String::new(), model: String::new(), agreement };
        PreparedFile::create_with(path, Secret::new([1; 32]), description, body_bytes, slots).unwrap();
        Self { path: path.to_owned() }
    }

    fn open(&self) -> PreparedFile {
        PreparedFile::open(&self.path, Secret::new([1; 32])).unwrap()
    }

    pub(super) fn add(&mut self, kept: StoredEntry, body: &[u8]) {
        self.open().add_bytes(kept, body).unwrap();
    }

    pub(super) fn choose(&self, now: i64) -> Option<Chosen> {
        match self.open().choose(now.unsigned_abs(), 1) {
            Ok(mut chosen) => chosen.pop(),
            Err(PreparedFileError::Empty { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(super) fn take(&mut self, chosen: Chosen) -> Vec<u8> {
        self.open().take_bytes(chosen).unwrap().1.expose().clone()
    }

    pub(super) fn discard(&mut self, chosen: Chosen) {
        self.open().discard(chosen).unwrap();
    }

    pub(super) fn read(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(super) fn write(&self, bytes: &[u8]) {
        std::fs::write(&self.path, bytes).unwrap();
    }
}
