//! Ring degree, moduli and flood of the RLWE scheme, chosen from an outline alone.
//!
//! The candidates are tried from the cheapest on; the first that keeps the whole inference within 2^-40 (or, beside
//! other sets, its part of that) and decrypts every answer with certainty is taken. Both checks are exact integer arithmetic, so that client and server, who
//! each make the choice for themselves, always make the same one. Security against the lattice attacks bounds
//! log q by 106 bits at n = 4096 and 214 at n = 8192: 128 bits, classical, after the 2024 guidelines (Bossuat et
//! al., "Security guidelines for implementing homomorphic encryption", ternary secret).

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
use noise::{AnswerFormat, DISTANCE_LIMIT_LOG2};
pub(super) use noise::{AnswerNoise, FLOOD_BITS_MAX};

/// Ring degree, moduli and error width of the RLWE scheme, and the distance they keep.
///
/// Cloning is cheap: the tables are shared.
#[derive(Clone)]
pub struct HeParameters {
    ring_bits: u32,
    weight_bound: u32,
    max_taps: u64,
    flood_bits: u32,
    distance_log2: f64,
    limit_log2: f64,
    noise_margin_bits: f64,
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
    /// `-3 * 2^(flood_bits - 1)` modulo each prime.
    flood_center: Vec<u64>,
    /// For each dropped prime (last first): its inverse modulo each prime before it.
    dropped_inverses: Vec<Vec<Factor>>,
    /// For each kept prime: the inverse of the other kept ones, and `floor(2^128 / prime)`.
    decoding: Vec<(Factor, u128)>,
    /// With two kept primes: the inverse of the first modulo the second.
    compose: Option<Factor>,
}

/// A row of the ladder: ring degree, bits of each prime, number of primes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    degree: usize,
    prime_bits: u32,
    primes: usize,
}

/// From few bytes to many. Within a degree the ciphertexts grow with log q; the larger degree comes last because
/// its ciphertexts are coarser.
const LADDER: [Candidate; 17] = [
    Candidate { degree: 4096, prime_bits: 42, primes: 2 },
    Candidate { degree: 4096, prime_bits: 43, primes: 2 },
    Candidate { degree: 4096, prime_bits: 44, primes: 2 },
    Candidate { degree: 4096, prime_bits: 45, primes: 2 },
    Candidate { degree: 4096, prime_bits: 46, primes: 2 },
    Candidate { degree: 4096, prime_bits: 47, primes: 2 },
    Candidate { degree: 4096, prime_bits: 48, primes: 2 },
    Candidate { degree: 4096, prime_bits: 49, primes: 2 },
    WORKING_POINT,
    Candidate { degree: 4096, prime_bits: 34, primes: 3 },
    Candidate { degree: 4096, prime_bits: 35, primes: 3 },
    Candidate { degree: 8192, prime_bits: 37, primes: 3 },
    Candidate { degree: 8192, prime_bits: 39, primes: 3 },
    Candidate { degree: 8192, prime_bits: 41, primes: 3 },
    Candidate { degree: 8192, prime_bits: 43, primes: 3 },
    Candidate { degree: 8192, prime_bits: 46, primes: 3 },
    Candidate { degree: 8192, prime_bits: 50, primes: 3 },
];

/// Two primes of 50 bits at n = 4096: the usual choice for 32-bit shares.
const WORKING_POINT: Candidate = Candidate { degree: 4096, prime_bits: 50, primes: 2 };

impl HeParameters {
    /// The cheapest parameters that serve the outline.
    ///
    /// # Errors
    /// When the ring is not supported, a shape does not fit, or no candidate is private and correct.
    pub fn from_outline(outline: &HeOutline) -> Result<Self, HeError> {
        let ring_bits = outline.checked_ring_bits()?;
        let mut best_distance_log2 = f64::INFINITY;
        let mut taps = 0;
        let mut noise_at = None;
        for candidate in LADDER {
            let noise = match noise_at.take() {
                Some((degree, noise)) if degree == candidate.degree => noise,
                _ => outline.noise(candidate.degree)?,
            };
            let (_, noise) = noise_at.insert((candidate.degree, noise));
            taps = noise.max_taps();
            let Some(parameters) = Self::at(candidate, outline, noise) else { continue };
            best_distance_log2 = best_distance_log2.min(parameters.distance_log2);
            if noise.is_within_limit(candidate.degree, parameters.flood_bits, outline.sets()) {
                return Ok(parameters);
            }
        }
        match best_distance_log2.is_finite() {
            true => Err(HeError::TooFar { ring_bits, best_distance_log2 }),
            false => Err(HeError::CannotDecrypt { ring_bits, taps }),
        }
    }

