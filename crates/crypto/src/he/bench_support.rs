//! Doors for the benchmarks to the inner loops; nothing else should come in through them.

use super::kernel::{Accumulation, AlignedWords, Kernels, OUTPUTS_PER_BLOCK};
use super::modulus::ntt_primes;
use super::ntt::NttTable;
use crate::cpu::CpuFeatures;

/// One transform of one limb.
pub struct Transform {
    table: NttTable,
    kernels: Kernels,
    values: AlignedWords,
}

impl Transform {
    /// A transform of this degree modulo a 50-bit prime.
    pub fn new(degree: usize) -> Self {
        let table = NttTable::new(ntt_primes(50, degree, 1)[0], degree);
        Self { table, kernels: Kernels::for_cpu(CpuFeatures::available()), values: counted(degree) }
    }

    /// Coefficients to values.
    pub fn forward(&mut self) {
        self.kernels.forward(&self.table, &mut self.values);
    }

    /// Values to coefficients.
    pub fn inverse(&mut self) {
        self.kernels.inverse(&self.table, &mut self.values, self.table.plain_scale);
    }
}

/// One pass of the multiply-accumulate at degree 4096.
pub struct MultiplyAccumulate {
    table: NttTable,
    kernels: Kernels,
    terms: usize,
    ciphertext: [AlignedWords; 2],
    weights: AlignedWords,
    small: AlignedWords,
    results: Vec<AlignedWords>,
}

impl MultiplyAccumulate {
    /// Four outputs from this many ciphertexts.
    pub fn new(terms: usize) -> Self {
        const DEGREE: usize = 4096;
        Self {
            table: NttTable::new(ntt_primes(50, DEGREE, 1)[0], DEGREE),
            kernels: Kernels::for_cpu(CpuFeatures::available()),
            terms,
            ciphertext: [counted(DEGREE * terms), counted(DEGREE * terms)],
            weights: counted(DEGREE * terms * OUTPUTS_PER_BLOCK),
            small: counted(DEGREE * OUTPUTS_PER_BLOCK),
            results: vec![AlignedWords::zeros(DEGREE); 2 * OUTPUTS_PER_BLOCK],
        }
    }

    /// Bytes of weights that a pass reads.
    pub fn weight_bytes(&self) -> usize {
        self.weights.len() * 8
    }

    /// The pass, and one of its results.
    pub fn run(&mut self) -> u64 {
        let degree = self.table.degree();
        let accumulation = Accumulation {
            stored_terms: self.terms,
            first_term: 0,
            terms: self.terms,
            outputs: OUTPUTS_PER_BLOCK,
            ciphertext: [&self.ciphertext[0][..], &self.ciphertext[1][..]],
            weights: &self.weights,
            public_key: [&self.small[..degree], &self.small[degree..2 * degree]],
            zero: &self.small,
        };
        self.kernels.accumulate(self.table.modulus(), &accumulation, &mut self.results);
        self.results[0][0]
    }
}

fn counted(length: usize) -> AlignedWords {
    let mut words = AlignedWords::zeros(length);
    words.iter_mut().zip(1..).for_each(|(word, value)| *word = value);
    words
}
