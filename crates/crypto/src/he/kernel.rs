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
/// stored, and adds `public_key * zero[o]`, for both halves. Lane blocks come outermost:
///
/// ```text
/// ciphertext halves  [lane block][stored term][8]   weights  [lane block][term][output][8]
/// public key halves  [lane block][8]                zero     [lane block][output][8]
/// ```
pub(super) struct Accumulation<'a> {
    pub(super) stored_terms: usize,
    pub(super) first_term: usize,
    pub(super) terms: usize,
    pub(super) outputs: usize,
    pub(super) ciphertext: [&'a [u64]; 2],
    pub(super) weights: &'a [u64],
    pub(super) public_key: [&'a [u64]; 2],
    pub(super) zero: &'a [u64],
}

impl Accumulation<'_> {
    fn check(&self, results: &[AlignedWords]) {
        let degree = self.public_key[0].len();
        assert!(degree.is_multiple_of(LANES) && self.public_key[1].len() == degree);
        assert!((1..=MAX_TERMS).contains(&self.terms) && (1..=OUTPUTS_PER_BLOCK).contains(&self.outputs));
        assert!(self.first_term + self.terms <= self.stored_terms);
        assert!(self.ciphertext.iter().all(|half| half.len() == degree * self.stored_terms));
        assert!(self.weights.len() == degree * self.terms * self.outputs);
        assert!(self.zero.len() == degree * self.outputs);
        assert!(results.len() == 2 * self.outputs && results.iter().all(|result| result.len() == degree));
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

    /// One pass over one limb; results are divided by 2^52 and ordered `[output][half]`.
    pub(super) fn accumulate(
        self,
        modulus: &Modulus,
        input: &Accumulation<'_>,
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
