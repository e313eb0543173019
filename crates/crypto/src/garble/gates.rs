//! Gates: values times a shared sign, rescaled in the same round trip.
//!
//! One comparison decides over k values: y_j = b T_j, where b says that x_0 is not negative, and T_j is x_j / 2^f rounded by
//! the client's share (known-MSB truncation, see [`super::truncate`]). With k = 1 this is a ReLU. A *chain* of carries
//! leaves the client with delta and the server with p, b = delta xor p; neither knows b. Then b x is a product of a bit and
//! a share on each side, twice, and each needs one transfer: the server's p in the other direction, before the image, and
//! the client's random bit rho in the usual one.
//!
//! ```text
//! server: share s, coins p, q, pads H, h                 client: share c, coin rho, blind r, pads K, K'
//! offline  W = 2^(l-f), k' = L - l + f                   chooses by the bits of c, by rho, by the top bit c_m
//!          chain offer, tau = H[0] - H[1] + q  ------->  u = H[c_m] + c_m tau
//!                                                        C = (c>>f) - W (c_m - u),  G = c_m - 2 u
//!          v = K[p] + p t, v' = K'[p] + p t'   <-------  t = K[0] - K[1] + C,  t' = K'[0] - K'[1] + G
//! online   a = s + o + 2^f - 1,  d = a_m xor q
//!          A = (a>>f) - (o>>f) - W (a_m + (1-2d) H[0])
//!          V = v + d W v',  A' = (1-2p) A - 2 V
//!          chain opening, d, m = A' - (h[1] - h[0])  ->  delta, eps = delta xor rho
//!                                              <-------  eps, reply = (1-2eps)(rho m + h[rho]) + delta (C + d W G)
//!                                                                     - (1-2delta)(K[0] + d W K'[0]) - r
//!          p A + V + eps A' - (1-2eps) h[0] + reply = b T - r  mod 2^L
//! ```
//!
//! The value that is compared has l = w and o = 0: where b is one its top bit is known to be zero. The others have l = w + 1
//! and o = 2^(l-2), and must lie in -2^(w-1) <= x <= 2^(w-1) - 2^f.
//!
//! With *slopes*, y_j = (2^e b + a_j) T_j for public a_j. T_j = A + (C + d W G), the first known to the server once it opens
//! and the second to the client, so each adds a_j times its own part: a_j A joins the server's share, a_j (C + d W G) the
//! reply, under the same blind. The compared value then is truncated as the others are.
//!
//! Pads of all values come from disjoint counters; those of
//! the other direction have a key of their own. Why both views are uniform stands in `docs/src/security/gates.md`.

mod chain;
mod client;
#[cfg(any(test, feature = "testing"))]
pub mod ideal;
mod server;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod views;

pub use client::{ClientInputs, PreparedGates};
pub use server::{AdvancedGates, OfferedGates, ReverseReceiver, WaitingGates};

use super::bits::{append_bit, low_bits};
use super::error::{Counted, GarbleError, check_count, check_shape};
use super::hash::{CounterRange, HashKey, MAX_LANES};
use super::label::{Offset, WireLabel};
use super::sections::sections_length;
use crate::secret::Secret;

/// What a party has of the transfers in which the other one chose.
pub struct SenderSide<'a> {
    /// The key of their hash: its own, sent after the choices were fixed.
    pub key: HashKey,
    /// Counters of that key.
    pub counters: CounterRange,
    /// Its offset.
    pub offset: &'a Offset,
    /// Its labels of choice 0.
    pub zero_labels: &'a [WireLabel],
}

/// The parameters of gates: what is compared, what is multiplied by the sign, and where that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateShape {
    width: u32,
    fraction_bits: u32,
    output_bits: u32,
    values_per_sign: usize,
    /// Fraction bits of slopes; none where values only pass by their sign.
    slope_bits: Option<u32>,
}

