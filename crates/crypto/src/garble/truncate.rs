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
//! online   a = A + 2^(l-2) + 2^f - 1
//!          d = a_m xor rho                    --opening-->   e = d b_m + (1-2d) u_c - b_m
//!                                            <--reply--    v = (b>>f) + 2^(l-f) e - r'
//!          (a>>f) - 2^(l-2-f) - 2^(l-f) (a_m - (1-2d) u_s) + v = z' - r'
//! ```
//!
//! A public *factor* costs nothing: each party multiplies all it has of the quotient by it, and the blind stays what it is.

mod client;
mod messages;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientInputs, PreparedTruncation};
pub use messages::{TruncationOffer, TruncationOpening, TruncationReply};
pub use server::{OfferedTruncation, WaitingTruncation};

use super::bits::{append_bit, low_bits, packed_length};
use super::error::{Counted, GarbleError, check_count, check_shape};
use super::hash::MAX_LANES;
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
    pub fn choices(&self, shares: &[u64]) -> Secret<Vec<u8>> {
        let mut choices = Secret::new(Vec::with_capacity(packed_length(shares.len(), 1)));
        append_bit(choices.expose_mut(), shares, self.width - 1);
        choices
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

/// Factors are as many as positions, or none at all.
fn check_factors(count: usize, factors: &[u64]) -> Result<(), GarbleError> {
    check_count(Counted::Factors, if factors.is_empty() { 0 } else { count }, factors.len())
}

/// What a position is multiplied by.
fn factor(factors: &[u64], position: usize) -> u64 {
    factors.get(position).copied().unwrap_or(1)
}
