//! The twins for AVX-512 IFMA: eight lanes of 52-bit multiply-accumulate.
//!
//! The public functions here are safe to call only where [`super::Kernels`] found the instructions; it is the one
//! caller.
#![allow(unsafe_code)]

mod transform;

use std::arch::x86_64::*;

use super::{Accumulation, AlignedWords, InverseScale, LANES};
use crate::he::modulus::{Factor, Modulus, WORD_BITS, WORD_MASK};
use crate::he::ntt::NttTable;

type Lanes = [u64; LANES];

pub(super) fn forward(table: &NttTable, values: &mut [u64]) {
    // SAFETY: `Kernels` dispatches here only on processors with AVX-512 F, DQ and IFMA.
    unsafe { transform::forward(table, values) }
}

pub(super) fn inverse(table: &NttTable, values: &mut [u64], scale: InverseScale) {
    // SAFETY: as above.
    unsafe { transform::inverse(table, values, scale) }
}

pub(super) fn multiply_montgomery(modulus: &Modulus, left: &mut [u64], right: &[u64]) {
    // SAFETY: as above.
    unsafe { multiply_lanes(modulus, left, right) }
}

pub(super) fn divide(
    modulus: &Modulus,
    residues: &mut [u64],
    divisor: &Modulus,
    divisor_residues: &[u64],
    inverse: Factor,
) {
    // SAFETY: as above.
    unsafe { divide_lanes(modulus, residues, divisor, divisor_residues, inverse) }
}

