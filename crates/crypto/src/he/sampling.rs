//! Keys, errors, masks and uniform polynomials from streams of random bytes, in constant time.
//!
//! Only the uniform halves of ciphertexts are drawn by rejection: they are public.

use zeroize::Zeroize;

use super::kernel::{AlignedWords, LANES};
use super::modulus::Modulus;
use super::parameters::HeParameters;
use crate::domain::Domain;
use crate::random::{Generator, Seed};
use crate::secret::{PublicData, Secret};

/// Coefficients of a short polynomial.
pub(super) type ShortPolynomial = Secret<Vec<i8>>;

/// Trits taken from one 128-bit word. Their joint distribution is within 3^20 / 2^128 of uniform.
const TRITS_PER_WORD: usize = 20;
/// Bytes per draw of a centered binomial, of which 42 bits are used.
const BINOMIAL_BYTES: usize = 6;
/// Bits of a draw: 21 that count up and 21 that count down.
const BINOMIAL_BITS: u32 = 42;
/// Bytes per uniform residue of up to 56 bits.
const UNIFORM_BYTES: usize = 7;
/// Bytes per residue of a mask, reduced modulo a prime of at most 50 bits: within 2^-78 of uniform.
const MASK_BYTES: usize = 16;

/// A uniform polynomial with coefficients -1, 0 and 1.
pub(super) fn ternary(generator: &mut Generator, degree: usize) -> ShortPolynomial {
    let mut bytes = Secret::new(vec![0; degree.div_ceil(TRITS_PER_WORD) * 16]);
    generator.fill(bytes.expose_mut());
    let mut coefficients = Vec::with_capacity(degree);
    for (word, wanted) in bytes.expose().as_chunks::<16>().0.iter().zip((0..degree).step_by(TRITS_PER_WORD)) {
        // The word is a fraction of one; three times it is a trit and a new fraction.
        let fraction = u128::from_le_bytes(*word);
        let (mut low, mut high) = (fraction as u64, (fraction >> 64) as u64);
        for _ in wanted..degree.min(wanted + TRITS_PER_WORD) {
            let tripled_low = u128::from(low) * 3;
            let tripled_high = u128::from(high) * 3 + (tripled_low >> 64);
            (low, high) = (tripled_low as u64, tripled_high as u64);
            coefficients.push((tripled_high >> 64) as i8 - 1);
        }
    }
    Secret::new(coefficients)
}

/// A polynomial of centered binomial errors: variance 10.5, absolute value at most 21.
pub(super) fn binomial(generator: &mut Generator, degree: usize) -> ShortPolynomial {
    let mut bytes = Secret::new(vec![0; degree * BINOMIAL_BYTES]);
    generator.fill(bytes.expose_mut());
    let draws = bytes.expose().as_chunks::<BINOMIAL_BYTES>().0;
    Secret::new(draws.iter().map(|draw| binomial_from(*draw)).collect())
}

/// Complementing 21 uniform bits changes nothing, so counting 42 of them counts up and down at once.
#[inline(always)]
fn binomial_from([a, b, c, d, e, f]: [u8; BINOMIAL_BYTES]) -> i8 {
    let word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) & ((1 << BINOMIAL_BITS) - 1);
    word.count_ones() as i8 - (BINOMIAL_BITS / 2) as i8
}

/// Uniform residues modulo a prime, in constant time; zeros fill the last lanes.
pub(super) fn secret_residues(
    generator: &mut Generator,
    modulus: &Modulus,
    count: usize,
) -> Secret<AlignedWords> {
    let mut bytes = Secret::new(vec![0; count * MASK_BYTES]);
    generator.fill(bytes.expose_mut());
    let mut residues = Secret::new(AlignedWords::zeros(count.next_multiple_of(LANES)));
    for (residue, draw) in residues.expose_mut().iter_mut().zip(bytes.expose().as_chunks::<MASK_BYTES>().0) {
        *residue = modulus.reduce(u128::from_le_bytes(*draw));
    }
    residues
}

/// A uniform polynomial for each prime, expanded from a public seed.
pub(super) fn expand_uniform(
    parameters: &HeParameters,
    domain: Domain,
    seed: &[u8; 32],
) -> Vec<AlignedWords> {
    let tables = parameters.tables().iter().enumerate();
    let expand = |(limb, table): (usize, &super::ntt::NttTable)| {
        let mut hasher = blake3::Hasher::new_derive_key(domain.context());
        hasher.update(seed).update(&[limb as u8]);
        let public =
            PublicData::because("both parties derive the seed from the model's id, which is no secret");
        uniform_residues(hasher.finalize_xof(), table.modulus(), table.degree(), public)
    };
    tables.map(expand).collect()
}

