//! Prepared material as bytes: what both parties keep between an offline and an online phase that do not share a
//! connection.
//!
//! ```text
//! magic 8 | version u32 | made for 32 | session 32 | inference 16 | body, whose length the plan gives
//! ```
//!
//! Bodies: the server's is a root seed, its session's offset and what unmasks each reply (`server::KeptServer`); the
//! client's is its blinds, tables and labels ([`crate::client::PreparedClient::into_bytes`]). Both are secret and serve
//! once. Whoever stores them encrypts them and destroys them before use; nothing of the OT extension is in them, since
//! that must never be saved.

use crypto::domain::Domain;
use crypto::garble::GarbleError;
use crypto::random::{InferenceId, SessionId};
use crypto::ring::{RingVector, RingWidth, Share, UnpackError, WidthOutOfRange};
use crypto::secret::Secret;

use crate::connection::frame::PROTOCOL_VERSION;
use crate::plan::{GarbledPart, Part, Plan, Reveal};
use crate::setup::hello::reveal_byte;

/// The version of both formats.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes before the body.
pub(crate) const HEADER_BYTES: usize = 8 + 4 + 32 + 32 + 16;

/// Kept bytes that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// They are something else.
    #[error("these bytes are no prepared inference of the {0}")]
    Magic(&'static str),
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
    /// The plan asks for a ring that does not exist.
    #[error("the outline asks for a ring that does not exist")]
    Width(#[from] WidthOutOfRange),
}

/// Whose bytes these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    Client,
    Server,
}

impl Party {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Client => *b"SordPreC",
            Self::Server => *b"SordPreS",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// Which inference this is a half of.
pub(crate) struct Header {
    pub(crate) made_for: [u8; 32],
    pub(crate) session: SessionId,
    pub(crate) inference: InferenceId,
}

/// Writes into room that is made once, so that no unwiped copy stays behind.
pub(crate) struct Writer(Secret<Vec<u8>>);

impl Writer {
    pub(crate) fn new(party: Party, header: &Header, body_bytes: usize) -> Self {
        let mut writer = Self(Secret::new(Vec::with_capacity(HEADER_BYTES + body_bytes)));
        writer.push(&party.magic());
        writer.push(&FORMAT_VERSION.to_le_bytes());
        writer.push(&header.made_for);
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
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Checks everything up to the body, and its length.
    pub(crate) fn new(
        party: Party,
        made_for: &[u8; 32],
        body_bytes: usize,
        bytes: &'a [u8],
    ) -> Result<(Header, Self), KeptError> {
        let expected = HEADER_BYTES + body_bytes;
        let wrong_length = KeptError::Length { expected, came: bytes.len() };
        let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return Err(wrong_length) };
        let mut head = Self(head);
        if head.array::<8>() != party.magic() {
            return Err(KeptError::Magic(party.name()));
        }
        let version = u32::from_le_bytes(head.array());
        if version != FORMAT_VERSION {
            return Err(KeptError::Version { expected: FORMAT_VERSION, came: version });
        }
        if head.array::<32>() != *made_for {
            return Err(KeptError::OtherModel);
        }
        if bytes.len() != expected {
            return Err(wrong_length);
        }
        let (session, inference) = (SessionId(head.array()), InferenceId(head.array()));
        Ok((Header { made_for: *made_for, session, inference }, Self(body)))
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        *self.take(N).first_chunk().expect("as many were taken")
    }

    pub(crate) fn share(&mut self, width: RingWidth, count: usize) -> Result<Share, KeptError> {
        Ok(Share::new(RingVector::from_bytes(width, count, self.take(packed_bytes(width, count)))?))
    }
}

/// What material belongs to: a model or outline, the steps both parties derive from it, what the client learns.
pub(crate) fn made_for(domain: Domain, model: &[u8; 32], plan: &[u8; 32], reveal: Reveal) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(domain.context());
    hasher.update(&PROTOCOL_VERSION.to_le_bytes()).update(&[reveal_byte(reveal)]).update(model).update(plan);
    *hasher.finalize().as_bytes()
}

/// Bytes of that many values of a plan.
pub(crate) fn packed_bytes(width: RingWidth, count: usize) -> usize {
    width.packed_bytes(count).expect("a plan holds lists of its values")
}

/// The ring of the client's image blind and that of its share of the logits.
pub(crate) fn end_widths(plan: &Plan) -> Result<(RingWidth, RingWidth), WidthOutOfRange> {
    let outline = plan.outline();
    Ok((RingWidth::new(outline.image_ring_bits)?, RingWidth::new(outline.ring_bits(outline.output()))?))
}

/// Adds up what the parts of a plan and its argmax take.
pub(crate) fn sum_parts(
    plan: &Plan,
    garbled: impl Fn(&GarbledPart) -> usize,
    truncated: impl Fn(&crate::plan::TruncatedPart) -> usize,
    argmax: impl Fn(&GarbledPart) -> usize,
) -> usize {
    let part = |part: &Part| match part {
        Part::Garbled(part) => garbled(part),
        Part::Truncated(part) => truncated(part),
    };
    plan.parts().map(part).sum::<usize>() + plan.argmax().map_or(0, argmax)
}
