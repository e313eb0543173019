//! The negacyclic number-theoretic transform: products modulo x^n + 1 become products value by value.
//!
//! Longa and Naehrig, "Speeding up the number theoretic transform for faster ideal lattice-based cryptography"
//! (2016), algorithms 1 and 2: natural order in, bit-reversed order out, and back. The order and the root are part
//! of the wire format, because fresh ciphertexts travel as values.

use super::kernel::InverseScale;
use super::modulus::{Factor, Modulus};

/// One prime with the powers of its root of unity.
pub(super) struct NttTable {
    modulus: Modulus,
    degree: usize,
    pub(super) roots: FactorTable,
    pub(super) inverse_roots: FactorTable,
    /// Undoes the factor n of the two transforms.
    pub(super) plain_scale: InverseScale,
    /// The same, and undoes one Montgomery reduction.
    pub(super) montgomery_scale: InverseScale,
}

/// Factors as two arrays, the way vector loads want them.
pub(super) struct FactorTable {
    pub(super) values: Vec<u64>,
    pub(super) quotients: Vec<u64>,
}

impl NttTable {
    pub(super) fn new(prime: u64, degree: usize) -> Self {
        assert!(degree.is_power_of_two() && degree >= 64, "the kernels fold four stages into one pass");
        let modulus = Modulus::new(prime);
        let root = primitive_root(&modulus, degree);
        let inverse_root = modulus.inverse(root);
        let inverse_roots = FactorTable::powers(&modulus, inverse_root, degree);
        let last_root = inverse_roots.values[1];
        let scale = |factor: u64| InverseScale {
            sum: modulus.factor(factor),
            difference: modulus.factor(multiply_constants(factor, last_root, prime)),
        };
        let plain = modulus.inverse(degree as u64);
        let montgomery = multiply_constants(plain, modulus.word_factor().value, prime);
        Self {
            roots: FactorTable::powers(&modulus, root, degree),
            inverse_roots,
            plain_scale: scale(plain),
            montgomery_scale: scale(montgomery),
            modulus,
            degree,
        }
    }

    pub(super) fn modulus(&self) -> &Modulus {
        &self.modulus
    }

    pub(super) fn degree(&self) -> usize {
        self.degree
    }

    pub(super) fn root(&self, index: usize) -> Factor {
        self.roots.factor(index)
    }

    pub(super) fn inverse_root(&self, index: usize) -> Factor {
        self.inverse_roots.factor(index)
    }
}

impl FactorTable {
    /// `root^bitreverse(i)` at place `i`.
    fn powers(modulus: &Modulus, root: u64, degree: usize) -> Self {
        let shift = usize::BITS - degree.trailing_zeros();
        let (mut values, mut quotients) = (vec![0; degree], vec![0; degree]);
        let mut power = 1;
        for exponent in 0..degree {
            let factor = modulus.factor(power);
            let place = exponent.reverse_bits() >> shift;
            (values[place], quotients[place]) = (factor.value, factor.quotient);
            power = multiply_constants(power, root, modulus.value());
        }
        Self { values, quotients }
    }

    fn factor(&self, index: usize) -> Factor {
        Factor { value: self.values[index], quotient: self.quotients[index] }
    }
}

/// The first small base whose power has order exactly `2 degree`.
fn primitive_root(modulus: &Modulus, degree: usize) -> u64 {
    let cofactor = (modulus.value() - 1) / (2 * degree as u64);
    (2..)
        .map(|base| modulus.power(base, cofactor))
        .find(|&root| modulus.power(root, degree as u64) == modulus.value() - 1)
        .expect("the order of the multiplicative group is a multiple of 2 degree")
}