pub(super) fn accumulate<const HALVES: usize>(
    modulus: &Modulus,
    input: &Accumulation<'_, HALVES>,
    results: &mut [AlignedWords],
) {
    // SAFETY: as above.
    unsafe {
        match input.outputs {
            1 => accumulate_outputs::<1, HALVES>(modulus, input, results),
            2 => accumulate_outputs::<2, HALVES>(modulus, input, results),
            3 => accumulate_outputs::<3, HALVES>(modulus, input, results),
            _ => accumulate_outputs::<4, HALVES>(modulus, input, results),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn multiply_lanes(modulus: &Modulus, left: &mut [u64], right: &[u64]) {
    let reduction = Reduction::new(modulus);
    let zero = _mm512_setzero_si512();
    for (left, right) in lanes_mut(left).iter_mut().zip(lanes(right)) {
        let (a, b) = (load(left), load(right));
        let sum = (_mm512_madd52lo_epu64(zero, a, b), _mm512_madd52hi_epu64(zero, a, b));
        store(left, reduction.apply(sum));
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn divide_lanes(
    modulus: &Modulus,
    residues: &mut [u64],
    divisor: &Modulus,
    divisor_residues: &[u64],
    inverse: Factor,
) {
    let (prime, smaller, half) = (splat(modulus.value()), splat(divisor.value()), splat(divisor.value() / 2));
    let negative_prime = splat((1 << WORD_BITS) - modulus.value());
    let (zero, mask) = (_mm512_setzero_si512(), splat(WORD_MASK));
    for (residue, last) in lanes_mut(residues).iter_mut().zip(lanes(divisor_residues)) {
        let remainder = correct(_mm512_add_epi64(load(last), half), smaller);
        let shifted = correct(_mm512_add_epi64(load(residue), half), prime);
        let difference = correct(_mm512_sub_epi64(_mm512_add_epi64(shifted, prime), remainder), prime);
        let quotient = _mm512_madd52hi_epu64(zero, difference, splat(inverse.quotient));
        let product = _mm512_madd52lo_epu64(zero, difference, splat(inverse.value));
        let product = _mm512_madd52lo_epu64(product, quotient, negative_prime);
        store(residue, correct(_mm512_and_si512(product, mask), prime));
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
fn accumulate_outputs<const OUTPUTS: usize, const HALVES: usize>(
    modulus: &Modulus,
    input: &Accumulation<'_, HALVES>,
    results: &mut [AlignedWords],
) {
    let reduction = Reduction::new(modulus);
    let used = input.first_term..input.first_term + input.terms;
    let ciphertext = input.ciphertext.map(lanes);
    let public_key = input.public_key.map(lanes);
    let weights = lanes(input.weights).as_chunks::<OUTPUTS>().0.chunks_exact(input.terms);
    let zeros = lanes(input.zero).as_chunks::<OUTPUTS>().0;
    for (block, (weights, zero)) in weights.zip(zeros).enumerate() {
        let mut sums = [[(_mm512_setzero_si512(), _mm512_setzero_si512()); HALVES]; OUTPUTS];
        let mut halves = [_mm512_setzero_si512(); HALVES];
        for (half, key) in halves.iter_mut().zip(&public_key) {
            *half = load(&key[block]);
        }
        add_products(&mut sums, halves, zero);
        let stored = ciphertext.map(|half| &half[block * input.stored_terms..][used.clone()]);
        for (term, weights) in weights.iter().enumerate() {
            for (half, stored) in halves.iter_mut().zip(&stored) {
                *half = load(&stored[term]);
            }
            add_products(&mut sums, halves, weights);
        }
        for (output, sums) in sums.iter().enumerate() {
            for (half, sum) in sums.iter().enumerate() {
                store(&mut lanes_mut(&mut results[HALVES * output + half])[block], reduction.apply(*sum));
            }
        }
    }
}

/// Adds each half times each output's weight, low and high words apart.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn add_products<const OUTPUTS: usize, const HALVES: usize>(
    sums: &mut [[(__m512i, __m512i); HALVES]; OUTPUTS],
    halves: [__m512i; HALVES],
    weights: &[Lanes; OUTPUTS],
) {
    for (sums, weight) in sums.iter_mut().zip(weights) {
        let weight = load(weight);
        for (sum, half) in sums.iter_mut().zip(halves) {
            sum.0 = _mm512_madd52lo_epu64(sum.0, half, weight);
            sum.1 = _mm512_madd52hi_epu64(sum.1, half, weight);
        }
    }
}

/// The constants of [`Modulus::reduce_montgomery`] in all lanes.
struct Reduction {
    prime: __m512i,
    negative_prime: __m512i,
    twice: __m512i,
    inverse_word: __m512i,
    barrett: __m512i,
    mask: __m512i,
}

impl Reduction {
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn new(modulus: &Modulus) -> Self {
        Self {
            prime: splat(modulus.value()),
            negative_prime: splat((1 << WORD_BITS) - modulus.value()),
            twice: splat(2 * modulus.value()),
            inverse_word: splat(modulus.inverse_word()),
            barrett: splat(modulus.barrett()),
            mask: splat(WORD_MASK),
        }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn apply(&self, (low, high): (__m512i, __m512i)) -> __m512i {
        let zero = _mm512_setzero_si512();
        let high = _mm512_add_epi64(high, _mm512_srli_epi64::<WORD_BITS>(low));
        let multiple = _mm512_madd52lo_epu64(zero, low, self.inverse_word);
        let borrow = _mm512_madd52hi_epu64(zero, multiple, self.prime);
        let value = _mm512_sub_epi64(_mm512_add_epi64(high, self.prime), borrow);
        let quotient = _mm512_madd52hi_epu64(zero, _mm512_srli_epi64::<8>(value), self.barrett);
        let rest = _mm512_madd52lo_epu64(value, quotient, self.negative_prime);
        let rest = _mm512_and_si512(rest, self.mask);
        correct(correct(rest, self.twice), self.prime)
    }
}

/// Subtracts the bound where the result is not negative.
#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn correct(value: __m512i, bound: __m512i) -> __m512i {
    _mm512_min_epu64(value, _mm512_sub_epi64(value, bound))
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn splat(word: u64) -> __m512i {
    _mm512_set1_epi64(word.cast_signed())
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn load(lanes: &Lanes) -> __m512i {
    // SAFETY: the reference covers exactly the 64 bytes that are read, and the load needs no alignment.
    unsafe { _mm512_loadu_si512(lanes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn store(lanes: &mut Lanes, value: __m512i) {
    // SAFETY: the unique reference covers exactly the 64 bytes that are written; no alignment is needed.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), value) }
}

fn lanes(words: &[u64]) -> &[Lanes] {
    words.as_chunks().0
}

fn lanes_mut(words: &mut [u64]) -> &mut [Lanes] {
    words.as_chunks_mut().0
}
