//! Ring degree and moduli of the RLWE scheme, chosen from an outline alone.
//!
//! The candidates are tried from the cheapest on; the first whose shares are off by one last place at most, whatever the
//! noise does, is taken. The check is exact integer arithmetic, so that client and server, who each make the choice for
//! themselves, always make the same one. Security against the lattice attacks bounds log q by 106 bits at n = 4096: 128
//! bits, classical, after the 2024 guidelines (Bossuat et al., "Security guidelines for implementing homomorphic
//! encryption", ternary secret). Hiding the weights asks nothing of q: the mask of an answer is uniform modulo q.

mod noise;
mod outline;

use std::fmt;
use std::sync::Arc;

pub use outline::{HeOutline, WeightBits};

use super::error::HeError;
use super::kernel::Kernels;
use super::modulus::{Factor, ntt_primes};
use super::ntt::NttTable;
use crate::cpu::CpuFeatures;
use noise::AnswerFormat;
pub(super) use noise::AnswerNoise;

/// Ring degree, moduli and answer format of the RLWE scheme.
///
/// Cloning is cheap: the tables are shared.
#[derive(Clone)]
pub struct HeParameters {
    ring_bits: u32,
    weight_bound: u32,
    max_taps: u64,
    format: AnswerFormat,
    kernels: Kernels,
    shared: Arc<Shared>,
}

/// What depends on degree, primes and ring alone.
struct Shared {
    tables: Vec<NttTable>,
    /// q modulo 2^64.
    modulus_low: u64,
    /// `2^-ring_bits` modulo each prime.
    inverse_ring: Vec<Factor>,
    /// For each dropped prime (last first): its inverse modulo each prime before it.
    dropped_inverses: Vec<Vec<Factor>>,
    /// How a number below the kept modulus is read as a share.
    kept_reading: Reading,
    /// How a number below the whole modulus is.
    whole_reading: Reading,
    /// With two kept primes: the inverse of the first modulo the second.
    compose: Option<Factor>,
}

/// For each prime: the inverse of the others, and `floor(2^128 / prime)`.
pub(super) type Reading = Vec<(Factor, u128)>;

/// Coefficients of a ciphertext.
const DEGREE: usize = 4096;
/// Bits of a second prime that only makes room for noise, and is gone from the answer. With 22 there would be no prime
/// close enough to the power of two for its residues to look like bits.
const SMALL_PRIME_BITS: u32 = 23;
/// Bits of the widest prime.
const WIDEST_PRIME_BITS: u32 = 50;

/// Bits of the primes, from few bytes to many: one prime; one that an answer keeps and a small one that it drops; two
/// that it keeps.
fn ladder() -> impl Iterator<Item = Vec<u32>> {
    let one = (30..=WIDEST_PRIME_BITS).map(|bits| vec![bits]);
    let dropping = (36..=WIDEST_PRIME_BITS).map(|bits| vec![bits, SMALL_PRIME_BITS]);
    let keeping = (SMALL_PRIME_BITS..=WIDEST_PRIME_BITS).map(|bits| vec![WIDEST_PRIME_BITS, bits]);
    one.chain(dropping).chain(keeping)
}

/// The largest primes with these bits, no two the same.
fn primes_of(bits: &[u32]) -> Vec<u64> {
    match *bits {
        [first, second] if first == second => ntt_primes(first, DEGREE, 2),
        _ => bits.iter().flat_map(|&bits| ntt_primes(bits, DEGREE, 1)).collect(),
    }
}

impl HeParameters {
    /// The cheapest parameters that serve the outline.
    ///
    /// # Errors
    /// When the ring is not supported, a shape does not fit, or the noise of no candidate is small enough.
    pub fn from_outline(outline: &HeOutline) -> Result<Self, HeError> {
        let ring_bits = outline.checked_ring_bits()?;
        let noise = outline.noise(DEGREE)?;
        for bits in ladder() {
            let primes = primes_of(&bits);
            let Some(format) = AnswerFormat::choose(&primes, ring_bits, DEGREE, &noise) else { continue };
            // Decryption works once for each prime that an answer keeps, so two are the last resort.
            if format.kept_primes == 1 || bits[0] == WIDEST_PRIME_BITS {
                let shared = Shared::new(&primes, ring_bits, format.kept_primes);
                return Ok(Self {
                    ring_bits,
                    weight_bound: outline.weight_bits().bound(),
                    max_taps: noise.max_taps(),
                    format,
                    kernels: Kernels::for_cpu(CpuFeatures::available()),
                    shared: Arc::new(shared),
                });
            }
        }
        Err(HeError::CannotDecrypt { ring_bits, taps: noise.max_taps() })
    }