    /// The working point n = 4096, q = 2^100 for any outline it decrypts, **whatever the distance**: for tests of
    /// correctness only. The weights are not hidden.
    ///
    /// # Errors
    /// When the ring is not supported, a shape does not fit, or answers could not be decrypted.
    pub fn insecure_for_tests(outline: &HeOutline) -> Result<Self, HeError> {
        let ring_bits = outline.checked_ring_bits()?;
        let noise = outline.noise(WORKING_POINT.degree)?;
        let taps = noise.max_taps();
        Self::at(WORKING_POINT, outline, &noise).ok_or(HeError::CannotDecrypt { ring_bits, taps })
    }

    /// The candidate with the widest flood, if it decrypts.
    fn at(candidate: Candidate, outline: &HeOutline, noise: &AnswerNoise) -> Option<Self> {
        let primes = ntt_primes(candidate.prime_bits, candidate.degree, candidate.primes);
        let log_modulus = candidate.prime_bits * candidate.primes as u32;
        // The flood reaches three quarters of half the gap between two plaintexts.
        let flood_bits = log_modulus.checked_sub(outline.ring_bits() + 2)?.min(FLOOD_BITS_MAX);
        let format = AnswerFormat::choose(&primes, outline.ring_bits(), candidate.degree, flood_bits, noise)?;
        let shared =
            Shared::new(&primes, candidate.degree, outline.ring_bits(), flood_bits, format.kept_primes);
        Some(Self {
            ring_bits: outline.ring_bits(),
            weight_bound: outline.weight_bits().bound(),
            max_taps: noise.max_taps(),
            flood_bits,
            distance_log2: noise.distance_log2(candidate.degree, flood_bits),
            limit_log2: f64::from(DISTANCE_LIMIT_LOG2) - f64::from(outline.sets()).log2() / 2.0,
            noise_margin_bits: format.noise_margin_bits,
            format,
            kernels: Kernels::for_cpu(CpuFeatures::available()),
            shared: Arc::new(shared),
        })
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

    /// Bits b of each of the three uniforms whose sum floods an answer.
    pub fn flood_bits(&self) -> u32 {
        self.flood_bits
    }

    /// Base-two logarithm of the bound on the statistical distance over all answers of the outline.
    pub fn distance_log2(&self) -> f64 {
        self.distance_log2
    }

    /// The same over all answers of an inference, whose floods are independent from set to set: squares add.
    pub fn joint_distance_log2(sets: &[Self]) -> f64 {
        let squares = sets.iter().map(|set| (2.0 * set.distance_log2).exp2());
        squares.sum::<f64>().log2() / 2.0
    }

    /// Bits left before decryption fails, for the largest noise that can occur.
    pub fn noise_margin_bits(&self) -> f64 {
        self.noise_margin_bits
    }

    /// The primes whose product is the ciphertext modulus, largest first.
    pub fn primes(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.shared.tables.iter().map(|table| table.modulus().value())
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

    pub(super) fn flood_center(&self, limb: usize) -> u64 {
        self.shared.flood_center[limb]
    }

    pub(super) fn dropped_inverses(&self) -> &[Vec<Factor>] {
        &self.shared.dropped_inverses
    }

    pub(super) fn decoding(&self) -> &[(Factor, u128)] {
        &self.shared.decoding
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

    /// The same parameters with a flood of another size: what the tests of the flood compare with.
    #[cfg(test)]
    pub(super) fn with_weak_flood(&self, flood_bits: u32) -> Self {
        let primes: Vec<_> = self.primes().collect();
        let shared = Shared::new(&primes, self.degree(), self.ring_bits, flood_bits, self.format.kept_primes);
        Self { flood_bits, shared: Arc::new(shared), ..self.clone() }
    }
}

impl Shared {
    fn new(primes: &[u64], degree: usize, ring_bits: u32, flood_bits: u32, kept: usize) -> Self {
        let tables: Vec<_> = primes.iter().map(|&prime| NttTable::new(prime, degree)).collect();
        let inverse_of = |value: u128, table: &NttTable| {
            let modulus = table.modulus();
            modulus.factor(modulus.inverse(modulus.reduce(value)))
        };
        let flood_middle = 3 << (flood_bits - 1);
        let product_of_others = |index: usize| {
            (0..kept).filter(|&other| other != index).map(|other| u128::from(primes[other])).product()
        };
        Self {
            modulus_low: primes.iter().fold(1, |product, prime| product.wrapping_mul(*prime)),
            inverse_ring: tables.iter().map(|table| inverse_of(1 << ring_bits, table)).collect(),
            flood_center: tables
                .iter()
                .map(|table| table.modulus().subtract(0, table.modulus().reduce(flood_middle)))
                .collect(),
            dropped_inverses: (kept..primes.len())
                .rev()
                .map(|last| {
                    tables[..last].iter().map(|table| inverse_of(u128::from(primes[last]), table)).collect()
                })
                .collect(),
            decoding: (0..kept)
                .map(|index| {
                    let others = inverse_of(product_of_others(index), &tables[index]);
                    // An odd prime does not divide 2^128, so this is the floor of 2^128 over the prime.
                    (others, u128::MAX / u128::from(primes[index]))
                })
                .collect(),
            compose: (kept == 2).then(|| inverse_of(u128::from(primes[0]), &tables[1])),
            tables,
        }
    }
}

impl fmt::Display for HeParameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "RLWE n = {}, q = {} primes of {} bits, t = 2^{}, weights up to {}, {} taps; flood 3 x {} bits, distance \
             2^{:.1} (limit 2^{}); answers {} + {} bits, noise margin {:.2} bits",
            self.degree(),
            self.shared.tables.len(),
            self.shared.tables[0].modulus().bits(),
            self.ring_bits,
            self.weight_bound,
            self.max_taps,
            self.flood_bits,
            self.distance_log2,
            self.limit_log2,
            self.format.value_bits,
            self.format.uniform_bits,
            self.noise_margin_bits,
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
        HeOutline::from_counts(ring_bits, weight_bits, 4608, 600_000)
    }

    #[test]
    fn the_working_point_keeps_the_distance_of_the_notes() {
        let parameters = HeParameters::from_outline(&worst(32, WeightBits::Eight)).unwrap();
        assert_eq!(
            (parameters.degree(), parameters.modulus_bits(), parameters.flood_bits()),
            (4096, 100, 66)
        );
        assert!((parameters.distance_log2() + 41.5).abs() < 0.1, "{parameters}");
        assert!(parameters.noise_margin_bits() > 0.0);
    }

    #[test]
    fn every_ring_finds_parameters_within_the_limits() {
        for weight_bits in [WeightBits::Eight, WeightBits::Twelve] {
            for ring_bits in 8..=64 {
                let parameters = HeParameters::from_outline(&worst(ring_bits, weight_bits)).unwrap();
                let limit = if parameters.degree() == 4096 { 106 } else { 214 };
                assert!(parameters.modulus_bits() <= limit, "{parameters}");
                assert!(parameters.distance_log2() <= -40.0, "{parameters}");
            }
        }
    }

    #[test]
    fn sets_that_share_an_inference_stay_within_the_limit_together() {
        for wide in 41..=64 {
            let sets = [20, 37, wide].map(|ring_bits| {
                HeParameters::from_outline(&worst(ring_bits, WeightBits::Eight).sharing_among(3)).unwrap()
            });
            let joint = HeParameters::joint_distance_log2(&sets);
            assert!(joint <= -40.0, "{joint} {sets:?}");
            assert!(sets.iter().all(|set| set.distance_log2() < joint), "{joint} {sets:?}");
        }
    }

    #[test]
    fn a_wide_ring_leaves_the_small_degree() {
        let degree =
            |ring_bits| HeParameters::from_outline(&worst(ring_bits, WeightBits::Eight)).unwrap().degree();
        assert_eq!((degree(32), degree(37), degree(41)), (4096, 4096, 8192));
    }

    #[test]
    fn what_cannot_be_hidden_is_refused() {
        let outline = HeOutline::from_counts(64, WeightBits::Twelve, 1 << 40, 1 << 50);
        assert!(matches!(
            HeParameters::from_outline(&outline),
            Err(HeError::TooFar { .. } | HeError::CannotDecrypt { .. })
        ));
        for ring_bits in [0, 7, 65] {
            let outline = HeOutline::from_counts(ring_bits, WeightBits::Eight, 9, 9);
            assert_eq!(HeParameters::from_outline(&outline).unwrap_err(), HeError::RingBits { ring_bits });
        }
    }

    #[test]
    fn the_test_escape_skips_the_gate_but_not_correctness() {
        let outline = worst(41, WeightBits::Eight);
        let parameters = HeParameters::insecure_for_tests(&outline).unwrap();
        assert!(parameters.distance_log2() > -33.0 && parameters.degree() == 4096);
        assert!(parameters.noise_margin_bits() > 0.0);
    }

    #[test]
    fn the_choice_can_be_printed() {
        let text = HeParameters::from_outline(&worst(32, WeightBits::Eight)).unwrap().to_string();
        assert!(text.contains("n = 4096") && text.contains("2^-41."), "{text}");
    }
}
