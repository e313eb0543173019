//! The inner loops: transforms, multiply-accumulate, and the choice between their twins.
//!
//! Every routine exists twice, as safe scalar code and for AVX-512 IFMA, with equal results to the last bit.

mod aligned;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod portable;

pub(super) use aligned::AlignedWords;

use super::modulus::{Factor, Modulus};
use super::ntt::NttTable;
use crate::cpu::CpuFeatures;

/// Words that one kernel step handles; arrays for the multiply-accumulate interleave at this grain.
pub(super) const LANES: usize = 8;
/// Output ciphertexts that one multiply-accumulate pass serves.
pub(super) const OUTPUTS_PER_BLOCK: usize = 4;
/// Products that one pass may sum before its accumulators could overflow.
pub(super) const MAX_TERMS: usize = 2047;

/// Which twin runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels {
    #[cfg(target_arch = "x86_64")]
    ifma: bool,
}

/// What one multiply-accumulate pass over one limb reads.
///
/// For output `o` the pass sums `ciphertext[first_term + k] * weights[k][o]` over `terms` ciphertexts out of those
/// stored, and adds `public_key * zero[o]`, for one half or both. Lane blocks come outermost:
///
/// ```text
/// ciphertext halves  [lane block][stored term][8]   weights  [lane block][term][output][8]
/// public key halves  [lane block][8]                zero     [lane block][output][8]
/// ```
pub(super) struct Accumulation<'a, const HALVES: usize> {
    pub(super) stored_terms: usize,
    pub(super) first_term: usize,
    pub(super) terms: usize,
    pub(super) outputs: usize,
    pub(super) ciphertext: [&'a [u64]; HALVES],
    pub(super) weights: &'a [u64],
    pub(super) public_key: [&'a [u64]; HALVES],
    pub(super) zero: &'a [u64],
}

impl<const HALVES: usize> Accumulation<'_, HALVES> {
    fn check(&self, results: &[AlignedWords]) {
        let degree = self.public_key[0].len();
        assert!(degree.is_multiple_of(LANES) && self.public_key.iter().all(|half| half.len() == degree));
        assert!((1..=MAX_TERMS).contains(&self.terms) && (1..=OUTPUTS_PER_BLOCK).contains(&self.outputs));
        assert!(self.first_term + self.terms <= self.stored_terms);
        assert!(self.ciphertext.iter().all(|half| half.len() == degree * self.stored_terms));
        assert!(self.weights.len() == degree * self.terms * self.outputs);
        assert!(self.zero.len() == degree * self.outputs);
        assert!(
            results.len() == HALVES * self.outputs && results.iter().all(|result| result.len() == degree)
        );
    }
}

impl Kernels {
    /// The fastest twin that these features allow.
    pub(super) fn for_cpu(cpu: CpuFeatures) -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self { ifma: cpu.ifma && CpuFeatures::detect().ifma };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = cpu;
            Self {}
        }
    }

    /// Values at the odd powers of the root, in bit-reversed order, from coefficients below the prime.
    pub(super) fn forward(self, table: &NttTable, values: &mut [u64]) {
        assert_eq!(values.len(), table.degree());
        #[cfg(target_arch = "x86_64")]
        if self.ifma {
            return ifma::forward(table, values);
        }
        portable::forward(table, values);
    }

    /// Coefficients, times the scale, from values in bit-reversed order.
    pub(super) fn inverse(self, table: &NttTable, values: &mut [u64], scale: InverseScale) {
        assert_eq!(values.len(), table.degree());
        #[cfg(target_arch = "x86_64")]
        if self.ifma {
            return ifma::inverse(table, values, scale);
        }
        portable::inverse(table, values, scale);
    }

    /// `left * right / 2^52`, value by value, into `left`.
    pub(super) fn multiply_montgomery(self, modulus: &Modulus, left: &mut [u64], right: &[u64]) {
        assert!(left.len() == right.len() && left.len().is_multiple_of(LANES));
        #[cfg(target_arch = "x86_64")]
        if self.ifma {
            return ifma::multiply_montgomery(modulus, left, right);
        }
        portable::multiply_montgomery(modulus, left, right);
    }

    /// The quotient by another, smaller prime, rounded to nearest, of numbers with these residues modulo both.
    pub(super) fn divide(
        self,
        modulus: &Modulus,
        residues: &mut [u64],
        divisor: &Modulus,
        divisor_residues: &[u64],
        inverse: Factor,
    ) {
        assert!(residues.len() == divisor_residues.len() && residues.len().is_multiple_of(LANES));
        assert!(divisor.value() < modulus.value());
        #[cfg(target_arch = "x86_64")]
        if self.ifma {
            return ifma::divide(modulus, residues, divisor, divisor_residues, inverse);
        }
        portable::divide(modulus, residues, divisor, divisor_residues, inverse);
    }

    /// One pass over one limb; results are divided by 2^52 and ordered `[output][half]`.
    pub(super) fn accumulate<const HALVES: usize>(
        self,
        modulus: &Modulus,
        input: &Accumulation<'_, HALVES>,
        results: &mut [AlignedWords],
    ) {
        input.check(results);
        #[cfg(target_arch = "x86_64")]
        if self.ifma {
            return ifma::accumulate(modulus, input, results);
        }
        portable::accumulate(modulus, input, results);
    }
}

