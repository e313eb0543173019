//! AES-NI and AVX2: one cipher block to a register, eight blocks in step.

use std::arch::x86_64::*;

use super::schedule::RoundKeys;
use super::{GROUP, GROUP_BITS, Product, Quarter, Workspace, offset_mask};
use crate::ot::depth::Depth;

/// Half a strip, 1024 bits, in registers.
type Half = [__m128i; 8];

#[target_feature(enable = "avx2,aes")]
pub(super) fn receiver_columns(depth: Depth, leaves: &[RoundKeys], first: u64, workspace: &mut Workspace) {
    match depth {
        Depth::Four => receiver_trees::<4, 16>(leaves, first, workspace),
        Depth::Eight => receiver_trees::<8, 256>(leaves, first, workspace),
    }
}

#[target_feature(enable = "avx2,aes")]
pub(super) fn sender_columns(
    depth: Depth,
    leaves: &[RoundKeys],
    first: u64,
    offset: u128,
    workspace: &mut Workspace,
) {
    match depth {
        Depth::Four => sender_trees::<4, 16>(leaves, first, offset, workspace),
        Depth::Eight => sender_trees::<8, 256>(leaves, first, offset, workspace),
    }
}

#[target_feature(enable = "avx2,aes")]
fn receiver_trees<const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys],
    first: u64,
    workspace: &mut Workspace,
) {
    for half in 0..2 {
        let counters = counters(first + 8 * half as u64);
        for (tree, leaves) in leaves.as_chunks::<LEAVES>().0.iter().enumerate() {
            let (sum, columns) = fold::<false, BITS, LEAVES>(leaves, &counters);
            let choices = load_half(&workspace.choices, half);
            store_half(&mut workspace.corrections[tree], half, add(sum, choices));
            for (bit, column) in columns.into_iter().enumerate() {
                put_column(workspace, tree * BITS + bit, half, column);
            }
        }
    }
}

#[target_feature(enable = "avx2,aes")]
fn sender_trees<const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys],
    first: u64,
    offset: u128,
    workspace: &mut Workspace,
) {
    for half in 0..2 {
        let counters = counters(first + 8 * half as u64);
        for (tree, leaves) in leaves.as_chunks::<LEAVES>().0.iter().enumerate() {
            let (_, columns) = fold::<true, BITS, LEAVES>(leaves, &counters);
            let correction = load_half(&workspace.corrections[tree], half);
            for (bit, column) in columns.into_iter().enumerate() {
                let mask = _mm_set1_epi64x(offset_mask(offset, tree * BITS + bit) as i64);
                let masked = correction.map(|word| _mm_and_si128(word, mask));
                put_column(workspace, tree * BITS + bit, half, add(column, masked));
            }
        }
    }
}

/// The sum of all streams of a tree, and for each bit the sum of those whose leaf's number has it. Without leaf 0 when
/// `PUNCTURED`; the sum is then of no use.
#[inline]
#[target_feature(enable = "avx2,aes")]
fn fold<const PUNCTURED: bool, const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys; LEAVES],
    counters: &Half,
) -> (Half, [Half; BITS]) {
    let zero = [_mm_setzero_si128(); 8];
    let (mut total, mut columns) = (zero, [zero; BITS]);
    for number in 0..LEAVES / GROUP {
        let (sum, within) = match PUNCTURED && number == 0 {
            true => fold_group::<true, LEAVES>(leaves, number, counters),
            false => fold_group::<false, LEAVES>(leaves, number, counters),
        };
        total = add(total, sum);
        let (lower, upper) = columns.split_at_mut(GROUP_BITS);
        for (column, part) in lower.iter_mut().zip(within) {
            *column = add(*column, part);
        }
        for (bit, column) in upper.iter_mut().enumerate() {
            if number >> bit & 1 == 1 {
                *column = add(*column, sum);
            }
        }
    }
    (total, columns)
}

