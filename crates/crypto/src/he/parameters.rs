//! Ring degree, moduli and widths of the RLWE scheme, chosen from an outline alone.
//!
//! The candidates are tried from little work to much; the first whose shares are as close as the layer's tolerance asks is
//! taken, with the shortest messages that keep them so. The check is exact integer arithmetic, so that client and server,
//! who each make the choice for themselves, always make the same one. Security against the lattice attacks bounds log q by
//! 53 bits at n = 2048 and 106 at n = 4096: 128 bits, classical, after the 2024 guidelines (Bossuat et al., "Security
//! guidelines for implementing homomorphic encryption", ternary secret); the standard of 2018 has 54 and 109. Hiding the
//! weights asks nothing of q: the mask of an answer is uniform modulo q.

mod noise;
mod outline;
mod ring;

use std::fmt;
use std::sync::Arc;

pub use outline::{HeOutline, WeightBits};

use super::error::HeError;
use super::kernel::Kernels;
use super::modulus::Factor;
use super::ntt::NttTable;
use super::packing::ExpectedBits;
use crate::cpu::CpuFeatures;
pub(super) use noise::AnswerNoise;
use noise::Format;
pub(super) use ring::Reading;
use ring::{LADDER, Ring, RingSize, primes_of};

/// Ring degree, moduli and widths of the RLWE scheme.
///
/// Cloning is cheap: the tables are shared.
#[derive(Clone)]
pub struct HeParameters {
    ring_bits: u32,
    tolerance: u32,
    weight_bound: u32,
    max_taps: u64,
    expected_bits: ExpectedBits,
    format: Format,
    kernels: Kernels,
    /// `2^-ring_bits` modulo each prime.
    inverse_ring: [Factor; 2],
    ring: Arc<Ring>,
}

/// A choice before its tables exist.
struct Choice {
    size: RingSize,
    format: Format,
    max_taps: u64,
    /// What all messages take, in bits.
    sent: u64,
}

impl HeParameters {
    /// The cheapest parameters that serve the outline.
    ///
    /// # Errors
    /// When the ring is not supported, a shape does not fit, or the noise of no candidate is small enough.
    pub fn from_outline(outline: &HeOutline) -> Result<Self, HeError> {
        let mut chosen = Self::from_outlines(std::slice::from_ref(outline))?;
        Ok(chosen.pop().expect("one outline gives one choice"))
    }

    /// The cheapest parameters for each outline. Those with the same ring share its tables, and one key serves them all
    /// ([`HeParameters::shares_key_with`]).
    ///
    /// # Errors
    /// As [`HeParameters::from_outline`].
    pub fn from_outlines(outlines: &[HeOutline]) -> Result<Vec<Self>, HeError> {
        let mut rings: Vec<Arc<Ring>> = Vec::new();
        let mut parameters = Vec::with_capacity(outlines.len());
        for outline in outlines {
            let choice = Choice::make(outline)?;
            let ring = match rings.iter().find(|ring| ring.is_of(choice.size)) {
                Some(ring) => Arc::clone(ring),
                None => {
                    rings.push(Arc::new(Ring::new(choice.size)));
                    Arc::clone(&rings[rings.len() - 1])
                }
            };
            parameters.push(Self::assemble(outline, choice, ring));
        }
        Ok(parameters)
    }

    fn assemble(outline: &HeOutline, choice: Choice, ring: Arc<Ring>) -> Self {
        let ring_bits = outline.ring_bits();
        let mut inverse_ring = [Factor::default(); 2];
        for (inverse, table) in inverse_ring.iter_mut().zip(&ring.tables) {
            let modulus = table.modulus();
            *inverse = modulus.factor(modulus.inverse(modulus.reduce(1 << ring_bits)));
        }
        Self {
            ring_bits,
            tolerance: outline.tolerance(),
            weight_bound: outline.weight_bits().bound(),
            max_taps: choice.max_taps,
            expected_bits: outline.expected_bits(),
            format: choice.format,
            kernels: Kernels::for_cpu(CpuFeatures::available()),
            inverse_ring,
            ring,
        }
    }

    /// The same parameters, computed with at most these instructions.
    #[cfg(test)]
    pub(super) fn with_cpu(mut self, cpu: CpuFeatures) -> Self {
        self.kernels = Kernels::for_cpu(cpu);
        self
    }

    /// Whether a key for these parameters is one for others too: degree and primes are the same.
    pub fn shares_key_with(&self, other: &Self) -> bool {
        self.degree() == other.degree() && self.primes().eq(other.primes())
    }

    /// Coefficients of one ciphertext, n.
    pub fn degree(&self) -> usize {
        self.ring.tables[0].degree()
    }

    /// Bits l of the ring of shares; the plaintext modulus is 2^l.
    pub fn ring_bits(&self) -> u32 {
        self.ring_bits
    }

    /// Low bits of the shares that are dropped later.
    pub fn tolerance(&self) -> u32 {
        self.tolerance
    }

    /// Largest absolute value of a weight.
    pub fn weight_bound(&self) -> u32 {
        self.weight_bound
    }

