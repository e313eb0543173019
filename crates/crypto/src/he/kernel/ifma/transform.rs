//! The transforms in vectors: two stages per pass over memory, the four innermost ones inside registers.

use std::arch::x86_64::*;

use super::{Lanes, correct, lanes_mut, load, splat, store};
use crate::he::kernel::InverseScale;
use crate::he::modulus::{Factor, WORD_BITS, WORD_MASK};
use crate::he::ntt::{FactorTable, NttTable};

/// A root in all lanes, or one per lane.
#[derive(Clone, Copy)]
struct Roots {
    values: __m512i,
    quotients: __m512i,
}

/// The prime in all lanes.
#[derive(Clone, Copy)]
struct Butterfly {
    negative_prime: __m512i,
    prime: __m512i,
    twice: __m512i,
    mask: __m512i,
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(super) fn forward(table: &NttTable, values: &mut [u64]) {
    let butterfly = Butterfly::new(table);
    let vectors = lanes_mut(values);
    let mut groups = 1;
    if table.degree().trailing_zeros() % 2 == 1 {
        let (low, high) = vectors.split_at_mut(vectors.len() / 2);
        let root = Roots::broadcast(table.root(1));
        for (left, right) in low.iter_mut().zip(high) {
            let (a, b) = butterfly.forward(load(left), load(right), root);
            store(left, a);
            store(right, b);
        }
        groups = 2;
    }
    while groups * 4 <= vectors.len() / 2 {
        let quarter = vectors.len() / groups / 4;
        for (group, block) in vectors.chunks_exact_mut(4 * quarter).enumerate() {
            let outer = Roots::broadcast(table.root(groups + group));
            let inner = [0, 1].map(|side| Roots::broadcast(table.root(2 * (groups + group) + side)));
            butterfly.forward_pass(block, quarter, outer, inner);
        }
        groups *= 4;
    }
    for (pair, vectors) in vectors.as_chunks_mut().0.iter_mut().enumerate() {
        butterfly.forward_registers(&table.roots, table.degree(), pair, vectors);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
pub(super) fn inverse(table: &NttTable, values: &mut [u64], scale: InverseScale) {
    let butterfly = Butterfly::new(table);
    let vectors = lanes_mut(values);
    for (pair, vectors) in vectors.as_chunks_mut().0.iter_mut().enumerate() {
        butterfly.inverse_registers(&table.inverse_roots, table.degree(), pair, vectors);
    }
    let mut groups = vectors.len() / 4;
    while groups > 2 {
        let quarter = vectors.len() / groups / 2;
        groups /= 2;
        for (group, block) in vectors.chunks_exact_mut(4 * quarter).enumerate() {
            let inner = [0, 1].map(|side| Roots::broadcast(table.inverse_root(2 * (groups + group) + side)));
            let outer = Roots::broadcast(table.inverse_root(groups + group));
            butterfly.inverse_pass(block, quarter, inner, outer);
        }
        groups /= 2;
    }
    if groups == 2 {
        let inner = [2, 3].map(|index| Roots::broadcast(table.inverse_root(index)));
        butterfly.inverse_last_pass(vectors, inner, scale);
    } else {
        butterfly.inverse_last_stage(vectors, scale);
    }
}

impl Roots {
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn broadcast(factor: Factor) -> Self {
        Self { values: splat(factor.value), quotients: splat(factor.quotient) }
    }

    /// Roots `first ..`, each repeated so that the eight lanes hold `8 / repeat` of them.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn spread<const COUNT: usize>(table: &FactorTable, first: usize, pattern: __m512i) -> Self {
        Self {
            values: spread::<COUNT>(&table.values[first..first + COUNT], pattern),
            quotients: spread::<COUNT>(&table.quotients[first..first + COUNT], pattern),
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn spread<const COUNT: usize>(words: &[u64], pattern: __m512i) -> __m512i {
    let mut lanes = [0; 8];
    lanes[..COUNT].copy_from_slice(&words[..COUNT]);
    _mm512_permutexvar_epi64(pattern, load(&lanes))
}

#[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
#[inline]
fn pick(left: __m512i, right: __m512i, lanes: [i64; 8]) -> __m512i {
    let [a, b, c, d, e, f, g, h] = lanes;
    _mm512_permutex2var_epi64(left, _mm512_setr_epi64(a, b, c, d, e, f, g, h), right)
}

impl Butterfly {
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn new(table: &NttTable) -> Self {
        let prime = table.modulus().value();
        Self {
            negative_prime: splat((1 << WORD_BITS) - prime),
            prime: splat(prime),
            twice: splat(2 * prime),
            mask: splat(WORD_MASK),
        }
    }

    /// `value * root`, below twice the prime.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn multiply(&self, value: __m512i, root: Roots) -> __m512i {
        let zero = _mm512_setzero_si512();
        let quotient = _mm512_madd52hi_epu64(zero, value, root.quotients);
        let product = _mm512_madd52lo_epu64(zero, value, root.values);
        _mm512_and_si512(_mm512_madd52lo_epu64(product, quotient, self.negative_prime), self.mask)
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn forward(&self, left: __m512i, right: __m512i, root: Roots) -> (__m512i, __m512i) {
        let kept = correct(left, self.twice);
        let turned = self.multiply(right, root);
        (_mm512_add_epi64(kept, turned), _mm512_sub_epi64(_mm512_add_epi64(kept, self.twice), turned))
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse(&self, left: __m512i, right: __m512i, root: Roots) -> (__m512i, __m512i) {
        let sum = correct(_mm512_add_epi64(left, right), self.twice);
        let difference = _mm512_sub_epi64(_mm512_add_epi64(left, self.twice), right);
        (sum, self.multiply(difference, root))
    }

    /// Two forward stages on four quarters.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn forward_pass(&self, block: &mut [Lanes], quarter: usize, outer: Roots, inner: [Roots; 2]) {
        for [a, b, c, d] in quarters(block, quarter) {
            let (u, w) = self.forward(load(a), load(c), outer);
            let (v, x) = self.forward(load(b), load(d), outer);
            let (u, v) = self.forward(u, v, inner[0]);
            let (w, x) = self.forward(w, x, inner[1]);
            store(a, u);
            store(b, v);
            store(c, w);
            store(d, x);
        }
    }

    /// Two inverse stages on four quarters.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse_pass(&self, block: &mut [Lanes], quarter: usize, inner: [Roots; 2], outer: Roots) {
        for [a, b, c, d] in quarters(block, quarter) {
            let (u, v) = self.inverse(load(a), load(b), inner[0]);
            let (w, x) = self.inverse(load(c), load(d), inner[1]);
            let (u, w) = self.inverse(u, w, outer);
            let (v, x) = self.inverse(v, x, outer);
            store(a, u);
            store(b, v);
            store(c, w);
            store(d, x);
        }
    }

    /// The last two inverse stages, scaled and fully reduced.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse_last_pass(&self, block: &mut [Lanes], inner: [Roots; 2], scale: InverseScale) {
        let (sums, differences) = (Roots::broadcast(scale.sum), Roots::broadcast(scale.difference));
        let quarter = block.len() / 4;
        for [a, b, c, d] in quarters(block, quarter) {
            let (u, v) = self.inverse(load(a), load(b), inner[0]);
            let (w, x) = self.inverse(load(c), load(d), inner[1]);
            let (u, w) = self.inverse_scaled(u, w, sums, differences);
            let (v, x) = self.inverse_scaled(v, x, sums, differences);
            store(a, u);
            store(b, v);
            store(c, w);
            store(d, x);
        }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse_last_stage(&self, block: &mut [Lanes], scale: InverseScale) {
        let (sums, differences) = (Roots::broadcast(scale.sum), Roots::broadcast(scale.difference));
        let (low, high) = block.split_at_mut(block.len() / 2);
        for (left, right) in low.iter_mut().zip(high) {
            let (a, b) = self.inverse_scaled(load(left), load(right), sums, differences);
            store(left, a);
            store(right, b);
        }
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse_scaled(
        &self,
        left: __m512i,
        right: __m512i,
        sums: Roots,
        differences: Roots,
    ) -> (__m512i, __m512i) {
        let sum = _mm512_add_epi64(left, right);
        let difference = _mm512_sub_epi64(_mm512_add_epi64(left, self.twice), right);
        (
            correct(self.multiply(sum, sums), self.prime),
            correct(self.multiply(difference, differences), self.prime),
        )
    }

    /// The stages of distance 8, 4, 2 and 1 on sixteen values, fully reduced.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn forward_registers(
        &self,
        roots: &FactorTable,
        degree: usize,
        pair: usize,
        [low, high]: &mut [Lanes; 2],
    ) {
        let eight = Roots::spread::<1>(roots, degree / 16 + pair, _mm512_setzero_si512());
        let (a, b) = self.forward(load(low), load(high), eight);
        let four =
            Roots::spread::<2>(roots, degree / 8 + 2 * pair, _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1));
        let (x, y) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
        let (x, y) = self.forward(x, y, four);
        let two = Roots::spread::<4>(roots, degree / 4 + 4 * pair, _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3));
        let (x, y) = (pick(x, y, [0, 1, 8, 9, 4, 5, 12, 13]), pick(x, y, [2, 3, 10, 11, 6, 7, 14, 15]));
        let (x, y) = self.forward(x, y, two);
        let one = Roots::spread::<8>(roots, degree / 2 + 8 * pair, _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        let (x, y) = (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
        let (x, y) = self.forward(x, y, one);
        let [x, y] = [x, y].map(|values| correct(correct(values, self.twice), self.prime));
        store(low, pick(x, y, [0, 8, 1, 9, 2, 10, 3, 11]));
        store(high, pick(x, y, [4, 12, 5, 13, 6, 14, 7, 15]));
    }

    /// The inverse stages of distance 1, 2, 4 and 8 on sixteen values.
    #[target_feature(enable = "avx512f,avx512dq,avx512ifma")]
    #[inline]
    fn inverse_registers(
        &self,
        roots: &FactorTable,
        degree: usize,
        pair: usize,
        [low, high]: &mut [Lanes; 2],
    ) {
        let (a, b) = (load(low), load(high));
        let one = Roots::spread::<8>(roots, degree / 2 + 8 * pair, _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
        let (x, y) = (pick(a, b, [0, 2, 4, 6, 8, 10, 12, 14]), pick(a, b, [1, 3, 5, 7, 9, 11, 13, 15]));
        let (x, y) = self.inverse(x, y, one);
        let two = Roots::spread::<4>(roots, degree / 4 + 4 * pair, _mm512_setr_epi64(0, 0, 1, 1, 2, 2, 3, 3));
        let (x, y) = (_mm512_unpacklo_epi64(x, y), _mm512_unpackhi_epi64(x, y));
        let (x, y) = self.inverse(x, y, two);
        let four =
            Roots::spread::<2>(roots, degree / 8 + 2 * pair, _mm512_setr_epi64(0, 0, 0, 0, 1, 1, 1, 1));
        let (x, y) = (pick(x, y, [0, 1, 8, 9, 4, 5, 12, 13]), pick(x, y, [2, 3, 10, 11, 6, 7, 14, 15]));
        let (x, y) = self.inverse(x, y, four);
        let eight = Roots::spread::<1>(roots, degree / 16 + pair, _mm512_setzero_si512());
        let (a, b) = (_mm512_shuffle_i64x2::<0x44>(x, y), _mm512_shuffle_i64x2::<0xee>(x, y));
        let (a, b) = self.inverse(a, b, eight);
        store(low, a);
        store(high, b);
    }
}

/// Walks four quarters of a block in step.
#[inline(always)]
fn quarters(block: &mut [Lanes], quarter: usize) -> impl Iterator<Item = [&mut Lanes; 4]> {
    let (low, high) = block.split_at_mut(2 * quarter);
    let (a, b) = low.split_at_mut(quarter);
    let (c, d) = high.split_at_mut(quarter);
    a.iter_mut().zip(b).zip(c.iter_mut().zip(d)).map(|((a, b), (c, d))| [a, b, c, d])
}
