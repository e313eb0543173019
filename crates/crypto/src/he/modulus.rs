//! Arithmetic modulo one prime of the ciphertext modulus, without a division or a branch on values.
//!
//! Primes stay below 2^50, so that four times a residue still fits the 52-bit multiplier of AVX-512 IFMA. A
//! constant that multiplies many values is kept as a [`Factor`], Shoup's pair of the constant and its scaled
//! quotient, with 52 fraction bits in the portable code too: both twins then compute the same numbers.

/// Bits of the multiplier that all lazy products are made for.
pub(super) const WORD_BITS: u32 = 52;
/// The low 52 bits.
pub(super) const WORD_MASK: u64 = (1 << WORD_BITS) - 1;
/// Primes are below two to this power.
pub(super) const MAX_PRIME_BITS: u32 = 50;

/// A prime and the constants that reduce modulo it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Modulus {
    value: u64,
    /// `value^-1` modulo 2^52, for Montgomery reduction by 2^52.
    inverse_word: u64,
    /// `floor(2^60 / value)`, for the reduction of 60-bit sums.
    barrett: u64,
    one: Factor,
    word: Factor,
    two_words: Factor,
}

/// A constant with `floor(2^52 constant / prime)` beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Factor {
    pub(super) value: u64,
    pub(super) quotient: u64,
}

impl Modulus {
    pub(super) fn new(prime: u64) -> Self {
        assert!(
            prime % 2 == 1 && prime >> MAX_PRIME_BITS == 0 && prime >> 20 != 0,
            "a prime of 21 to 50 bits"
        );
        let factor = |value: u128| raw_factor((value % u128::from(prime)) as u64, prime);
        Self {
            value: prime,
            inverse_word: inverse_modulo_word(prime),
            barrett: (1 << 60) / prime,
            one: factor(1),
            word: factor(1 << WORD_BITS),
            two_words: factor(1 << (2 * WORD_BITS)),
        }
    }

    pub(super) fn value(&self) -> u64 {
        self.value
    }

    pub(super) fn bits(&self) -> u32 {
        64 - self.value.leading_zeros()
    }

    pub(super) fn inverse_word(&self) -> u64 {
        self.inverse_word
    }

    pub(super) fn barrett(&self) -> u64 {
        self.barrett
    }

    /// The constant, below the prime, made ready to multiply with.
    pub(super) fn factor(&self, value: u64) -> Factor {
        raw_factor(value % self.value, self.value)
    }

    /// `2^52` modulo the prime: what Montgomery reduction divides by.
    pub(super) fn word_factor(&self) -> Factor {
        self.word
    }

    /// From below twice the prime to below the prime.
    #[inline(always)]
    pub(super) fn correct(&self, value: u64) -> u64 {
        correct(value, self.value)
    }

    #[inline(always)]
    pub(super) fn add(&self, left: u64, right: u64) -> u64 {
        self.correct(left + right)
    }

    #[inline(always)]
    pub(super) fn subtract(&self, left: u64, right: u64) -> u64 {
        self.correct(left + self.value - right)
    }

    /// `value * factor`, below twice the prime, for any 52-bit value.
    #[inline(always)]
    pub(super) fn multiply_lazy(&self, value: u64, factor: Factor) -> u64 {
        let quotient = ((u128::from(value) * u128::from(factor.quotient)) >> WORD_BITS) as u64;
        value.wrapping_mul(factor.value).wrapping_sub(quotient.wrapping_mul(self.value))
    }

    /// `value * factor` for any 52-bit value.
    #[inline(always)]
    pub(super) fn multiply(&self, value: u64, factor: Factor) -> u64 {
        self.correct(self.multiply_lazy(value, factor))
    }

    /// The residue of any 52-bit value.
    #[inline(always)]
    pub(super) fn reduce_word(&self, value: u64) -> u64 {
        self.multiply(value, self.one)
    }

    /// The residue of any 128-bit value.
    #[inline(always)]
    pub(super) fn reduce(&self, value: u128) -> u64 {
        let low = self.reduce_word(value as u64 & WORD_MASK);
        let middle = self.multiply((value >> WORD_BITS) as u64 & WORD_MASK, self.word);
        let high = self.multiply((value >> (2 * WORD_BITS)) as u64, self.two_words);
        self.add(self.add(low, middle), high)
    }

    /// The residue of a small signed number, closer to zero than the prime.
    #[inline(always)]
    pub(super) fn lift(&self, value: i64) -> u64 {
        (value + (self.value as i64 & (value >> 63))) as u64
    }

    /// `sum / 2^52` for a sum of at most 2^11 products of residues, given as `high 2^52 + low` with words that
    /// may have overflowed 52 bits.
    #[inline(always)]
    pub(super) fn reduce_montgomery(&self, low: u64, high: u64) -> u64 {
        let high = high + (low >> WORD_BITS);
        let multiple = (low & WORD_MASK).wrapping_mul(self.inverse_word) & WORD_MASK;
        let borrow = ((u128::from(multiple) * u128::from(self.value)) >> WORD_BITS) as u64;
        let value = high + self.value - borrow;
        let quotient = ((u128::from(value >> 8) * u128::from(self.barrett)) >> WORD_BITS) as u64;
        let rest = value - quotient * self.value;
        self.correct(correct(rest, 2 * self.value))
    }

