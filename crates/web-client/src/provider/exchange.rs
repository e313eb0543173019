//! The key exchange X25519 (RFC 7748).

use curve25519_dalek::MontgomeryPoint;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup, PeerMisbehaved};
use zeroize::Zeroizing;

/// The group.
#[derive(Debug)]
pub(super) struct X25519;

impl SupportedKxGroup for X25519 {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut secret = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *secret).map_err(|_| Error::FailedToGetRandomBytes)?;
        let public = MontgomeryPoint::mul_base_clamped(*secret).to_bytes();
        Ok(Box::new(Started { secret, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct Started {
    secret: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl ActiveKeyExchange for Started {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let peer = <[u8; 32]>::try_from(peer).map_err(|_| PeerMisbehaved::InvalidKeyShare)?;
        let shared = Zeroizing::new(MontgomeryPoint(peer).mul_clamped(*self.secret).to_bytes());
        // A point of small order: what came of it would be no secret (RFC 7748, section 6.1). All of it is looked at.
        if shared.iter().fold(0, |bits, byte| bits | byte) == 0 {
            return Err(PeerMisbehaved::InvalidKeyShare.into());
        }
        Ok(SharedSecret::from(&shared[..]))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;
    use network::digest::from_hex;

    fn bytes(hex: &str) -> [u8; 32] {
        from_hex(hex).unwrap()
    }

    /// RFC 7748, section 6.1: Bob's key and Alice's share.
    #[test]
    fn the_published_exchange_gives_the_published_secret() {
        let bob = bytes("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
        let alice = bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let started = Started {
            secret: Zeroizing::new(bob),
            public: MontgomeryPoint::mul_base_clamped(bob).to_bytes(),
        };
        let public = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f";
        assert_eq!(started.pub_key(), bytes(public));
        let shared = Box::new(started).complete(&alice).unwrap();
        let expected = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742";
        assert_eq!(shared.secret_bytes(), bytes(expected));
    }

    #[test]
    fn shares_of_small_order_or_of_another_length_are_refused() {
        for peer in [&[0; 32][..], &[1; 31], &[1; 33], &[]] {
            assert!(X25519.start().unwrap().complete(peer).is_err(), "{peer:?}");
        }
    }
}