impl GateShape {
    /// ReLUs: values of `width` bits, sign included, to quotients by 2^`fraction_bits` modulo 2^`output_bits`.
    ///
    /// # Errors
    /// When fewer than two bits are left to compare or more than 62, or the output ring is not wider than the quotient.
    pub fn new(width: u32, fraction_bits: u32, output_bits: u32) -> Result<Self, GarbleError> {
        check_shape("width", 2, 62, width.into())?;
        check_shape("fraction bits", 0, u64::from(width) - 2, fraction_bits.into())?;
        check_shape("output bits", u64::from(width - fraction_bits) + 1, 63, output_bits.into())?;
        Ok(Self { width, fraction_bits, output_bits, values_per_sign: 1, slope_bits: None })
    }

    /// The same where each sign decides over so many values.
    ///
    /// # Errors
    /// When there are none, or more than 64, or the output ring is not wider than their quotients.
    pub fn with_values_per_sign(self, count: usize) -> Result<Self, GarbleError> {
        check_shape("values per sign", 1, 64, count as u64)?;
        let followers = u64::from(count > 1);
        let least = u64::from(self.width - self.fraction_bits) + 1 + followers;
        check_shape("output bits", least, 63, self.output_bits.into())?;
        Ok(Self { values_per_sign: count, ..self })
    }

    /// The same where a public part of each value passes whatever the sign: y_j = (2^`bits` b + a_j) T_j. Both parties have
    /// shares of T_j at hand, so this takes no further message. Known-MSB truncation of the compared value then needs a lift
    /// as well: it is wanted where b is zero, too.
    ///
    /// # Errors
    /// When there are more than 8 fraction bits, or the output ring is not wider than the quotients.
    pub fn with_slopes(self, bits: u32) -> Result<Self, GarbleError> {
        check_shape("fraction bits of slopes", 0, 8, bits.into())?;
        let least = u64::from(self.width - self.fraction_bits) + 2;
        check_shape("output bits", least, 63, self.output_bits.into())?;
        Ok(Self { slope_bits: Some(bits), ..self })
    }

    /// Bits of the compared value.
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

    /// How many values a sign decides over.
    pub fn values_per_sign(&self) -> usize {
        self.values_per_sign
    }

    /// Fraction bits of slopes, where values have any.
    pub fn slope_bits(&self) -> Option<u32> {
        self.slope_bits
    }

    /// Bits that the chain compares.
    pub fn compared_bits(&self) -> u32 {
        self.width - self.fraction_bits
    }

    /// Transfers of each sign in which the client chooses: bits of its share, rho, the top bit of each value's share.
    pub fn transfers_per_sign(&self) -> usize {
        self.compared_bits() as usize + self.values_per_sign
    }

    /// Hash counters that so many signs take, of the transfers in which the client chooses.
    pub fn hash_count(&self, signs: usize) -> u64 {
        let groups = self.compared_bits() as u64 - 1 + 2 * self.values_per_sign as u64;
        groups * Self::hashes_of(signs)
    }

    /// The same of the transfers in which the server chooses.
    pub fn reverse_hash_count(&self, signs: usize) -> u64 {
        self.values_per_sign as u64 * Self::hashes_of(signs)
    }

    fn hashes_of(signs: usize) -> u64 {
        signs.div_ceil(MAX_LANES) as u64
    }

    /// The client's choices, lowest bit of each byte first: for each bit of the compared shares that of all signs, then rho,
    /// then for each value the top bits; every group from a whole byte on.
    ///
    /// `shares` has the compared value of every sign, then the second value of every sign, and so on.
    pub fn choices(&self, shares: &[u64], coins: &[u64]) -> Secret<Vec<u8>> {
        let signs = coins.len();
        // Its room is made once, so that no unwiped copy stays behind.
        let length = self.transfers_per_sign() * signs.div_ceil(8);
        let mut choices = Secret::new(Vec::with_capacity(length));
        let bytes = choices.expose_mut();
        for level in 0..self.compared_bits() - 1 {
            // A bit of what `client_input` makes of the share.
            append_bit(bytes, &shares[..signs], self.fraction_bits + level);
        }
        append_bit(bytes, coins, 0);
        for (value, shares) in self.values().zip(shares.chunks_exact(signs)) {
            append_bit(bytes, shares, value.ring - 1);
        }
        choices
    }

