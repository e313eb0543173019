//! A client's right to what it prepared.

use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;

/// What a client makes when it prepares and presents when it classifies. The store keeps a hash of it.
#[derive(Debug)]
pub struct ClientToken(Secret<[u8; 32]>);

impl ClientToken {
    /// A fresh one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn random() -> Result<Self, SystemRandomError> {
        Ok(Self::from_bytes(*Seed::from_system()?.expose()))
    }

    /// The one with these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Secret::new(bytes))
    }

    /// Its bytes, which are the client's right to its inferences.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// What the server learns when it prepares.
    pub fn hash(&self) -> [u8; 32] {
        *blake3::hash(self.expose()).as_bytes()
    }
}
