//! Between ring elements and residues: encoding, rescaling, and decoding without a division.
//!
//! A ring element m becomes round(q m / t), t = 2^l. Since q vanishes modulo each prime, that number is, modulo the
//! prime, minus the centered remainder of q m modulo t, divided by t: one product by a constant, and no number larger
//! than a word. (floor(q / t) m would not do: it adds (q mod t) K to the noise whenever a sum wraps K times, which
//! depends on the weights.)

use super::kernel::AlignedWords;
use super::modulus::WORD_BITS;
use super::parameters::{HeParameters, Reading};
use crate::secret::Secret;

/// `round(q element / 2^l)` modulo one prime.
#[inline(always)]
pub(super) fn encode(parameters: &HeParameters, limb: usize, element: u64) -> u64 {
    let modulus = parameters.tables()[limb].modulus();
    let remainder = parameters.modulus_low().wrapping_mul(element) & parameters.ring_mask();
    let rounds_up = remainder >> (parameters.ring_bits() - 1);
    let word =
        if parameters.ring_bits() <= WORD_BITS { remainder } else { modulus.reduce(u128::from(remainder)) };
    modulus.subtract(rounds_up, modulus.multiply(word, parameters.inverse_ring(limb)))
}

/// Divides by the prime that answers drop, if they drop one, rounding to nearest; `limbs` keeps the others.
pub(super) fn rescale(parameters: &HeParameters, limbs: &mut Vec<Secret<AlignedWords>>) {
    let Some(inverse) = parameters.rescaling_factor() else { return };
    let last = limbs.pop().expect("a limb for each prime");
    let [kept, dropped] = [0, 1].map(|limb| parameters.tables()[limb].modulus());
    for limb in limbs {
        parameters.kernels().divide(kept, limb.expose_mut(), dropped, last.expose(), inverse);
    }
}

/// The number that has these residues, modulo one prime or both.
#[inline(always)]
pub(super) fn compose(parameters: &HeParameters, residues: &[u64]) -> u128 {
    let (&[first_residue, second_residue], Some(inverse)) = (residues, parameters.composing_factor()) else {
        return u128::from(residues[0]);
    };
    let (first, second) = (parameters.tables()[0].modulus(), parameters.tables()[1].modulus());
    // A residue of the first prime may exceed the second, which is smaller.
    let lower = second.reduce_word(first_residue);
    let digit = second.multiply(second.subtract(second_residue, lower), inverse);
    u128::from(first_residue) + u128::from(first.value()) * u128::from(digit)
}

/// `round(2^l v / P)` modulo 2^l, for the v below P that has these residues; the reading is that of the primes of P.
///
/// v / P is, modulo one, a sum of fractions with the primes as denominators. 128 fraction bits of each are
/// one product by a constant; the whole part falls off the top.
#[inline(always)]
pub(super) fn decode(parameters: &HeParameters, reading: &Reading, residues: &[u64]) -> u64 {
    let mut fraction = 1_u128 << (127 - parameters.ring_bits());
    for ((residue, table), (others, reciprocal)) in residues.iter().zip(parameters.tables()).zip(reading) {
        let numerator = table.modulus().multiply(*residue, *others);
        fraction = fraction.wrapping_add(u128::from(numerator).wrapping_mul(*reciprocal));
    }
    (fraction >> (128 - parameters.ring_bits())) as u64
}