    /// The same parameters, computed with at most these instructions.
    #[must_use]
    pub fn with_cpu(mut self, cpu: CpuFeatures) -> Self {
        self.kernels = Kernels::for_cpu(cpu);
        self
    }

    /// Coefficients of one ciphertext, n.
    pub fn degree(&self) -> usize {
        self.shared.tables[0].degree()
    }

    /// Bits l of the ring of shares; the plaintext modulus is 2^l.
    pub fn ring_bits(&self) -> u32 {
        self.ring_bits
    }

    /// Largest absolute value of a weight.
    pub fn weight_bound(&self) -> u32 {
        self.weight_bound
    }

    /// Largest number of weights that may meet in one coefficient.
    pub fn max_taps(&self) -> u64 {
        self.max_taps
    }

    /// How often a share is off by one last place, at most: the mean of |eta| for the worst weights.
    pub fn error_probability(&self) -> f64 {
        self.format.deviation * std::f64::consts::FRAC_2_PI.sqrt()
    }

    /// By how many last places both shares together may miss the layer's value.
    pub fn largest_error(&self) -> u64 {
        1
    }

    /// Primes that an answer is still written modulo; decryption works once for each.
    pub fn answer_primes(&self) -> usize {
        self.format.kept_primes
    }

    /// The primes whose product is the ciphertext modulus, largest first.
    pub fn primes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.shared.tables.iter().map(|table| table.modulus().value())
    }

    /// What two parties must have chosen alike: degree, ring bits, weight bound, taps, primes that an answer keeps, bits of a
    /// value and of a coefficient of the second half, then every prime. The plan's digest hashes it.
    pub fn numbers(&self) -> Vec<u64> {
        let bits = [self.ring_bits, self.weight_bound].map(u64::from);
        let format = [self.format.value_bits, self.format.uniform_bits].map(u64::from);
        let kept = self.format.kept_primes as u64;
        let fixed = [&[self.degree() as u64], &bits[..], &[self.max_taps, kept], &format].concat();
        fixed.into_iter().chain(self.primes()).collect()
    }

    /// Bits of the ciphertext modulus.
    pub fn modulus_bits(&self) -> u32 {
        self.shared.tables.iter().map(|table| table.modulus().bits()).sum()
    }

    pub(super) fn tables(&self) -> &[NttTable] {
        &self.shared.tables
    }

    pub(super) fn kernels(&self) -> Kernels {
        self.kernels
    }

    pub(super) fn format(&self) -> &AnswerFormat {
        &self.format
    }

    /// All ones in the ring's bits.
    pub(super) fn ring_mask(&self) -> u64 {
        u64::MAX >> (64 - self.ring_bits)
    }

    pub(super) fn modulus_low(&self) -> u64 {
        self.shared.modulus_low
    }

    pub(super) fn inverse_ring(&self, limb: usize) -> Factor {
        self.shared.inverse_ring[limb]
    }

    pub(super) fn dropped_inverses(&self) -> &[Vec<Factor>] {
        &self.shared.dropped_inverses
    }

    pub(super) fn kept_reading(&self) -> &Reading {
        &self.shared.kept_reading
    }

    pub(super) fn whole_reading(&self) -> &Reading {
        &self.shared.whole_reading
    }

    pub(super) fn compose(&self) -> Option<Factor> {
        self.shared.compose
    }

    /// Refuses a layer that the outline did not announce.
    pub(super) fn admit(&self, taps: u64) -> Result<(), HeError> {
        match taps <= self.max_taps {
            true => Ok(()),
            false => Err(HeError::TooManyTaps { taps, allowed: self.max_taps }),
        }
    }
}

