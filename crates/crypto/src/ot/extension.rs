//! From 128 base transfers to any number of correlated ones, at four bytes each, or at two.
//!
//! Roy, "SoftSpokenOT: Quieter OT Extension from Small-Field Silent VOLE in the Minicrypt Model", CRYPTO 2022,
//! section 3 (figure 7, with the repetition code), with k = 4 or k = 8 ([`Depth`]) and a check of every chunk
//! (`check.rs`) that makes it safe against parties of any behavior.
//!
//! ```text
//!   receiver (client)                                         sender (server), offset D
//!   start   -------------------- SenderPoint ------------->
//!           <------------------ ReceiverPoints ------------   start     base choices = bits of D
//!   finish  --------------------- TreeSums --------------->   finish    all leaves but one of each tree
//!
//!   chunk with choices b
//!           -------------------- Corrections ------------->   same chunk
//!   T_j                                                       Q_j       T_j = Q_j xor b_j D
//! ```
//!
//! Leaf x of a tree has the stream r_x. The receiver holds u = sum of r_x and v = sum of x r_x; the sender,
//! whose bits of the offset are d, lacks r_d and holds w = sum of (x xor d) r_x = v + d u (bit by bit,
//! with sums in characteristic 2). The correction u + b, one bit per tree and transfer, lets it turn that
//! into v + d b. Every chunk has 128 transfers more than it was asked for, which hide the choices in the check.
//!
//! A chunk is taken from the state in an order both sides know from the plan, belongs to a range of the
//! streams that no other chunk has, and is spent by value. Several chunks may be worked on by several
//! threads.

mod check;
mod receiver;
mod sender;

pub use receiver::{CorrelatedReceiver, ExpandedChunk, ReceiverChunk, ReceiverLabels, ReceiverSetup};
pub use sender::{CorrelatedSender, SenderChunk, SenderLabels, SenderSetup};

use crate::ot::depth::Depth;
use crate::ot::error::{OtError, OtMessage};
use crate::ot::kernel::{BLOCK, Strip};
use crate::ot::values::{check_length, check_padding, clear_padding};
use crate::random::SessionId;
use check::{Check, MASKING};

/// The largest chunk, which bounds memory: 16 MiB of labels and at most 4 MiB of corrections.
pub const MAXIMUM_CHUNK: usize = 1 << 20;

/// Transfers one state may make before new base transfers are due. A leaf then has encrypted 2^33 blocks, and
/// all streams together differ from uniform ones by less than 2^-54.
pub const MAXIMUM_TRANSFERS: u64 = 1 << 40;

/// The receiver's message of one chunk: its choices under the sums of the trees' streams, and what shows that they are
/// the same in all trees.
#[derive(Clone, PartialEq, Eq)]
pub struct Corrections {
    count: usize,
    depth: Depth,
    /// Per block of 2048 transfers one strip for each tree; the strips of the last block end with its
    /// transfers. Then the strips of the masking transfers, then the check.
    bytes: Vec<u8>,
}

impl Corrections {
    /// Length on the wire: four bytes per transfer, rounded up to eight transfers, and 560 for the check; at depth 8 two
    /// bytes and 304.
    pub const fn byte_length(count: usize, depth: Depth) -> usize {
        strips_length(count, depth) + strips_length(MASKING, depth) + Check::BYTES
    }

    /// How many transfers this corrects.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How deep the trees are that this corrects.
    pub fn depth(&self) -> Depth {
        self.depth
    }

    /// The message as sent.
    pub fn to_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads the peer's message for a chunk of `count` transfers on trees of this depth.
    ///
    /// # Errors
    /// When the length is wrong or a bit beyond the last transfer is set.
    pub fn from_bytes(count: usize, depth: Depth, bytes: &[u8]) -> Result<Self, OtError> {
        check_chunk(count)?;
        check_length(OtMessage::Corrections, Self::byte_length(count, depth), bytes.len())?;
        let last_block = count / BLOCK * strips_length(BLOCK, depth);
        let last_strip = (count % BLOCK).div_ceil(8).max(1);
        for strip in bytes[last_block..strips_length(count, depth)].chunks_exact(last_strip) {
            check_padding(OtMessage::Corrections, count, strip)?;
        }
        Ok(Self { count, depth, bytes: bytes.to_vec() })
    }

