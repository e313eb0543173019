//! SHA-256 and HMAC over it.

use hmac::{KeyInit, Mac};
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::crypto::hmac::{Hmac, Key, Tag};
use sha2::Digest;

const BYTES: usize = 32;

/// FIPS 180-4.
pub(super) struct Sha256;

impl Hash for Sha256 {
    fn start(&self) -> Box<dyn Context> {
        Box::new(Running(sha2::Sha256::new()))
    }

    fn hash(&self, data: &[u8]) -> Output {
        Output::new(&sha2::Sha256::digest(data))
    }

    fn output_len(&self) -> usize {
        BYTES
    }

    fn algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }
}

struct Running(sha2::Sha256);

impl Context for Running {
    fn fork_finish(&self) -> Output {
        Output::new(&self.0.clone().finalize())
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.clone()))
    }

    fn finish(self: Box<Self>) -> Output {
        Output::new(&self.0.finalize())
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }
}

/// RFC 2104.
pub(super) struct HmacSha256;

type Sha256Mac = hmac::Hmac<sha2::Sha256>;

impl Hmac for HmacSha256 {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(Keyed(Sha256Mac::new_from_slice(key).expect("HMAC takes keys of any length")))
    }

    fn hash_output_len(&self) -> usize {
        BYTES
    }
}

struct Keyed(Sha256Mac);

impl Key for Keyed {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut mac = self.0.clone();
        mac.update(first);
        middle.iter().for_each(|part| mac.update(part));
        mac.update(last);
        Tag::new(&mac.finalize().into_bytes())
    }

    fn tag_len(&self) -> usize {
        BYTES
    }
}