/// The constants of the inverse transform's last stage: the scale, and the scale times that stage's root.
#[derive(Clone, Copy, Debug)]
pub(super) struct InverseScale {
    pub(super) sum: Factor,
    pub(super) difference: Factor,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::he::modulus::{WORD_BITS, ntt_primes};
    use crate::random::{Generator, Seed};

    fn random(generator: &mut Generator, prime: u64, length: usize) -> AlignedWords {
        let mut words = AlignedWords::zeros(length);
        words.iter_mut().for_each(|word| *word = generator.next_u64() % prime);
        words
    }

    fn check_accumulation(
        generator: &mut Generator,
        bits: u32,
        [terms, stored_terms, first_term, outputs]: [usize; 4],
    ) {
        let modulus = Modulus::new(ntt_primes(bits, 64, 1)[0]);
        let prime = modulus.value();
        let mut draw = |length| match terms {
            // The largest residues everywhere make the largest sums.
            MAX_TERMS => {
                let mut words = AlignedWords::zeros(length);
                words.fill(prime - 1);
                words
            }
            _ => random(generator, prime, length),
        };
        let ciphertext = [draw(64 * stored_terms), draw(64 * stored_terms)];
        let (weights, zero) = (draw(64 * terms * outputs), draw(64 * outputs));
        let public_key = [draw(64), draw(64)];
        let input = Accumulation {
            stored_terms,
            first_term,
            terms,
            outputs,
            ciphertext: [&ciphertext[0], &ciphertext[1]],
            weights: &weights,
            public_key: [&public_key[0], &public_key[1]],
            zero: &zero,
        };
        let results = [CpuFeatures::PORTABLE, CpuFeatures::available()].map(|cpu| {
            let mut results = vec![AlignedWords::zeros(64); 2 * outputs];
            Kernels::for_cpu(cpu).accumulate(&modulus, &input, &mut results);
            results
        });
        for (portable, fast) in results[0].iter().zip(&results[1]) {
            assert_eq!(portable[..], fast[..]);
        }
        let alone = Accumulation {
            stored_terms,
            first_term,
            terms,
            outputs,
            ciphertext: [&ciphertext[0][..]],
            weights: &weights,
            public_key: [&public_key[0][..]],
            zero: &zero,
        };
        for cpu in [CpuFeatures::PORTABLE, CpuFeatures::available()] {
            let mut first_halves = vec![AlignedWords::zeros(64); outputs];
            Kernels::for_cpu(cpu).accumulate(&modulus, &alone, &mut first_halves);
            assert!(
                first_halves.iter().zip(results[0].iter().step_by(2)).all(|(one, both)| one[..] == both[..])
            );
        }
        let plain = (0..terms).fold(u128::from(public_key[0][3]) * u128::from(zero[3]), |sum, term| {
            let value = ciphertext[0][(first_term + term) * LANES + 3];
            sum + u128::from(value) * u128::from(weights[term * outputs * LANES + 3])
        });
        let scaled = (u128::from(results[0][0][3]) << WORD_BITS) % u128::from(prime);
        assert_eq!(scaled, plain % u128::from(prime));
    }

    #[test]
    fn both_twins_accumulate_alike_and_rightly() {
        let mut generator = Seed::from_bytes([5; 32]).generator();
        for outputs in 1..=OUTPUTS_PER_BLOCK {
            for (bits, terms, stored, first) in
                [(50, 1, 1, 0), (50, 7, 9, 1), (35, 3, 5, 2), (50, MAX_TERMS, MAX_TERMS, 0)]
            {
                check_accumulation(&mut generator, bits, [terms, stored, first, outputs]);
            }
        }
    }

    #[test]
    fn both_twins_divide_alike() {
        let mut generator = Seed::from_bytes([7; 32]).generator();
        let [modulus, divisor] = [0, 1].map(|index| Modulus::new(ntt_primes(50, 4096, 2)[index]));
        let inverse = modulus.factor(modulus.inverse(divisor.value()));
        for length in [8, 40] {
            let mut residues = random(&mut generator, modulus.value(), length);
            let mut last = random(&mut generator, divisor.value(), length);
            (residues[0], last[0]) = (modulus.value() - 1, divisor.value() - 1);
            (residues[1], last[1]) = (0, divisor.value() / 2);
            let results = [CpuFeatures::PORTABLE, CpuFeatures::available()].map(|cpu| {
                let mut quotients = residues.clone();
                Kernels::for_cpu(cpu).divide(&modulus, &mut quotients, &divisor, &last, inverse);
                quotients
            });
            assert_eq!(results[0][..], results[1][..]);
        }
    }

    #[test]
    fn both_twins_multiply_alike() {
        let mut generator = Seed::from_bytes([6; 32]).generator();
        let modulus = Modulus::new(ntt_primes(50, 4096, 1)[0]);
        for length in [8, 24, 64] {
            let (left, right) = (
                random(&mut generator, modulus.value(), length),
                random(&mut generator, modulus.value(), length),
            );
            let results = [CpuFeatures::PORTABLE, CpuFeatures::available()].map(|cpu| {
                let mut product = left.clone();
                Kernels::for_cpu(cpu).multiply_montgomery(&modulus, &mut product, &right);
                product
            });
            assert_eq!(results[0][..], results[1][..]);
        }
    }
}