    /// Bytes before those of the masking transfers.
    fn strips_length(&self) -> usize {
        strips_length(self.count, self.depth)
    }

    fn push_block(&mut self, transfers: usize, strips: &[Strip]) {
        for strip in strips {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(strip.map(u128::to_le_bytes).as_flattened());
            self.bytes.truncate(start + transfers.div_ceil(8));
            clear_padding(transfers, &mut self.bytes[start..]);
        }
    }

    fn load_block(&self, block: usize, strips: &mut [Strip]) {
        let size = strips_length(BLOCK, self.depth);
        load_strips(&self.bytes[block * size..self.strips_length().min((block + 1) * size)], strips);
    }

    fn load_masking(&self, strips: &mut [Strip]) {
        load_strips(&self.corrected()[self.strips_length()..], strips);
    }

    /// All but the check.
    fn corrected(&self) -> &[u8] {
        &self.bytes[..self.strips_length() + strips_length(MASKING, self.depth)]
    }

    fn check(&self) -> Check {
        Check::from_bytes(self.bytes.last_chunk().expect("a length that was checked or made here"))
    }
}

impl std::fmt::Debug for Corrections {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Corrections({} transfers)", self.count)
    }
}

/// One strip for every tree.
const fn strips_length(count: usize, depth: Depth) -> usize {
    depth.trees() * count.div_ceil(8)
}

/// As many strips as there are trees.
fn load_strips(bytes: &[u8], strips: &mut [Strip]) {
    let size = bytes.len() / strips.len();
    for (strip, bytes) in strips.iter_mut().zip(bytes.chunks_exact(size)) {
        load_strip(strip, bytes);
    }
}

/// Packed bits as words, the rest of the strip zero.
fn load_strip(strip: &mut Strip, bytes: &[u8]) {
    strip.fill(0);
    let (whole, rest) = bytes.as_chunks::<16>();
    for (word, bytes) in strip.iter_mut().zip(whole) {
        *word = u128::from_le_bytes(*bytes);
    }
    if !rest.is_empty() {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        strip[whole.len()] = u128::from_le_bytes(last);
    }
}

fn check_chunk(count: usize) -> Result<(), OtError> {
    if count == 0 || count > MAXIMUM_CHUNK {
        return Err(OtError::ChunkSize { requested: count, limit: MAXIMUM_CHUNK });
    }
    Ok(())
}

/// The part of the streams a chunk owns; made once per chunk, never twice.
#[derive(Debug)]
struct Range {
    session: SessionId,
    /// The first cipher block of every leaf.
    first_cipher: u64,
    count: usize,
}

impl Range {
    /// The first cipher block of the masking transfers.
    fn masking_cipher(&self) -> u64 {
        self.first_cipher + self.count.div_ceil(128) as u64
    }
}

/// Hands out ranges in order. It only moves forward.
#[derive(Debug)]
struct Counter {
    session: SessionId,
    next_cipher: u64,
}

impl Counter {
    fn new(session: SessionId) -> Self {
        Self { session, next_cipher: 0 }
    }

    fn take(&mut self, count: usize) -> Result<Range, OtError> {
        check_chunk(count)?;
        let left = MAXIMUM_TRANSFERS.saturating_sub(128 * self.next_cipher);
        if (count + MASKING) as u64 > left {
            return Err(OtError::Exhausted { requested: count, left });
        }
        let first_cipher = self.next_cipher;
        self.next_cipher += (count.div_ceil(128) + MASKING / 128) as u64;
        Ok(Range { session: self.session, first_cipher, count })
    }
}

#[cfg(test)]
mod tests;