/// The same of one group of leaves. There is one for each depth, so that at depth 4 it has one caller and becomes part of
/// it.
#[inline]
#[target_feature(enable = "avx2,aes")]
fn fold_group<const PUNCTURED: bool, const LEAVES: usize>(
    leaves: &[RoundKeys; LEAVES],
    number: usize,
    counters: &Half,
) -> (Half, [Half; GROUP_BITS]) {
    let leaves = &leaves.as_chunks::<GROUP>().0[number];
    let zero = [_mm_setzero_si128(); 8];
    let (mut low, mut next) = (zero, zero);
    let mut quads = [zero; 4];
    for quad in 0..4 {
        let even = if PUNCTURED && quad == 0 { zero } else { stream(&leaves[4 * quad], counters) };
        let odd = stream(&leaves[4 * quad + 1], counters);
        low = add(low, odd);
        let pair = add(even, odd);
        let even = stream(&leaves[4 * quad + 2], counters);
        let odd = stream(&leaves[4 * quad + 3], counters);
        low = add(low, odd);
        let upper = add(even, odd);
        next = add(next, upper);
        quads[quad] = add(pair, upper);
    }
    let third = add(quads[1], quads[3]);
    let fourth = add(quads[2], quads[3]);
    (add(add(quads[0], quads[1]), fourth), [low, next, third, fourth])
}

#[inline]
#[target_feature(enable = "avx2,aes")]
fn stream(keys: &RoundKeys, counters: &Half) -> Half {
    let mut blocks = counters.map(|counter| _mm_xor_si128(counter, round_key(keys, 0)));
    for round in 1..10 {
        let key = round_key(keys, round);
        blocks = blocks.map(|block| _mm_aesenc_si128(block, key));
    }
    let key = round_key(keys, 10);
    blocks.map(|block| _mm_aesenclast_si128(block, key))
}

#[inline]
#[target_feature(enable = "avx2")]
fn round_key(keys: &RoundKeys, round: usize) -> __m128i {
    // SAFETY: a reference to a u128 is valid for a read of 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128((&raw const keys.0[round]).cast()) }
}

