//! The rings Z_q[x] / (x^n + 1) that there are, how hard their problems are, and what to compute modulo their primes.

use crate::he::modulus::{Factor, ntt_primes};
use crate::he::ntt::NttTable;

/// Degree and bits of the primes.
pub(super) type RingSize = (usize, &'static [u32]);

/// Bits of a second prime that makes room for noise and is gone from most answers. With 22 there would be no prime close
/// enough to the power of two for its residues to look like bits.
const SMALL_PRIME_BITS: u32 = 23;
/// Bits of the widest prime.
const WIDEST_PRIME_BITS: u32 = 50;

/// From little work to much; within a row the fewest bytes decide. Since low bits are left out of all messages, a larger
/// modulus than needed costs work, and hardly bytes.
pub(super) const LADDER: [&[RingSize]; 3] = [
    &[(2048, &[WIDEST_PRIME_BITS]), (4096, &[WIDEST_PRIME_BITS])],
    &[(4096, &[WIDEST_PRIME_BITS, SMALL_PRIME_BITS])],
    &[(4096, &[WIDEST_PRIME_BITS, WIDEST_PRIME_BITS])],
];

/// The largest log q at each degree for 128 bits against classical attacks, ternary secrets: what the 2024 guidelines say,
/// which is a little less than the standard of 2018 (54 and 109).
const SECURITY_TABLE: [(usize, u32); 2] = [(2048, 53), (4096, 106)];

/// The primes of a ring and all that follows from them alone.
pub(in crate::he) struct Ring {
    pub(super) tables: Vec<NttTable>,
    /// q modulo 2^64.
    pub(super) modulus_low: u64,
    /// How a number below the first prime is read as a share, and how one below the whole modulus is.
    pub(super) readings: [Reading; 2],
    /// With two primes: the inverse of the second modulo the first, for rescaling, and that of the first modulo the second,
    /// for composing.
    pub(super) inverses: Option<[Factor; 2]>,
}

/// For each prime: the inverse of the others, and `floor(2^128 / prime)`.
pub(in crate::he) type Reading = Vec<(Factor, u128)>;

impl Ring {
    /// # Panics
    /// If the security table does not have it.
    pub(super) fn new((degree, bits): RingSize) -> Self {
        let modulus_bits = bits.iter().sum::<u32>();
        let is_hard = |&(known, most): &(usize, u32)| known == degree && modulus_bits <= most;
        assert!(SECURITY_TABLE.iter().any(is_hard), "{modulus_bits} bits are too many for degree {degree}");
        let primes = primes_of(degree, bits);
        let tables: Vec<_> = primes.iter().map(|&prime| NttTable::new(prime, degree)).collect();
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
        let inverses = match primes[..] {
            [first, second] => {
                Some([inverse_of(second.into(), &tables[0]), inverse_of(first.into(), &tables[1])])
            }
            _ => None,
        };
        Self {
            modulus_low: primes.iter().fold(1, |product, prime| product.wrapping_mul(*prime)),
            readings: [reading(1), reading(primes.len())],
            inverses,
            tables,
        }
    }

    pub(super) fn is_of(&self, (degree, bits): RingSize) -> bool {
        let own = self.tables.iter().map(|table| table.modulus().bits());
        self.tables[0].degree() == degree && own.eq(bits.iter().copied())
    }
}

/// The largest primes with these bits, no two the same.
pub(super) fn primes_of(degree: usize, bits: &[u32]) -> Vec<u64> {
    match *bits {
        [first, second] if first == second => ntt_primes(first, degree, 2),
        _ => bits.iter().flat_map(|&bits| ntt_primes(bits, degree, 1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_of_the_ladder_is_in_the_security_table() {
        for size in LADDER.concat() {
            assert!(Ring::new(size).is_of(size));
        }
    }

    #[test]
    #[should_panic(expected = "54 bits are too many for degree 2048")]
    fn a_modulus_that_is_too_large_is_refused() {
        Ring::new((2048, &[27, 27]));
    }

    #[test]
    #[should_panic(expected = "50 bits are too many for degree 1024")]
    fn a_degree_outside_of_the_table_is_refused() {
        Ring::new((1024, &[50]));
    }
}
