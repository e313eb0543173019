//! The cryptography of TLS 1.3 in Rust alone, for processors that know nothing of it.
//!
//! One suite, TLS_CHACHA20_POLY1305_SHA256 (RFC 8446, RFC 8439): neither cipher nor authenticator looks into tables.
//! One exchange, X25519 (RFC 7748). Two kinds of signatures, those of the certificates that servers make themselves:
//! ECDSA over P-256 with SHA-256, and Ed25519. A server has all of them in common with every other client.

mod exchange;
mod hashes;
mod records;
mod signatures;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::SigningKey;
use rustls::{CipherSuite, CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

/// All of it, for a client without a certificate of its own.
pub fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls13(&SUITE)],
        kx_groups: vec![&exchange::X25519],
        signature_verification_algorithms: signatures::ALGORITHMS,
        secure_random: &SystemRandom,
        key_provider: &NoKeys,
    }
}

static SUITE: Tls13CipherSuite = Tls13CipherSuite {
    common: CipherSuiteCommon {
        suite: CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
        hash_provider: &hashes::Sha256,
        // RFC 9147, section 4.5.3: no limit that a connection could reach.
        confidentiality_limit: u64::MAX,
    },
    hkdf_provider: &rustls::crypto::tls13::HkdfUsingHmac(&hashes::HmacSha256),
    aead_alg: &records::ChaCha20Poly1305,
    quic: None,
};

/// The system's, which in a browser is `crypto.getRandomValues`.
#[derive(Debug)]
struct SystemRandom;

impl SecureRandom for SystemRandom {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), GetRandomFailed> {
        getrandom::fill(buffer).map_err(|_| GetRandomFailed)
    }
}

/// Clients in a browser show no certificate.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _key: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, rustls::Error> {
        Err(rustls::Error::General("a client in a browser has no key of its own".to_owned()))
    }
}