fn multiply_constants(left: u64, right: u64, prime: u64) -> u64 {
    (u128::from(left) * u128::from(right) % u128::from(prime)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;
    use crate::he::kernel::Kernels;
    use crate::he::modulus::ntt_primes;
    use crate::random::{Generator, Seed};

    fn table(bits: u32, degree: usize) -> NttTable {
        NttTable::new(ntt_primes(bits, degree, 1)[0], degree)
    }

    fn random(generator: &mut Generator, prime: u64, degree: usize) -> Vec<u64> {
        (0..degree).map(|_| generator.next_u64() % prime).collect()
    }

    fn schoolbook(left: &[u64], right: &[u64], prime: u64) -> Vec<u64> {
        let degree = left.len();
        let mut product = vec![0_u64; degree];
        for (i, &a) in left.iter().enumerate() {
            for (j, &b) in right.iter().enumerate() {
                let term = multiply_constants(a, b, prime);
                let place = &mut product[(i + j) % degree];
                *place =
                    if i + j < degree { (*place + term) % prime } else { (*place + prime - term) % prime };
            }
        }
        product
    }

    fn levels() -> [Kernels; 2] {
        [Kernels::for_cpu(CpuFeatures::PORTABLE), Kernels::for_cpu(CpuFeatures::available())]
    }

    #[test]
    fn the_transform_turns_negacyclic_products_into_products() {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        for (bits, degree) in [(50, 64), (35, 128), (50, 256), (42, 512)] {
            let table = table(bits, degree);
            let prime = table.modulus().value();
            let left = random(&mut generator, prime, degree);
            let right = random(&mut generator, prime, degree);
            let expected = schoolbook(&left, &right, prime);
            for kernels in levels() {
                let (mut a, mut b) = (left.clone(), right.clone());
                kernels.forward(&table, &mut a);
                kernels.forward(&table, &mut b);
                kernels.multiply_montgomery(table.modulus(), &mut a, &b);
                kernels.inverse(&table, &mut a, table.montgomery_scale);
                assert_eq!(a, expected, "{bits} bits, degree {degree}");
            }
        }
    }

    #[test]
    fn sparse_products_at_full_degree_agree_with_shifts() {
        let mut generator = Seed::from_bytes([2; 32]).generator();
        for degree in [4096, 8192] {
            let table = table(50, degree);
            let prime = table.modulus().value();
            let left = random(&mut generator, prime, degree);
            let (shift, weight) = (degree - 5, prime - 127);
            let mut expected = vec![0; degree];
            for (place, &value) in left.iter().enumerate() {
                let term = multiply_constants(value, weight, prime);
                let wraps = place + shift >= degree;
                expected[(place + shift) % degree] = if wraps { (prime - term) % prime } else { term };
            }
            for kernels in levels() {
                let (mut a, mut b) = (left.clone(), vec![0; degree]);
                b[shift] = weight;
                kernels.forward(&table, &mut a);
                kernels.forward(&table, &mut b);
                kernels.multiply_montgomery(table.modulus(), &mut a, &b);
                kernels.inverse(&table, &mut a, table.montgomery_scale);
                assert_eq!(a, expected, "degree {degree}");
            }
        }
    }

    #[test]
    fn both_twins_agree_value_by_value_and_invert() {
        let mut generator = Seed::from_bytes([3; 32]).generator();
        for degree in [64, 128, 1024, 2048, 4096, 8192] {
            let table = table(50, degree);
            let prime = table.modulus().value();
            for values in [random(&mut generator, prime, degree), vec![prime - 1; degree], vec![0; degree]] {
                let results = levels().map(|kernels| {
                    let mut transformed = values.clone();
                    kernels.forward(&table, &mut transformed);
                    assert!(transformed.iter().all(|value| *value < prime));
                    let mut back = transformed.clone();
                    kernels.inverse(&table, &mut back, table.plain_scale);
                    assert_eq!(back, values);
                    transformed
                });
                assert_eq!(results[0], results[1], "degree {degree}");
            }
        }
    }

    #[test]
    fn an_unaligned_slice_transforms_alike() {
        let mut generator = Seed::from_bytes([4; 32]).generator();
        let table = table(50, 64);
        let values = random(&mut generator, table.modulus().value(), 64);
        let mut expected = values.clone();
        levels()[0].forward(&table, &mut expected);
        for offset in 0..8 {
            let mut buffer = vec![0; 64 + offset];
            buffer[offset..].copy_from_slice(&values);
            levels()[1].forward(&table, &mut buffer[offset..]);
            assert_eq!(buffer[offset..], expected);
        }
    }
}