    /// Square and multiply, for constants of the set-up: variable time in the exponent.
    pub(super) fn power(&self, base: u64, exponent: u64) -> u64 {
        power(base, exponent, self.value)
    }

    /// The inverse of a non-zero constant.
    pub(super) fn inverse(&self, value: u64) -> u64 {
        self.power(value % self.value, self.value - 2)
    }
}

/// Subtracts the bound from a value below twice the bound, where that leaves no negative.
#[inline(always)]
pub(super) fn correct(value: u64, bound: u64) -> u64 {
    let reduced = value.wrapping_sub(bound);
    reduced.wrapping_add(bound & ((reduced as i64) >> 63) as u64)
}

fn raw_factor(value: u64, prime: u64) -> Factor {
    Factor { value, quotient: ((u128::from(value) << WORD_BITS) / u128::from(prime)) as u64 }
}

fn inverse_modulo_word(odd: u64) -> u64 {
    // Newton's iteration doubles the number of correct low bits; an odd number is its own inverse to three bits.
    let mut inverse = odd;
    for _ in 0..5 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse & WORD_MASK
}

fn power(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let wide = u128::from(modulus);
    let (mut base, mut result) = (u128::from(base), 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % wide;
        }
        base = base * base % wide;
        exponent >>= 1;
    }
    result as u64
}

/// The largest `count` primes below `2^bits` that are 1 modulo `2 degree`, largest first.
pub(super) fn ntt_primes(bits: u32, degree: usize, count: usize) -> Vec<u64> {
    let step = 2 * degree as u64;
    let start = (((1_u64 << bits) - 1) / step) * step + 1;
    (0..).map(|index| start - index * step).filter(|&candidate| is_prime(candidate)).take(count).collect()
}

/// Miller and Rabin's test with the bases that decide every 64-bit number.
fn is_prime(candidate: u64) -> bool {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if BASES.iter().any(|base| candidate.is_multiple_of(*base)) {
        return BASES.contains(&candidate);
    }
    let twos = (candidate - 1).trailing_zeros();
    let odd = (candidate - 1) >> twos;
    BASES.iter().all(|&base| {
        let mut witness = power(base, odd, candidate);
        if witness == 1 {
            return true;
        }
        for _ in 1..twos {
            if witness == candidate - 1 {
                return true;
            }
            witness = power(witness, 2, candidate);
        }
        witness == candidate - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moduli() -> Vec<Modulus> {
        [(50, 4096), (35, 4096), (42, 8192)]
            .iter()
            .map(|&(bits, degree)| Modulus::new(ntt_primes(bits, degree, 1)[0]))
            .collect()
    }

    #[test]
    fn primality_agrees_with_trial_division() {
        for candidate in 40..5000_u64 {
            let divided = (2..candidate).take_while(|d| d * d <= candidate).all(|d| candidate % d != 0);
            assert_eq!(is_prime(candidate), divided, "{candidate}");
        }
    }

    #[test]
    fn ntt_primes_descend_and_split_the_ring() {
        for (bits, degree, count) in [(50, 4096, 2), (35, 4096, 3), (50, 8192, 3)] {
            let primes = ntt_primes(bits, degree, count);
            assert!(primes.is_sorted_by(|left, right| left > right));
            for prime in primes {
                assert!(prime >> bits == 0 && (prime - 1) % (2 * degree as u64) == 0);
                assert!(prime > (1 << bits) - (1 << (bits - 8)), "close to the power of two");
            }
        }
    }

    proptest! {
        #[test]
        fn arithmetic_agrees_with_remainders(left: u64, right: u64, wide: u128) {
            for modulus in moduli() {
                let prime = u128::from(modulus.value());
                let (a, b) = (left % modulus.value(), right % modulus.value());
                let (wide_a, wide_b) = (u128::from(a), u128::from(b));
                prop_assert_eq!(u128::from(modulus.add(a, b)), (wide_a + wide_b) % prime);
                prop_assert_eq!(u128::from(modulus.subtract(a, b)), (wide_a + prime - wide_b) % prime);
                let word = left & WORD_MASK;
                let product = u128::from(word) * wide_b % prime;
                prop_assert_eq!(u128::from(modulus.multiply(word, modulus.factor(b))), product);
                prop_assert_eq!(u128::from(modulus.reduce(wide)), wide % prime);
                let small = (left as i64) >> 20;
                prop_assert_eq!(i128::from(modulus.lift(small % (prime as i64))),
                    i128::from(small % prime as i64).rem_euclid(prime as i128));
                prop_assert_eq!(u128::from(modulus.inverse(a | 1)) * u128::from(a | 1) % prime, 1);
            }
        }

        #[test]
        fn montgomery_reduction_divides_by_the_word(factors in prop::collection::vec(any::<(u64, u64)>(), 1..60)) {
            for modulus in moduli() {
                let prime = modulus.value();
                let (mut low, mut high, mut plain) = (0, 0, 0_u128);
                for &(left, right) in factors.iter().cycle().take(2048) {
                    let product = u128::from(left % prime) * u128::from(right % prime);
                    low += product as u64 & WORD_MASK;
                    high += (product >> WORD_BITS) as u64;
                    plain = (plain + product) % u128::from(prime);
                }
                let reduced = modulus.reduce_montgomery(low, high);
                prop_assert!(reduced < prime);
                prop_assert_eq!(modulus.multiply(reduced, modulus.word_factor()), plain as u64);
            }
        }
    }
}