    /// Largest number of weights that may meet in one coefficient.
    pub fn max_taps(&self) -> u64 {
        self.max_taps
    }

    /// The standard deviation, for the worst weights, of what both shares together miss the layer's value by before that is
    /// rounded: in last places. It is within an eighth of 2^tolerance.
    pub fn deviation(&self) -> f64 {
        self.format.deviation
    }

    /// By how many last places both shares together may miss the layer's value. Beyond come 2^-71 of all values.
    pub fn largest_error(&self) -> u64 {
        self.format.largest_error()
    }

    /// Bits of a coefficient that travels: of a request, of an answer's first and of its second half.
    pub fn message_bits(&self) -> [u32; 3] {
        [self.format.input_bits, self.format.value_bits, self.format.uniform_bits]
    }

    /// Primes that an answer is still written modulo; decryption works once for each.
    pub fn answer_primes(&self) -> usize {
        self.format.kept_primes
    }

    /// The primes whose product is the ciphertext modulus, largest first.
    pub fn primes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.ring.tables.iter().map(|table| table.modulus().value())
    }

    /// What two parties must have chosen alike: degree, ring bits, tolerance, weight bound, taps, primes that an answer keeps,
    /// bits of a coefficient of a request, of a value and of a coefficient of the second half, then every prime. The plan's
    /// digest hashes it.
    pub fn numbers(&self) -> Vec<u64> {
        let bits = [self.ring_bits, self.tolerance, self.weight_bound].map(u64::from);
        let format = self.message_bits().map(u64::from);
        let kept = self.format.kept_primes as u64;
        let fixed = [&[self.degree() as u64], &bits[..], &[self.max_taps, kept], &format].concat();
        fixed.into_iter().chain(self.primes()).collect()
    }

    /// Bits of the ciphertext modulus.
    pub fn modulus_bits(&self) -> u32 {
        self.ring.tables.iter().map(|table| table.modulus().bits()).sum()
    }

    pub(super) fn tables(&self) -> &[NttTable] {
        &self.ring.tables
    }

    pub(super) fn kernels(&self) -> Kernels {
        self.kernels
    }

    pub(super) fn format(&self) -> &Format {
        &self.format
    }

    pub(super) fn expected_bits(&self) -> ExpectedBits {
        self.expected_bits
    }

    /// All ones in the ring's bits.
    pub(super) fn ring_mask(&self) -> u64 {
        u64::MAX >> (64 - self.ring_bits)
    }

    pub(super) fn modulus_low(&self) -> u64 {
        self.ring.modulus_low
    }

    pub(super) fn inverse_ring(&self, limb: usize) -> Factor {
        self.inverse_ring[limb]
    }

    /// Where an answer drops the second prime: its inverse modulo the first.
    pub(super) fn rescaling_factor(&self) -> Option<Factor> {
        self.ring.inverses.filter(|_| self.format.kept_primes == 1).map(|[of_second, _]| of_second)
    }

    pub(super) fn kept_reading(&self) -> &Reading {
        &self.ring.readings[self.format.kept_primes - 1]
    }

    pub(super) fn whole_reading(&self) -> &Reading {
        &self.ring.readings[1]
    }

    /// With two primes: the inverse of the first modulo the second.
    pub(super) fn composing_factor(&self) -> Option<Factor> {
        self.ring.inverses.map(|[_, of_first]| of_first)
    }

    /// Refuses a layer that the outline did not announce.
    pub(super) fn admit(&self, taps: u64) -> Result<(), HeError> {
        match taps <= self.max_taps {
            true => Ok(()),
            false => Err(HeError::TooManyTaps { taps, allowed: self.max_taps }),
        }
    }
}

impl Choice {
    fn make(outline: &HeOutline) -> Result<Self, HeError> {
        let ring_bits = outline.checked_ring_bits()?;
        let (mut refused, mut taps) = (None, 0);
        for row in LADDER {
            let mut best: Option<Self> = None;
            for &size in row {
                match Self::of_ring(outline, size, &mut taps) {
                    Ok(choice) => {
                        let is_better =
                            |choice: &Self| best.as_ref().is_none_or(|best| choice.sent < best.sent);
                        best = choice.filter(is_better).or(best);
                    }
                    // What is too large for the small degree may still fit the other one.
                    Err(error) => refused = Some(error),
                }
            }
            if let Some(best) = best {
                return Ok(best);
            }
        }
        Err(refused.unwrap_or(HeError::CannotDecrypt { ring_bits, taps }))
    }

    fn of_ring(outline: &HeOutline, size: RingSize, taps: &mut u64) -> Result<Option<Self>, HeError> {
        let (degree, bits) = size;
        let (noise, counts) = outline.noise(degree)?;
        *taps = noise.max_taps();
        let shares = (outline.ring_bits(), outline.tolerance());
        let format = Format::choose(&primes_of(degree, bits), degree, shares, &noise, &counts);
        let sent = |format: &Format| {
            counts.inputs * u64::from(format.input_bits)
                + counts.uniform * u64::from(format.uniform_bits)
                + counts.values * u64::from(format.value_bits)
        };
        Ok(format.map(|format| Self { size, sent: sent(&format), format, max_taps: noise.max_taps() }))
    }
}

