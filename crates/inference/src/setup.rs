//! Once per connection: who we are, which model it is, base transfers.
//!
//! ```text
//! client -> server   hello: nonce, what it wants to learn, name of the model
//! server -> client   hello: nonce, what the client will learn, commitment to the weights, name, outline
//! client -> server   digests of outline, commitment and plan, whether it lacks second halves; point of the base transfers
//! server -> client   points of the base transfers; point of those in the other direction
//! client -> server   sums of the trees; points of the other direction
//! ```
//!
//! The server's sums of the other direction's trees come with the first inference: nobody waits for them here. Where no
//! step needs that direction it is left out.
//!
//! Nothing about model or image crosses before the TLS handshake is done; the model is described only after the
//! client named it and its version fits. The client then repeats digests of what it understood and derived, so that both
//! sides can name a difference. The session id hashes protocol version, both nonces, what the client will learn, commitment, outline,
//! plan and (over TLS) the channel's binding, so that nothing made in one session means anything in another.

pub(crate) mod client;
pub mod messages;
pub(crate) mod server;

use crypto::domain;
use crypto::ot::Depth;
use crypto::random::{Direction, InferenceId, Scope, SessionId};
use network::digest::Digest;
use network::inference_model::InferenceModel;

use crate::InferenceError;
use crate::connection::frame::PROTOCOL_VERSION;
use crate::plan::{Plan, ReluRounding, Reveal, Terms};
use messages::{Agreement, NONCE_BYTES};

/// The largest outline a client accepts.
pub(crate) const MAX_OUTLINE_BYTES: u64 = 64 << 20;

/// What both hellos agree on, and the channel, as one name.
pub fn session_id(
    client_nonce: &[u8; NONCE_BYTES],
    server_nonce: &[u8; NONCE_BYTES],
    agreement: &Agreement,
    (terms, depth): (Terms, Depth),
    channel_binding: &[u8],
) -> SessionId {
    let mut hasher = blake3::Hasher::new_derive_key(domain::SESSION_ID.context());
    hasher.update(&PROTOCOL_VERSION.to_le_bytes());
    hasher.update(client_nonce);
    hasher.update(server_nonce);
    hasher.update(&agreement.to_bytes());
    hasher.update(&messages::terms_bytes(terms)).update(&[messages::depth_byte(depth)]);
    hasher.update(&(channel_binding.len() as u64).to_le_bytes());
    hasher.update(channel_binding);
    SessionId(*hasher.finalize().as_bytes())
}

/// Whether a server's terms are what a client wished for.
pub(crate) fn check_wishes(
    reveal: Option<Reveal>,
    relus: Option<ReluRounding>,
    terms: Terms,
) -> Result<(), InferenceError> {
    if let Some(expected) = reveal.filter(|expected| *expected != terms.reveal) {
        return Err(InferenceError::Reveal { expected, came: terms.reveal });
    }
    if let Some(expected) = relus.filter(|expected| *expected != terms.relus) {
        return Err(InferenceError::Relus { expected, came: terms.relus });
    }
    Ok(())
}

/// A digest of everything the parties derive from the outline: all encryption parameters, where weights lie in their
/// polynomials, and each message. Two builds that plan differently notice it here, not in the middle of an inference.
/// Second halves depend on it by their id: the same secrets never hide weights at other places.
pub(crate) fn plan_digest(plan: &Plan) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key(domain::PLAN_DIGEST.context());
    for job in plan.linear() {
        for numbers in [job.layout.parameters().numbers(), job.layout.places()] {
            hasher.update(&(numbers.len() as u64).to_le_bytes());
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            hasher.update(&bytes);
        }
    }
    // The depth of transfers is a session's own: what is prepared in one session is used in another.
    for message in plan.messages(Depth::Four) {
        let sort = [message.phase as u8, message.kind as u8, u8::from(message.is_upward)];
        hasher.update(&sort).update(&(message.bytes as u64).to_le_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The salted commitment to a model's weights: the same weights are recognized, a guess cannot be tested.
pub(crate) fn commit_to_weights(model: &InferenceModel, salt: &[u8; 32]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key(domain::WEIGHT_COMMITMENT.context());
    hasher.update(salt);
    for layer in model.layers() {
        hasher.update(&(layer.weights.len() as u64).to_le_bytes());
        for run in layer.weights.chunks(4096) {
            let bytes: Vec<u8> = run.iter().flat_map(|weight| weight.to_le_bytes()).collect();
            hasher.update(&bytes);
        }
        hasher.update(&(layer.biases.len() as u64).to_le_bytes());
        for bias in &layer.biases {
            hasher.update(&bias.to_le_bytes());
        }
    }
    Digest(*hasher.finalize().as_bytes())
}

/// What the second halves of a served model's answers are known by, on both sides: they follow from version, outline,
/// weights and plan, which all stand in it, and from secrets of the server.
pub fn halves_id(agreement: &Agreement) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key(domain::SECOND_HALVES.context());
    hasher.update(&PROTOCOL_VERSION.to_le_bytes()).update(&agreement.to_bytes());
    Digest(*hasher.finalize().as_bytes())
}

/// The scope of what belongs to the session as a whole.
pub(crate) fn session_scope(session: SessionId, direction: Direction, step: u32) -> Scope {
    Scope { session, inference: InferenceId([0; 16]), step, direction }
}

/// The name of the n-th inference of a session, counted from 1.
pub(crate) fn inference_id(session: SessionId, number: u64) -> InferenceId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&session.0[..8]);
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    InferenceId(bytes)
}
