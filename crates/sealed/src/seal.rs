//! Sealing by AES-256-GCM under keys that each seal one thing.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use crypto::domain::Domain;
use crypto::random::{Seed, SystemRandomError};
use crypto::secret::Secret;

/// Bytes that sealing adds: nonce and tag.
pub const OVERHEAD: usize = NONCE_LEN + 16;

/// What is sealed does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is sealed does not open: another key, other associated data, or damage")]
pub struct NotOpened;

/// The key for one thing, from a long-lived key and the thing's random name.
pub fn derive_key(domain: Domain, key: &[u8; 32], name: &[u8]) -> Secret<[u8; 32]> {
    let mut hasher = blake3::Hasher::new_derive_key(domain.context());
    hasher.update(key).update(name);
    Secret::new(*hasher.finalize().as_bytes())
}

/// Nonce, sealed bytes, tag.
///
/// # Errors
/// When the system has no randomness for a nonce.
pub fn seal(key: &Secret<[u8; 32]>, data: &[u8], plain: &[u8]) -> Result<Vec<u8>, SystemRandomError> {
    let random = Seed::from_system()?;
    let nonce: [u8; NONCE_LEN] = *random.expose().first_chunk().expect("a seed is longer than a nonce");
    let mut bytes = Vec::with_capacity(OVERHEAD + plain.len());
    bytes.extend_from_slice(&nonce);
    bytes.extend_from_slice(plain);
    let (_, text) = bytes.split_at_mut(NONCE_LEN);
    let tag = cipher(key)
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(data), text)
        .expect("what is sealed is far below the cipher's limit");
    bytes.extend_from_slice(tag.as_ref());
    Ok(bytes)
}

/// What was sealed under this key with this associated data.
///
/// # Errors
/// When it does not open.
pub fn open(key: &Secret<[u8; 32]>, data: &[u8], sealed: &[u8]) -> Result<Secret<Vec<u8>>, NotOpened> {
    let (nonce, text) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(NotOpened)?;
    let mut plain = Secret::new(text.to_vec());
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let opened = cipher(key).open_in_place(nonce, Aad::from(data), plain.expose_mut());
    let length = opened.map_err(|_| NotOpened)?.len();
    plain.expose_mut().truncate(length);
    Ok(plain)
}

fn cipher(key: &Secret<[u8; 32]>) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.expose()).expect("a key has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_data_open_what_was_sealed() {
        let (key, other) = (Secret::new([1; 32]), Secret::new([2; 32]));
        let mut sealed = seal(&key, b"data", b"secret").unwrap();
        assert_eq!(sealed.len(), OVERHEAD + 6);
        assert_eq!(open(&key, b"data", &sealed).unwrap().expose(), b"secret");
        assert!(open(&other, b"data", &sealed).is_err());
        assert!(open(&key, b"date", &sealed).is_err());
        assert!(open(&key, b"data", &sealed[..OVERHEAD - 1]).is_err());
        assert!(open(&key, b"data", &[]).is_err());
        assert_ne!(seal(&key, b"data", b"secret").unwrap(), sealed, "nonces are fresh");
        sealed[NONCE_LEN] ^= 1;
        assert!(open(&key, b"data", &sealed).is_err());
    }
}
