//! Prepared material as bytes: what both parties store between an offline and an online phase that do not share a
//! connection.
//!
//! ```text
//! magic 8 | version u32 | made for 32 | session 32 | inference 16 | body, whose length the plan gives
//! ```
//!
//! Bodies: the server's is the seed of its masks, its session's offset and what unmasks each reply
//! ([`StoredServer`](crate::server::StoredServer)); the client's is its blinds, tables and labels
//! ([`PreparedClient::into_bytes`](crate::client::PreparedClient::into_bytes)). Both are secret and serve once. Whoever stores them encrypts them and destroys them before use; nothing of the OT extension is in them, since
//! that must never be saved.

mod client;
pub(crate) mod server;

pub(crate) use server::masks as server_masks;

use crypto::domain::Domain;
use crypto::garble::GarbleError;
use crypto::random::{InferenceId, SessionId};
use crypto::ring::{RingVector, RingWidth, Share, UnpackError};
use crypto::secret::Secret;
use network::bytes::ByteReader;
use network::digest::Digest;

use crate::connection::Role;
use crate::connection::frame::PROTOCOL_VERSION;
use crate::plan::Terms;
use crate::setup::messages::terms_bytes;

/// The version of both formats.
pub const FORMAT_VERSION: u32 = 4;
/// Bytes before the body.
pub(crate) const HEADER_BYTES: usize = 8 + 4 + 32 + 32 + 16;

/// Stored bytes that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// They are something else.
    #[error("these bytes are no prepared inference of the {0}")]
    Magic(Role),
    /// Another version wrote them.
    #[error(
        "this inference was prepared in format version {came}; this program reads version {expected}: prepare again"
    )]
    Version {
        /// Ours.
        expected: u32,
        /// Theirs.
        came: u32,
    },
    /// They belong to another model.
    #[error("this was prepared for another model, or for another way of answering; prepare again")]
    OtherModel,
    /// Cut off or too long.
    #[error("a prepared inference of this model takes {expected} bytes, these are {came}")]
    Length {
        /// What the plan says.
        expected: usize,
        /// What is there.
        came: usize,
    },
    /// A circuit or truncation is damaged.
    #[error("the prepared circuits are damaged")]
    Circuits(#[from] GarbleError),
    /// Packed values are damaged.
    #[error("the prepared values are damaged")]
    Values(#[from] UnpackError),
}

const fn magic(role: Role) -> [u8; 8] {
    match role {
        Role::Client => *b"SordPreC",
        Role::Server => *b"SordPreS",
    }
}

/// Which inference this is a half of.
pub(crate) struct Header {
    pub(crate) made_for: Digest,
    pub(crate) session: SessionId,
    pub(crate) inference: InferenceId,
}

/// Writes into room that is made once, so that no unwiped copy stays behind.
pub(crate) struct Writer(Secret<Vec<u8>>);

impl Writer {
    pub(crate) fn new(role: Role, header: &Header, body_bytes: usize) -> Self {
        let mut writer = Self(Secret::new(Vec::with_capacity(HEADER_BYTES + body_bytes)));
        writer.push(&magic(role));
        writer.push(&FORMAT_VERSION.to_le_bytes());
        writer.push(header.made_for.as_bytes());
        writer.push(&header.session.0);
        writer.push(&header.inference.0);
        writer
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let all = self.0.expose_mut();
        debug_assert!(all.len() + bytes.len() <= all.capacity(), "the plan gives the length");
        all.extend_from_slice(bytes);
    }

    pub(crate) fn push_share(&mut self, share: &Share) {
        self.push(Secret::new(share.expose().to_bytes()).expose());
    }

    pub(crate) fn finish(self) -> Secret<Vec<u8>> {
        self.0
    }
}

/// Reads a body whose length was checked as a whole.
pub(crate) struct Reader<'a>(ByteReader<'a>);

impl<'a> Reader<'a> {
    /// Checks everything up to the body, and its length.
    pub(crate) fn new(
        role: Role,
        made_for: Digest,
        body_bytes: usize,
        bytes: &'a [u8],
    ) -> Result<(Header, Self), StoredError> {
        let expected = HEADER_BYTES + body_bytes;
        let wrong_length = StoredError::Length { expected, came: bytes.len() };
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Err(wrong_length) };
        let mut head = Self(ByteReader::new(head));
        if head.array::<8>() != magic(role) {
            return Err(StoredError::Magic(role));
        }
        let version = u32::from_le_bytes(head.array());
        if version != FORMAT_VERSION {
            return Err(StoredError::Version { expected: FORMAT_VERSION, came: version });
        }
        if Digest(head.array()) != made_for {
            return Err(StoredError::OtherModel);
        }
        if bytes.len() != expected {
            return Err(wrong_length);
        }
        let (session, inference) = (SessionId(head.array()), InferenceId(head.array()));
        Ok((Header { made_for, session, inference }, Self(ByteReader::new(body))))
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        self.0.take(count).expect("the length was checked as a whole")
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        self.0.array().expect("the length was checked as a whole")
    }

    pub(crate) fn share(&mut self, width: RingWidth, count: usize) -> Result<Share, StoredError> {
        Ok(Share::new(RingVector::from_bytes(width, count, self.take(packed_bytes(width, count)))?))
    }
}

/// What material belongs to: a model or outline, the steps both parties derive from it, what the client learns.
pub(crate) fn made_for(domain: Domain, model: Digest, plan: Digest, terms: Terms) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key(domain.context());
    hasher.update(&PROTOCOL_VERSION.to_le_bytes()).update(&terms_bytes(terms));
    hasher.update(model.as_bytes()).update(plan.as_bytes());
    Digest(*hasher.finalize().as_bytes())
}

/// Bytes of that many values of a plan.
pub(crate) fn packed_bytes(width: RingWidth, count: usize) -> usize {
    width.packed_bytes(count).expect("a plan holds lists of its values")
}
