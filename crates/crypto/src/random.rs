//! Where randomness comes from: root seeds from the system, everything else derived from them.
//!
//! A [`Seed`] is 32 secret bytes. [`Seed::derive`] makes another one for a named purpose ([`Domain`]) at a named
//! place ([`Scope`]) by BLAKE3's key derivation, and [`Seed::generator`] spends a seed on a ChaCha20 stream. Root
//! seeds are drawn per inference from the operating system; no generator is ever saved, cloned or rewound.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::domain::{self, Domain};
use crate::secret::Secret;

/// The hash that names a session: protocol version, both nonces, outline, commitment, plan, terms, depth of transfers and
/// the channel enter it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionId(pub [u8; 32]);

impl SessionId {
    /// The id of the same session's transfers in the other direction, where the server chooses and the client has the
    /// offset. Keys, trees and checks are bound to an id, so the two directions have none in common.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self(blake3::derive_key(domain::OT_REVERSE.context(), &self.0))
    }
}

/// The name of one inference: the first 8 bytes of its session's id, then its number in the session. All zero for what
/// belongs to no single inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InferenceId(pub [u8; 16]);

/// Whose message the randomness is for. Its number stands in every derived seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// From client to server.
    ClientToServer = 0,
    /// From server to client.
    ServerToClient = 1,
}

/// The place a derived seed belongs to; two places never share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The session; for what all sessions of a served model share, what names the model.
    pub session: SessionId,
    /// The inference within it.
    pub inference: InferenceId,
    /// The step of the plan, 0 for the inference as a whole; for keys the number of their ring.
    pub step: u32,
    /// The direction of the message.
    pub direction: Direction,
}

impl Scope {
    fn to_bytes(self) -> [u8; 53] {
        let mut bytes = [0; 53];
        bytes[..32].copy_from_slice(&self.session.0);
        bytes[32..48].copy_from_slice(&self.inference.0);
        bytes[48..52].copy_from_slice(&self.step.to_le_bytes());
        bytes[52] = self.direction as u8;
        bytes
    }
}

/// 32 secret bytes from which one generator or further seeds are made.
#[derive(Debug, PartialEq, Eq)]
pub struct Seed(Secret<[u8; 32]>);

impl Seed {
    /// A fresh root seed from the operating system.
    ///
    /// # Errors
    /// When the system has no entropy source to offer.
    pub fn from_system() -> Result<Self, SystemRandomError> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|source| SystemRandomError { source })?;
        Ok(Self::from_bytes(bytes))
    }

    /// A seed with known bytes: what oblivious transfer handed over, or a test's fixed seed.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Secret::new(bytes))
    }

    /// The seed for one purpose at one place.
    #[must_use]
    pub fn derive(&self, domain: Domain, scope: &Scope) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(domain.context());
        hasher.update(self.0.expose());
        hasher.update(&scope.to_bytes());
        Self::from_bytes(*hasher.finalize().as_bytes())
    }

    /// Spends the seed on a stream of random bytes.
    pub fn generator(self) -> Generator {
        Generator(ChaCha20Rng::from_seed(*self.0.expose()))
    }

    /// The bytes, for tools that key their own expansion with them.
    pub fn expose(&self) -> &[u8; 32] {
        self.0.expose()
    }
}

/// A ChaCha20 stream. It is neither cloned nor saved, and wipes its state on drop.
pub struct Generator(ChaCha20Rng);

impl Generator {
    /// Fills the slice with uniform bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A uniform 64-bit integer.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform 128-bit integer.
    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) | u128::from(self.next_u64()) << 64
    }

    /// A uniform array of bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A fresh seed drawn from this stream.
    pub fn seed(&mut self) -> Seed {
        Seed::from_bytes(self.array())
    }
}

impl std::fmt::Debug for Generator {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Generator(..)")
    }
}

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no random bytes; private inference cannot start without them")]
pub struct SystemRandomError {
    source: getrandom::Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain;

    fn scope() -> Scope {
        Scope {
            session: SessionId([1; 32]),
            inference: InferenceId([2; 16]),
            step: 3,
            direction: Direction::ClientToServer,
        }
    }

    #[test]
    fn every_part_of_a_scope_changes_the_seed() {
        let root = Seed::from_bytes([9; 32]);
        let base = root.derive(domain::BLIND, &scope());
        assert_eq!(base, root.derive(domain::BLIND, &scope()));
        let others = [
            root.derive(domain::HE_MASK, &scope()),
            root.derive(domain::BLIND, &Scope { session: SessionId([4; 32]), ..scope() }),
            root.derive(domain::BLIND, &Scope { inference: InferenceId([4; 16]), ..scope() }),
            root.derive(domain::BLIND, &Scope { step: 4, ..scope() }),
            root.derive(domain::BLIND, &Scope { direction: Direction::ServerToClient, ..scope() }),
            Seed::from_bytes([8; 32]).derive(domain::BLIND, &scope()),
        ];
        for other in others {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_other_direction_has_an_id_of_its_own() {
        let ids = [SessionId([1; 32]), SessionId([2; 32])];
        let all = [ids[0], ids[1], ids[0].reversed(), ids[1].reversed(), ids[0].reversed().reversed()];
        for (index, id) in all.iter().enumerate() {
            assert!(!all[..index].contains(id));
        }
        assert_eq!(ids[0].reversed(), SessionId([1; 32]).reversed());
    }

    #[test]
    fn system_seeds_differ() {
        assert_ne!(Seed::from_system().unwrap(), Seed::from_system().unwrap());
    }

    #[test]
    fn generators_and_seeds_print_nothing() {
        let seed = Seed::from_bytes([5; 32]);
        assert_eq!(format!("{seed:?}"), "Seed(Secret(..))");
        assert_eq!(format!("{:?}", seed.generator()), "Generator(..)");
    }
}