/// The eight cipher inputs from `first` on, in order.
#[inline]
#[target_feature(enable = "avx2")]
fn counters(first: u64) -> Half {
    std::array::from_fn(|index| _mm_set_epi64x(0, (first + index as u64) as i64))
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(left: Half, right: Half) -> Half {
    std::array::from_fn(|index| _mm_xor_si128(left[index], right[index]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(strip: &[u128; 16], half: usize) -> Half {
    // SAFETY: each pointer is to one u128, which is 16 bytes, and the load needs no alignment.
    std::array::from_fn(|index| unsafe { _mm_loadu_si128((&raw const strip[8 * half + index]).cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_half(strip: &mut [u128; 16], half: usize, words: Half) {
    for (index, word) in words.into_iter().enumerate() {
        // SAFETY: the target is one u128, which is 16 bytes, and the store needs no alignment.
        unsafe { _mm_storeu_si128((&raw mut strip[8 * half + index]).cast(), word) };
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_column(workspace: &mut Workspace, column: usize, half: usize, words: Half) {
    for (index, word) in words.into_iter().enumerate() {
        let target = &mut workspace.columns[2 * half + index / 4][column][index % 4];
        // SAFETY: the target is one u128, which is 16 bytes, and the store needs no alignment.
        unsafe { _mm_storeu_si128((&raw mut *target).cast(), word) };
    }
}

/// Four products of halves without carries for each word, added up.
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) fn multiply_add(sums: &mut [Product], words: &[u128], factor: u128) {
    let load = |word: &u128| {
        // SAFETY: a reference to a u128 is valid for a read of 16 bytes, and the load needs no alignment.
        unsafe { _mm_loadu_si128((&raw const *word).cast()) }
    };
    let factor = load(&factor);
    for (sum, word) in sums.iter_mut().zip(words) {
        let word = load(word);
        let low = _mm_clmulepi64_si128::<0x00>(word, factor);
        let high = _mm_clmulepi64_si128::<0x11>(word, factor);
        let middle = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x01>(word, factor),
            _mm_clmulepi64_si128::<0x10>(word, factor),
        );
        let low = _mm_xor_si128(low, _mm_slli_si128::<8>(middle));
        let high = _mm_xor_si128(high, _mm_srli_si128::<8>(middle));
        for (sum, part) in sum.iter_mut().zip([low, high]) {
            let total = _mm_xor_si128(load(sum), part);
            // SAFETY: the target is one u128, which is 16 bytes, and the store needs no alignment.
            unsafe { _mm_storeu_si128((&raw mut *sum).cast(), total) };
        }
    }
}

/// 128 columns of 512 bits to 512 labels, in squares of 128.
#[target_feature(enable = "avx2")]
pub(super) fn transpose(columns: &Quarter, labels: &mut [u128; 512]) {
    for (square, labels) in labels.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let mut rows = [_mm256_setzero_si256(); 64];
        // Register i holds columns i and i + 64. Swaps over 32, 16 and 8 rows, eight registers at a time.
        for start in 0..8 {
            let mut group: [__m256i; 8] =
                std::array::from_fn(|index| gather(columns, square, start + 8 * index));
            swap_bits::<32>(&mut group, 4, 0x0000_0000_ffff_ffff);
            swap_bits::<16>(&mut group, 2, 0x0000_ffff_0000_ffff);
            swap_bits::<8>(&mut group, 1, 0x00ff_00ff_00ff_00ff);
            for (index, row) in group.into_iter().enumerate() {
                rows[start + 8 * index] = row;
            }
        }
        // Swaps over 4, 2 and 1 rows.
        for (start, group) in rows.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            swap_bits::<4>(group, 4, 0x0f0f_0f0f_0f0f_0f0f);
            swap_bits::<2>(group, 2, 0x3333_3333_3333_3333);
            swap_bits::<1>(group, 1, 0x5555_5555_5555_5555);
            for (index, row) in group.iter().enumerate() {
                scatter(*row, labels, 8 * start + index);
            }
        }
    }
}

/// Columns `index` and `index + 64` of one square.
#[inline]
#[target_feature(enable = "avx2")]
fn gather(columns: &Quarter, square: usize, index: usize) -> __m256i {
    // SAFETY: each pointer is to one u128, which is 16 bytes, and the load needs no alignment.
    let load = |column: usize| unsafe { _mm_loadu_si128((&raw const columns[column][square]).cast()) };
    _mm256_set_m128i(load(index + 64), load(index))
}

/// Between rows `apart` from each other, swaps the bits of the first above `DISTANCE` with those of the
/// second below.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bits<const DISTANCE: i32>(rows: &mut [__m256i], apart: usize, mask: u64) {
    let mask = _mm256_set1_epi64x(mask as i64);
    for group in rows.chunks_exact_mut(2 * apart) {
        let (upper, lower) = group.split_at_mut(apart);
        for (first, second) in upper.iter_mut().zip(lower) {
            let difference = _mm256_xor_si256(_mm256_srli_epi64::<DISTANCE>(*first), *second);
            let swapped = _mm256_and_si256(difference, mask);
            *second = _mm256_xor_si256(*second, swapped);
            *first = _mm256_xor_si256(*first, _mm256_slli_epi64::<DISTANCE>(swapped));
        }
    }
}

/// The 64-bit squares are transposed; what remains is a transposition of two by two words inside the
/// register, after which its lanes are labels `index` and `index + 64`.
#[inline]
#[target_feature(enable = "avx2")]
fn scatter(row: __m256i, labels: &mut [u128; 128], index: usize) {
    let row = _mm256_permute4x64_epi64::<0b11_01_10_00>(row);
    let lanes = [_mm256_castsi256_si128(row), _mm256_extracti128_si256::<1>(row)];
    for (lane, word) in lanes.into_iter().enumerate() {
        // SAFETY: the target is one u128, which is 16 bytes, and the store needs no alignment.
        unsafe { _mm_storeu_si128((&raw mut labels[index + 64 * lane]).cast(), word) };
    }
}