/// A number whose low bits were left out, taken to be the middle of those it may have been.
#[inline(always)]
pub(super) fn restore(sent: u128, dropped_bits: u32) -> u128 {
    let middle = if dropped_bits == 0 { 0 } else { 1 << (dropped_bits - 1) };
    (sent << dropped_bits) + middle
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::parameters::{HeOutline, WeightBits};
    use proptest::prelude::*;

    fn all_parameters() -> Vec<HeParameters> {
        [16, 31, 33, 37, 41, 53, 64]
            .iter()
            .map(|&ring_bits| HeOutline::from_taps(ring_bits, WeightBits::Eight, 4608))
            .map(|outline| HeParameters::from_outline(&outline).unwrap())
            .collect()
    }

    /// Schoolbook numbers of 32-bit digits, lowest first: slow, and obviously right.
    #[derive(Clone, PartialEq, Debug)]
    struct Big(Vec<u32>);

    impl Big {
        fn product(factors: &[u64]) -> Self {
            factors.iter().fold(Self(vec![1]), |number, factor| number.times(u128::from(*factor)))
        }

        fn times(&self, factor: u128) -> Self {
            let digits: Vec<u64> =
                (0..4).map(|index| (factor >> (32 * index)) as u64 & 0xffff_ffff).collect();
            let mut sums = vec![0_u128; self.0.len() + 5];
            for (i, &a) in self.0.iter().enumerate() {
                for (j, &b) in digits.iter().enumerate() {
                    sums[i + j] += u128::from(a) * u128::from(b);
                }
            }
            Self::carried(sums)
        }

        fn plus(&self, addend: u128) -> Self {
            let mut sums: Vec<u128> = self.0.iter().map(|digit| u128::from(*digit)).collect();
            sums.resize(sums.len().max(4) + 1, 0);
            for (index, sum) in sums.iter_mut().take(4).enumerate() {
                *sum += (addend >> (32 * index)) & 0xffff_ffff;
            }
            Self::carried(sums)
        }

        fn carried(sums: Vec<u128>) -> Self {
            let mut carry = 0;
            Self(
                sums.into_iter()
                    .map(|sum| {
                        let total = sum + carry;
                        carry = total >> 32;
                        total as u32
                    })
                    .collect(),
            )
        }

        fn shifted_right(&self, bits: u32) -> Self {
            let halved = |number: &Self| {
                let next = number.0.iter().skip(1).copied().chain([0]);
                Self(number.0.iter().zip(next).map(|(low, high)| low >> 1 | high << 31).collect())
            };
            (0..bits).fold(self.clone(), |number, _| halved(&number))
        }

        fn remainder(&self, divisor: u64) -> u64 {
            let step = |rest: u128, digit: &u32| (rest << 32 | u128::from(*digit)) % u128::from(divisor);
            self.0.iter().rev().fold(0, step) as u64
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn encoding_is_the_rounded_quotient(element: u64, bit in 0_u32..64) {
            for parameters in all_parameters() {
                let primes: Vec<_> = parameters.primes().collect();
                for element in [element, 0, u64::MAX, 1 << bit].map(|element| element & parameters.ring_mask()) {
                    let scaled = Big::product(&primes).times(u128::from(element));
                    let rounded = scaled.plus(1 << (parameters.ring_bits() - 1)).shifted_right(parameters.ring_bits());
                    for (limb, prime) in primes.iter().enumerate() {
                        prop_assert_eq!(encode(&parameters, limb, element), rounded.remainder(*prime));
                    }
                }
            }
        }

        #[test]
        fn rescaling_rounds_and_composition_inverts(high: u64, low: u128) {
            for parameters in all_parameters() {
                let primes: Vec<_> = parameters.primes().collect();
                let kept = parameters.format().kept_primes;
                let kept_modulus = parameters.format().kept_modulus;
                let dropped: u128 = primes[kept..].iter().map(|prime| u128::from(*prime)).product();
                // value = quotient * dropped + rest, with a rest small enough to round down or large enough for up.
                let quotient = (low ^ u128::from(high) << 64) % (kept_modulus - 1);
                for (rest, up) in [(0, 0), (dropped / 2, 0), (dropped / 2 + 1, 1), (dropped - 1, 1)] {
                    if dropped == 1 { break }
                    let value = Big(vec![1]).times(quotient).times(dropped).plus(rest);
                    let mut limbs: Vec<_> = primes.iter().map(|prime| {
                        let mut words = AlignedWords::zeros(8);
                        words.fill(value.remainder(*prime));
                        Secret::new(words)
                    }).collect();
                    rescale(&parameters, &mut limbs);
                    let residues: Vec<_> = limbs.iter().map(|limb| limb.expose()[5]).collect();
                    let composed = compose(&parameters, &residues);
                    let difference = composed.abs_diff(quotient + up);
                    prop_assert_eq!(difference, 0);
                }
            }
        }

        #[test]
        fn decoding_is_the_rounded_quotient(wide: u128, part in -0.45_f64..0.45) {
            for parameters in all_parameters() {
                let all: Vec<_> = parameters.primes().collect();
                let kept = parameters.format().kept_primes;
                for (primes, reading) in [(&all[..kept], parameters.kept_reading()), (&all[..], parameters.whole_reading())] {
                    let element = wide as u64 & parameters.ring_mask();
                    let exact = Big::product(primes).times(u128::from(element))
                        .plus(1 << (parameters.ring_bits() - 1)).shifted_right(parameters.ring_bits());
                    let product: f64 = primes.iter().map(|prime| *prime as f64).product();
                    let error = (part * product / 2_f64.powi(parameters.ring_bits() as i32)) as i128;
                    let residues: Vec<_> = primes.iter().map(|prime| {
                        (i128::from(exact.remainder(*prime)) + error).rem_euclid(i128::from(*prime)) as u64
                    }).collect();
                    prop_assert_eq!(decode(&parameters, reading, &residues), element);
                }
            }
        }
    }

    #[test]
    fn restored_numbers_are_off_by_at_most_half_of_what_was_dropped() {
        for bits in [0, 1, 5, 14] {
            for value in 0..100_000_u128 {
                let error = restore(value >> bits, bits).abs_diff(value);
                assert!(2 * error <= 1 << bits && (bits > 0 || error == 0));
            }
        }
    }
}
