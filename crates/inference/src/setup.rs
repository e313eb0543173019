//! Once per connection: who we are, which model it is, keys and base transfers.
//!
//! ```text
//! client -> server   version, nonce
//! server -> client   version, nonce, what the client will learn, outline
//! client -> server   public keys of the encryption, point of the base transfers
//! server -> client   points of the base transfers
//! client -> server   sums of the trees
//! ```
//!
//! The session id hashes protocol version, both nonces, what the client will learn and the outline's digest (and, over TLS, the channel's
//! binding), so that nothing made in one session means anything in another.

use crypto::domain;
use crypto::random::{Direction, InferenceId, Scope, SessionId};

use crate::plan::Reveal;

/// The version both parties must speak.
pub(crate) const PROTOCOL_VERSION: u32 = 1;
/// Bytes of a nonce.
pub(crate) const NONCE_BYTES: usize = 32;
/// Version and nonce.
pub(crate) const HELLO_BYTES: usize = 4 + NONCE_BYTES;
/// The largest outline a client accepts.
pub(crate) const MAX_OUTLINE_BYTES: u64 = 64 << 20;

/// What both nonces and the outline agree on.
pub(crate) fn session_id(
    client_nonce: &[u8; NONCE_BYTES],
    server_nonce: &[u8; NONCE_BYTES],
    outline: &[u8],
    reveal: Reveal,
    channel_binding: &[u8],
) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key(domain::SESSION_ID.context());
    hasher.update(&PROTOCOL_VERSION.to_le_bytes());
    hasher.update(client_nonce);
    hasher.update(server_nonce);
    hasher.update(blake3::hash(outline).as_bytes());
    hasher.update(&[reveal_byte(reveal)]);
    hasher.update(&(channel_binding.len() as u64).to_le_bytes());
    hasher.update(channel_binding);
    SessionId(*hasher.finalize().as_bytes())
}

/// How the server says what the client will learn. It decides: a client that expects something else hangs up.
pub(crate) const fn reveal_byte(reveal: Reveal) -> u8 {
    match reveal {
        Reveal::Logits => 0,
        Reveal::Class => 1,
    }
}

/// The scope of what belongs to the session as a whole.
pub(crate) fn session_scope(session: SessionId, direction: Direction, step: u32) -> Scope {
    Scope { session, inference: InferenceId([0; 16]), step, direction }
}

/// The name of the n-th inference of a session.
pub(crate) fn inference_id(session: SessionId, number: u64) -> InferenceId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&session.0[..8]);
    bytes[8..].copy_from_slice(&(number + 1).to_le_bytes());
    InferenceId(bytes)
}
