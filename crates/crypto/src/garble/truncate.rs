//! Truncation where a ReLU was dropped: one oblivious transfer, no garbled gate.
//!
//! A sum a + b modulo 2^l whose top bit is known to be zero wraps exactly where a or b has its top bit set,
//! so the wrap is a_m + b_m - a_m b_m, and only the product needs the other party. The result is the
//! stochastic rounding of z / 2^f, as an additive share of any ring 2^lo that needs k = lo - l + f > 0 bits
//! of the wrap. With f = 0 it widens the ring. Sound for -2^(l-2) <= z <= 2^(l-2) - 2^f.
//!
//! ```text
//! server (A, Q)                                          client (b, T = Q xor b_m offset, r')
//! offline  rho fresh bit
//!          tau = H(Q) - H(Q xor offset) + rho   --offer-->   u_c = H(T) + b_m tau
//!          u_s = -H(Q)                                          u_s + u_c = rho b_m  mod 2^k
//!                               <--advance, if chosen--   (b>>f) + 2^(l-f) kappa - r'
//! online   a = A + 2^(l-2) + 2^f - 1
//!          d = a_m xor rho                    --opening-->   e = d b_m + (1-2d) u_c - b_m
//!                                            <--reply--    v = (b>>f) + 2^(l-f) e - r', or e - kappa alone
//!          (a>>f) - 2^(l-2-f) - 2^(l-f) (a_m - (1-2d) u_s) + v = z' - r'
//! ```

mod client;
mod messages;
mod server;
#[cfg(test)]
mod tests;

pub use client::PreparedTruncation;
pub use messages::{TruncationAdvance, TruncationOffer, TruncationOpening, TruncationReply};
pub use server::{OfferedTruncation, WaitingTruncation};

use super::bits::{low_bits, pack, packed_length, unpack};
use super::error::{GarbleError, Message, check_length, check_shape};
use super::hash::{CounterRange, HashKey, KeyStream, MAX_LANES};
use super::kernel::{GROUP, Kernel};
use super::label::WireLabel;
use crate::secret::Secret;

/// The parameters of a truncation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncationShape {
    width: u32,
    fraction_bits: u32,
    output_bits: u32,
}

impl TruncationShape {
    /// From shares modulo 2^`width` to shares modulo 2^`output_bits` of the quotient by 2^`fraction_bits`.
    ///
    /// # Errors
    /// When a width is not in 2..=64, fewer than two bits are left, or the output ring is so narrow that the
    /// wrap does not matter: then both parties shift their shares and no transfer is needed.
    pub fn new(width: u32, fraction_bits: u32, output_bits: u32) -> Result<Self, GarbleError> {
        check_shape("width", 2, 64, width.into())?;
        check_shape("fraction bits", 0, u64::from(width) - 2, fraction_bits.into())?;
        check_shape("output bits", u64::from(width - fraction_bits) + 1, 64, output_bits.into())?;
        Ok(Self { width, fraction_bits, output_bits })
    }

    /// Bits of the input ring.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bits that the quotient drops.
    pub fn fraction_bits(&self) -> u32 {
        self.fraction_bits
    }

    /// Bits of the output ring.
    pub fn output_bits(&self) -> u32 {
        self.output_bits
    }

    /// Bits of the wrap that matter: k = lo - l + f.
    pub fn wrap_bits(&self) -> u32 {
        self.output_bits + self.fraction_bits - self.width
    }

    /// Hash counters that `count` truncations take.
    pub fn hash_count(count: usize) -> u64 {
        count.div_ceil(MAX_LANES) as u64
    }

    /// The client's choice bits, one oblivious transfer per share, lowest bit of each byte first: the top
    /// bits of its shares.
    pub fn choices(&self, shares: &[u64]) -> Vec<u8> {
        let bits: Vec<u64> = shares.iter().map(|share| self.top_bit(*share)).collect();
        pack(&bits, 1)
    }

    fn top_bit(&self, share: u64) -> u64 {
        share >> (self.width - 1) & 1
    }

    /// What the wrap is multiplied by.
    fn wrap_weight(&self) -> u64 {
        1 << (self.width - self.fraction_bits)
    }

    fn output_mask(&self) -> u64 {
        low_bits(self.output_bits)
    }
}

/// Bytes of sections of `count` values each, every section at its own width and from a whole byte on.
fn sections_length<const N: usize>(count: usize, widths: [u32; N]) -> usize {
    widths.iter().map(|width| packed_length(count, *width)).sum()
}

/// Sections of values to store, each at its width; one of width zero is left out.
fn pack_sections<const N: usize>(sections: [(&[u64], u32); N]) -> Secret<Vec<u8>> {
    let length = sections.iter().map(|(values, width)| packed_length(values.len(), *width)).sum();
    let mut bytes = Secret::new(Vec::with_capacity(length));
    for (values, width) in sections {
        bytes.expose_mut().extend_from_slice(Secret::new(pack(values, width)).expose());
    }
    bytes
}

/// Reads back what [`pack_sections`] made of `count` values a section.
fn unpack_sections<const N: usize>(
    bytes: &[u8],
    count: usize,
    widths: [u32; N],
) -> Result<[Secret<Vec<u64>>; N], GarbleError> {
    check_length(Message::Prepared, sections_length(count, widths), bytes.len())?;
    let mut rest = bytes;
    let mut sections = widths.map(|_| Secret::new(Vec::new()));
    for (section, width) in sections.iter_mut().zip(widths).filter(|(_, width)| *width > 0) {
        let (own, others) = rest.split_at(packed_length(count, width));
        rest = others;
        *section = Secret::new(unpack(Message::Prepared, own, count, width)?);
    }
    Ok(sections)
}

/// (1 - 2 bit) value.
fn signed_by(bit: u64, value: u64) -> u64 {
    (value ^ bit.wrapping_neg()).wrapping_add(bit)
}

/// The low half of H of each label, at most 64 labels to a counter, and of each label xor `offset` if there
/// is one.
fn hash_labels(
    kernel: Kernel,
    key: HashKey,
    counters: CounterRange,
    labels: &[WireLabel],
    offset: Option<u128>,
) -> (Vec<u64>, Vec<u64>) {
    let mut keys = KeyStream::new(kernel, key, counters);
    let (mut hashes, mut other_hashes) = (Vec::with_capacity(labels.len()), Vec::new());
    for chunk in labels.chunks(MAX_LANES) {
        let (batch, place) = keys.take(1);
        let stride = chunk.len().next_multiple_of(GROUP);
        let (mut inputs, mut outputs) = ([0; MAX_LANES], [0; MAX_LANES]);
        for (input, label) in inputs.iter_mut().zip(chunk) {
            *input = label.0;
        }
        kernel.hash(batch, place, &inputs[..stride], &mut outputs[..stride]);
        hashes.extend(outputs[..chunk.len()].iter().map(|hash| *hash as u64));
        if let Some(offset) = offset {
            inputs = inputs.map(|label| label ^ offset);
            kernel.hash(batch, place, &inputs[..stride], &mut outputs[..stride]);
            other_hashes.extend(outputs[..chunk.len()].iter().map(|hash| *hash as u64));
        }
    }
    (hashes, other_hashes)
}