    /// Bytes of the server's offline message.
    pub fn offer_bytes(&self, signs: usize) -> usize {
        sections_length(self.offer_sections(signs))
    }

    /// Bytes of the client's offline message.
    pub fn advance_bytes(&self, signs: usize) -> usize {
        sections_length(self.advance_sections(signs))
    }

    /// Bytes of the server's online message.
    pub fn opening_bytes(&self, signs: usize) -> usize {
        sections_length(self.opening_sections(signs))
    }

    /// Bytes of the client's online message.
    pub fn reply_bytes(&self, signs: usize) -> usize {
        sections_length(self.reply_sections(signs))
    }

    fn offer_sections(&self, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let wraps = self.values().map(|value| value.wrap_bits);
        chain::offer_bits(self.compared_bits()).chain(wraps).map(move |bits| (signs, bits))
    }

    fn advance_sections(&self, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let output = self.output_bits;
        self.values().flat_map(move |value| [(signs, output), (signs, value.wrap_bits)])
    }

    fn opening_sections(&self, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let output = self.output_bits;
        let values = self.values().flat_map(move |_| [1, output]);
        chain::opening_bits(self.compared_bits()).chain(values).map(move |bits| (signs, bits))
    }

    fn reply_sections(&self, signs: usize) -> impl Iterator<Item = (usize, u32)> + Clone {
        let output = self.output_bits;
        std::iter::once(1).chain(self.values().map(move |_| output)).map(move |bits| (signs, bits))
    }

    /// What the client's share of a compared value enters the chain as.
    fn client_input(&self, share: u64) -> u64 {
        (share & low_bits(self.width)) >> self.fraction_bits
    }

    /// The same of the server's share, which is rounded up.
    fn server_input(&self, share: u64) -> u64 {
        (share.wrapping_add(low_bits(self.fraction_bits)) & low_bits(self.width)) >> self.fraction_bits
    }

    /// The values of a sign, the compared one first.
    fn values(&self) -> impl Iterator<Item = ValueShape> + Clone {
        let (shape, output) = (*self, low_bits(self.output_bits));
        (0..self.values_per_sign).map(move |number| {
            let is_lifted = shape.is_lifted(number);
            let ring = shape.width + u32::from(is_lifted);
            let kept = ring - shape.fraction_bits;
            ValueShape {
                ring,
                fraction_bits: shape.fraction_bits,
                lift: if is_lifted { 1 << (ring - 2) } else { 0 },
                wrap_bits: shape.output_bits - kept,
                wrap_weight: 1 << kept,
                output,
                sign_shift: shape.slope_bits.unwrap_or(0),
            }
        })
    }

    /// Whether a value of a sign, by its number, is truncated in a ring of one bit more.
    fn is_lifted(&self, number: usize) -> bool {
        number > 0 || self.slope_bits.is_some()
    }

    /// Slopes of every value: as many as values, or none where there are none.
    fn check_slopes(&self, signs: usize, slopes: &[u64]) -> Result<(), GarbleError> {
        let expected = if self.slope_bits.is_some() { signs * self.values_per_sign } else { 0 };
        check_count(Counted::Slopes, expected, slopes.len())
    }
}

/// One of the values that a sign decides over.
#[derive(Clone, Copy, Debug)]
struct ValueShape {
    /// l: bits of the ring in which it is truncated.
    ring: u32,
    /// f.
    fraction_bits: u32,
    /// o: what makes its top bit known.
    lift: u64,
    /// k'.
    wrap_bits: u32,
    /// W.
    wrap_weight: u64,
    /// The low bits of the output ring.
    output: u64,
    /// Fraction bits of slopes: what a sign of one weighs.
    sign_shift: u32,
}

impl ValueShape {
    #[inline(always)]
    fn top_bit(&self, share: u64) -> u64 {
        share >> (self.ring - 1) & 1
    }

    #[inline(always)]
    fn wrap_mask(&self) -> u64 {
        low_bits(self.wrap_bits)
    }
}