/// Residues by rejection: variable time, for public streams.
fn uniform_residues(
    mut stream: blake3::OutputReader,
    modulus: &Modulus,
    degree: usize,
    _public: PublicData,
) -> AlignedWords {
    let mask = (1_u64 << modulus.bits()) - 1;
    let mut residues = AlignedWords::zeros(degree);
    let mut bytes = vec![0; degree * UNIFORM_BYTES];
    let mut filled = 0;
    while filled < degree {
        let missing = &mut bytes[..(degree - filled) * UNIFORM_BYTES];
        stream.fill(missing);
        for &[a, b, c, d, e, f, g] in missing.as_chunks::<UNIFORM_BYTES>().0 {
            let candidate = u64::from_le_bytes([a, b, c, d, e, f, g, 0]) & mask;
            residues[filled] = candidate;
            filled += usize::from(candidate < modulus.value());
        }
    }
    residues
}

/// The stream that belongs to one ciphertext of a message.
pub(super) fn stream(seed: &Seed, ciphertext: usize) -> Generator {
    let mut key = blake3::keyed_hash(seed.expose(), &(ciphertext as u64).to_le_bytes());
    let own = Seed::from_bytes(*key.as_bytes());
    key.zeroize();
    own.generator()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain;
    use crate::he::parameters::{HeOutline, WeightBits};

    fn generator(byte: u8) -> Generator {
        Seed::from_bytes([byte; 32]).generator()
    }

    #[test]
    fn ternary_coefficients_are_uniform() {
        let trits = ternary(&mut generator(1), 300_001);
        assert_eq!(trits.expose().len(), 300_001);
        for value in [-1, 0, 1] {
            let count = trits.expose().iter().filter(|trit| **trit == value).count();
            assert!(count.abs_diff(100_000) < 1500, "{value}: {count}");
        }
    }

    #[test]
    fn errors_have_the_declared_variance_and_bound() {
        let errors = binomial(&mut generator(2), 400_000);
        let (mut sum, mut squares) = (0_i64, 0_i64);
        for &error in errors.expose() {
            assert!((-21..=21).contains(&error));
            sum += i64::from(error);
            squares += i64::from(error) * i64::from(error);
        }
        assert!((squares as f64 / 400_000.0 - 10.5).abs() < 0.15 && sum.abs() < 10_000);
        assert_eq!((binomial_from([0; 6]), binomial_from([255; 6])), (-21, 21));
    }

    #[test]
    fn masks_are_uniform_modulo_primes_of_all_sizes() {
        for bits in [22, 35, 50] {
            let modulus = Modulus::new(crate::he::modulus::ntt_primes(bits, 4096, 1)[0]);
            let masks = secret_residues(&mut generator(3), &modulus, 40_001);
            assert!(masks.expose().iter().all(|mask| *mask < modulus.value()));
            assert!(masks.expose()[40_001..].iter().all(|mask| *mask == 0));
            // Sixteen cells of 2,500: with 15 degrees of freedom, 50 is passed once in 80,000 draws.
            let mut cells = [0_f64; 16];
            for mask in &masks.expose()[..40_000] {
                cells[(u128::from(*mask) * 16 / u128::from(modulus.value())) as usize] += 1.0;
            }
            let statistic: f64 = cells.iter().map(|cell| (cell - 2500.0).powi(2) / 2500.0).sum();
            assert!(statistic < 50.0, "{bits} bits: {statistic}");
        }
    }

    #[test]
    fn uniform_polynomials_depend_on_seed_domain_and_limb() {
        let outline = HeOutline::from_taps(60, WeightBits::Eight, 9);
        let parameters = HeParameters::from_outline(&outline).unwrap();
        let expand = |domain, byte| expand_uniform(&parameters, domain, &[byte; 32]);
        let first = expand(domain::HE_UNIFORM, 1);
        for (prime, limb) in parameters.primes().zip(&first) {
            assert!(limb.iter().all(|value| *value < prime));
        }
        assert_eq!(first[0][..], expand(domain::HE_UNIFORM, 1)[0][..]);
        assert_ne!(first[0][..], expand(domain::HE_UNIFORM, 2)[0][..]);
        assert_ne!(first[0][..], expand(domain::HE_PUBLIC_UNIFORM, 1)[0][..]);
        assert_ne!(first[0][..], first[1][..]);
    }

    #[test]
    fn rejection_keeps_only_residues() {
        let modulus = Modulus::new((1 << 30) + 3);
        let stream = blake3::Hasher::new().update(b"stream").finalize_xof();
        let residues = uniform_residues(stream, &modulus, 4096, PublicData::because("a test"));
        assert!(residues.iter().all(|value| *value < modulus.value()));
        let mean = residues.iter().sum::<u64>() as f64 / 4096.0;
        assert!((mean / modulus.value() as f64 - 0.5).abs() < 0.02);
    }

    #[test]
    fn ciphertexts_have_streams_of_their_own() {
        let seed = Seed::from_bytes([9; 32]);
        assert_ne!(stream(&seed, 0).next_u64(), stream(&seed, 1).next_u64());
        assert_eq!(stream(&seed, 5).next_u64(), stream(&seed, 5).next_u64());
    }
}