impl fmt::Display for HeParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primes: Vec<_> = self.primes().map(|prime| prime.ilog2() + 1).collect();
        let primes = primes.iter().map(u32::to_string).collect::<Vec<_>>().join(" + ");
        let [input, value, uniform] = self.message_bits();
        write!(
            formatter,
            "RLWE n = {}, q = {primes} bits, t = 2^{}, weights up to {}, {} taps; requests {input} bits, answers {value} + \
             {uniform}, masks uniform modulo q; shares off by {:.3} last places in the deviation, {} bits are dropped later",
            self.degree(),
            self.ring_bits,
            self.weight_bound,
            self.max_taps,
            self.deviation(),
            self.tolerance,
        )
    }
}

impl fmt::Debug for HeParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "HeParameters({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::packing::{ConvolutionShape, LinearShape};

    fn worst(ring_bits: u32, weight_bits: WeightBits) -> HeOutline {
        HeOutline::from_taps(ring_bits, weight_bits, 4608)
    }

    fn chosen(ring_bits: u32, tolerance: u32) -> HeParameters {
        let outline = worst(ring_bits, WeightBits::Eight).tolerating(tolerance);
        HeParameters::from_outline(&outline).unwrap()
    }

    #[test]
    fn every_ring_finds_parameters_within_the_security_table() {
        for weight_bits in [WeightBits::Eight, WeightBits::Twelve] {
            for ring_bits in 8..=64 {
                for tolerance in [0, 10, 70] {
                    let outline = worst(ring_bits, weight_bits).tolerating(tolerance);
                    let parameters = HeParameters::from_outline(&outline).unwrap();
                    let most = if parameters.degree() == 2048 { 53 } else { 106 };
                    assert!(parameters.modulus_bits() <= most, "{parameters}");
                    let unit = 2_f64.powi(parameters.tolerance() as i32);
                    assert!(parameters.deviation() <= unit / 8.0, "{parameters}");
                }
            }
        }
    }

    #[test]
    fn usual_rings_need_one_prime_at_the_small_degree() {
        let sizes = |(ring_bits, tolerance)| {
            let parameters = chosen(ring_bits, tolerance);
            (parameters.degree(), parameters.primes().len(), parameters.answer_primes())
        };
        let usual = [(16, 0), (31, 0), (34, 10), (40, 9), (40, 16)].map(sizes);
        assert!(usual.iter().all(|size| *size == (2048, 1, 1)), "{usual:?}");
        assert_eq!([(40, 0), (54, 0), (60, 20)].map(sizes), [(4096, 2, 1), (4096, 2, 2), (4096, 2, 1)]);
        assert_eq!(chosen(40, 0).modulus_bits(), 73);
        assert_eq!(chosen(64, 0).modulus_bits(), 100);
    }

    #[test]
    fn layers_with_the_same_ring_share_a_key_and_its_tables() {
        let outlines = [(31, 16), (22, 9), (50, 0)].map(|(ring_bits, tolerance)| {
            HeOutline::from_taps(ring_bits, WeightBits::Eight, 4608).tolerating(tolerance)
        });
        let chosen = HeParameters::from_outlines(&outlines).unwrap();
        assert!(Arc::ptr_eq(&chosen[0].ring, &chosen[1].ring));
        assert!(chosen[0].shares_key_with(&chosen[1]) && !chosen[0].shares_key_with(&chosen[2]));
        assert_ne!(chosen[0].numbers(), chosen[1].numbers());
    }

    #[test]
    fn a_filter_that_the_small_degree_does_not_hold_takes_the_large_one() {
        let chosen = |filter| {
            let shape = LinearShape::Convolution(ConvolutionShape::same(1, 1, 100, filter));
            let outline = HeOutline::from_layers(31, WeightBits::Eight, vec![shape]).tolerating(14);
            HeParameters::from_outline(&outline).map(|parameters| parameters.degree())
        };
        assert_eq!([chosen(3), chosen(51)], [Ok(2048), Ok(4096)]);
        assert_eq!(chosen(99), Err(HeError::LayerTooLarge { degree: 4096 }));
    }

    #[test]
    fn what_cannot_be_decrypted_is_refused() {
        let outline = HeOutline::from_taps(64, WeightBits::Twelve, 1 << 60);
        let refused = HeParameters::from_outline(&outline).unwrap_err();
        assert_eq!(refused, HeError::CannotDecrypt { ring_bits: 64, taps: 1 << 60 });
        for ring_bits in [0, 7, 65] {
            let outline = HeOutline::from_taps(ring_bits, WeightBits::Eight, 9);
            assert_eq!(HeParameters::from_outline(&outline).unwrap_err(), HeError::RingBits { ring_bits });
        }
    }

    #[test]
    fn the_choice_can_be_printed() {
        let text = chosen(31, 16).to_string();
        assert!(text.contains("n = 2048, q = 50 bits") && text.contains("16 bits are dropped"), "{text}");
    }
}