impl Shared {
    fn new(primes: &[u64], ring_bits: u32, kept: usize) -> Self {
        let tables: Vec<_> = primes.iter().map(|&prime| NttTable::new(prime, DEGREE)).collect();
        let inverse_of = |value: u128, table: &NttTable| {
            let modulus = table.modulus();
            modulus.factor(modulus.inverse(modulus.reduce(value)))
        };
        let reading = |count: usize| {
            let part = |index: usize| {
                let others = (0..count).filter(|&other| other != index);
                let others = others.map(|other| u128::from(primes[other])).product();
                // An odd prime does not divide 2^128, so this is the floor of 2^128 over the prime.
                (inverse_of(others, &tables[index]), u128::MAX / u128::from(primes[index]))
            };
            (0..count).map(part).collect()
        };
        Self {
            modulus_low: primes.iter().fold(1, |product, prime| product.wrapping_mul(*prime)),
            inverse_ring: tables.iter().map(|table| inverse_of(1 << ring_bits, table)).collect(),
            dropped_inverses: (kept..primes.len())
                .rev()
                .map(|last| {
                    tables[..last].iter().map(|table| inverse_of(u128::from(primes[last]), table)).collect()
                })
                .collect(),
            kept_reading: reading(kept),
            whole_reading: reading(primes.len()),
            compose: (kept == 2).then(|| inverse_of(u128::from(primes[0]), &tables[1])),
            tables,
        }
    }
}

impl fmt::Display for HeParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let primes: Vec<_> = self.primes().map(|prime| prime.ilog2() + 1).collect();
        let primes = primes.iter().map(u32::to_string).collect::<Vec<_>>().join(" + ");
        write!(
            formatter,
            "RLWE n = {}, q = {primes} bits, t = 2^{}, weights up to {}, {} taps; answers {} + {} bits, masks uniform \
             modulo q, shares off by one last place in {:.1}% of cases at most",
            self.degree(),
            self.ring_bits,
            self.weight_bound,
            self.max_taps,
            self.format.value_bits,
            self.format.uniform_bits,
            100.0 * self.error_probability(),
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

    fn worst(ring_bits: u32, weight_bits: WeightBits) -> HeOutline {
        HeOutline::from_taps(ring_bits, weight_bits, 4608)
    }

    fn chosen(ring_bits: u32) -> HeParameters {
        HeParameters::from_outline(&worst(ring_bits, WeightBits::Eight)).unwrap()
    }

    #[test]
    fn every_ring_finds_parameters_within_the_security_table() {
        for weight_bits in [WeightBits::Eight, WeightBits::Twelve] {
            for ring_bits in 8..=64 {
                let parameters = HeParameters::from_outline(&worst(ring_bits, weight_bits)).unwrap();
                assert!(parameters.degree() == 4096 && parameters.modulus_bits() <= 100, "{parameters}");
                assert!(parameters.error_probability() < 0.2, "{parameters}");
            }
        }
    }

    #[test]
    fn narrow_rings_need_one_prime_and_usual_ones_keep_one() {
        let primes = |ring_bits| (chosen(ring_bits).primes().len(), chosen(ring_bits).answer_primes());
        assert_eq!([16, 24, 32, 37, 41, 64].map(primes), [(1, 1), (1, 1), (2, 1), (2, 1), (2, 2), (2, 2)]);
        assert_eq!(chosen(32).modulus_bits(), 68);
    }

    #[test]
    fn what_cannot_be_decrypted_is_refused() {
        let outline = HeOutline::from_taps(64, WeightBits::Twelve, 1 << 40);
        let refused = HeParameters::from_outline(&outline).unwrap_err();
        assert_eq!(refused, HeError::CannotDecrypt { ring_bits: 64, taps: 1 << 40 });
        for ring_bits in [0, 7, 65] {
            let outline = HeOutline::from_taps(ring_bits, WeightBits::Eight, 9);
            assert_eq!(HeParameters::from_outline(&outline).unwrap_err(), HeError::RingBits { ring_bits });
        }
    }

    #[test]
    fn the_choice_can_be_printed() {
        let text = chosen(32).to_string();
        assert!(
            text.contains("n = 4096, q = 45 + 23 bits") && text.contains("answers 34 + 45 bits"),
            "{text}"
        );
    }
}
