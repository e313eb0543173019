//! The twins in safe scalar Rust.

use super::{Accumulation, AlignedWords, InverseScale, LANES};
use crate::he::modulus::{Factor, Modulus, WORD_BITS, WORD_MASK, correct};
use crate::he::ntt::NttTable;

/// Cooley and Tukey's butterflies with Harvey's lazy corrections: values stay below four times the prime.
pub(super) fn forward(table: &NttTable, values: &mut [u64]) {
    let modulus = table.modulus();
    let twice = 2 * modulus.value();
    let (mut groups, mut half) = (1, table.degree() / 2);
    while half > 0 {
        for (group, block) in values.chunks_exact_mut(2 * half).enumerate() {
            let root = table.root(groups + group);
            let (low, high) = block.split_at_mut(half);
            for (left, right) in low.iter_mut().zip(high) {
                let kept = correct(*left, twice);
                let turned = modulus.multiply_lazy(*right, root);
                *left = kept + turned;
                *right = kept + twice - turned;
            }
        }
        groups *= 2;
        half /= 2;
    }
    for value in values {
        *value = modulus.correct(correct(*value, twice));
    }
}

/// Gentleman and Sande's butterflies; values stay below twice the prime.
pub(super) fn inverse(table: &NttTable, values: &mut [u64], scale: InverseScale) {
    let modulus = table.modulus();
    let twice = 2 * modulus.value();
    let (mut groups, mut half) = (table.degree() / 2, 1);
    while groups > 1 {
        for (group, block) in values.chunks_exact_mut(2 * half).enumerate() {
            let root = table.inverse_root(groups + group);
            let (low, high) = block.split_at_mut(half);
            for (left, right) in low.iter_mut().zip(high) {
                let (sum, difference) = (*left + *right, *left + twice - *right);
                *left = correct(sum, twice);
                *right = modulus.multiply_lazy(difference, root);
            }
        }
        groups /= 2;
        half *= 2;
    }
    let (low, high) = values.split_at_mut(half);
    for (left, right) in low.iter_mut().zip(high) {
        let (sum, difference) = (*left + *right, *left + twice - *right);
        *left = modulus.multiply(sum, scale.sum);
        *right = modulus.multiply(difference, scale.difference);
    }
}

pub(super) fn multiply_montgomery(modulus: &Modulus, left: &mut [u64], right: &[u64]) {
    for (left, right) in left.iter_mut().zip(right) {
        let (low, high) = split(u128::from(*left) * u128::from(*right));
        *left = modulus.reduce_montgomery(low, high);
    }
}

pub(super) fn divide(
    modulus: &Modulus,
    residues: &mut [u64],
    divisor: &Modulus,
    divisor_residues: &[u64],
    inverse: Factor,
) {
    let half = divisor.value() / 2;
    for (residue, last) in residues.iter_mut().zip(divisor_residues) {
        // The divisor is the smaller prime, so its residues are residues here too.
        let remainder = divisor.add(*last, half);
        *residue = modulus.multiply(modulus.subtract(modulus.add(*residue, half), remainder), inverse);
    }
}

pub(super) fn accumulate<const HALVES: usize>(
    modulus: &Modulus,
    input: &Accumulation<'_, HALVES>,
    results: &mut [AlignedWords],
) {
    for (index, result) in results.iter_mut().enumerate() {
        let (output, half) = (index / HALVES, index % HALVES);
        for (position, value) in result.iter_mut().enumerate() {
            let (low, high) = split(sum_of_products(input, output, half, position));
            *value = modulus.reduce_montgomery(low, high);
        }
    }
}

fn sum_of_products<const HALVES: usize>(
    input: &Accumulation<'_, HALVES>,
    output: usize,
    half: usize,
    position: usize,
) -> u128 {
    let (block, lane) = (position / LANES, position % LANES);
    let zero = input.zero[(block * input.outputs + output) * LANES + lane];
    let mut sum = u128::from(input.public_key[half][position]) * u128::from(zero);
    for term in 0..input.terms {
        let stored = block * input.stored_terms + input.first_term + term;
        let value = input.ciphertext[half][stored * LANES + lane];
        let row = block * input.terms + term;
        let weight = input.weights[(row * input.outputs + output) * LANES + lane];
        sum += u128::from(value) * u128::from(weight);
    }
    sum
}

fn split(product: u128) -> (u64, u64) {
    (product as u64 & WORD_MASK, (product >> WORD_BITS) as u64)
}
