//! VAES and AVX-512: four cipher blocks to a register.

use std::arch::x86_64::*;

use super::schedule::RoundKeys;
use super::{GROUP, GROUP_BITS, Quarter, Strip, Workspace, offset_mask};
use crate::ot::depth::Depth;

/// 2048 bits in registers.
type Wide = [__m512i; 4];

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
pub(super) fn receiver_columns(depth: Depth, leaves: &[RoundKeys], first: u64, workspace: &mut Workspace) {
    match depth {
        Depth::Four => receiver_trees::<4, 16>(leaves, first, workspace),
        Depth::Eight => receiver_trees::<8, 256>(leaves, first, workspace),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
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

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
fn receiver_trees<const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys],
    first: u64,
    workspace: &mut Workspace,
) {
    let counters = counters(first);
    let choices = load_strip(&workspace.choices);
    for (tree, leaves) in leaves.as_chunks::<LEAVES>().0.iter().enumerate() {
        let (sum, columns) = fold::<false, BITS, LEAVES>(leaves, &counters);
        store_strip(&mut workspace.corrections[tree], add(sum, choices));
        for (bit, column) in columns.into_iter().enumerate() {
            put_column(workspace, tree * BITS + bit, column);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
fn sender_trees<const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys],
    first: u64,
    offset: u128,
    workspace: &mut Workspace,
) {
    let counters = counters(first);
    for (tree, leaves) in leaves.as_chunks::<LEAVES>().0.iter().enumerate() {
        let (_, columns) = fold::<true, BITS, LEAVES>(leaves, &counters);
        let correction = load_strip(&workspace.corrections[tree]);
        for (bit, column) in columns.into_iter().enumerate() {
            let mask = _mm512_set1_epi64(offset_mask(offset, tree * BITS + bit) as i64);
            let masked = correction.map(|word| _mm512_and_si512(word, mask));
            put_column(workspace, tree * BITS + bit, add(column, masked));
        }
    }
}

/// The sum of all streams of a tree, and for each bit the sum of those whose leaf's number has it. Without leaf 0 when
/// `PUNCTURED`; the sum is then of no use.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
fn fold<const PUNCTURED: bool, const BITS: usize, const LEAVES: usize>(
    leaves: &[RoundKeys; LEAVES],
    counters: &Wide,
) -> (Wide, [Wide; BITS]) {
    let zero = [_mm512_setzero_si512(); 4];
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
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,vaes,aes")]
fn fold_group<const PUNCTURED: bool, const LEAVES: usize>(
    leaves: &[RoundKeys; LEAVES],
    number: usize,
    counters: &Wide,
) -> (Wide, [Wide; GROUP_BITS]) {
    let leaves = &leaves.as_chunks::<GROUP>().0[number];
    let zero = [_mm512_setzero_si512(); 4];
    let (mut low, mut next) = (zero, zero);
    let mut quads = [zero; 4];
    for quad in 0..4 {
        let (mut even, odd) = streams([&leaves[4 * quad], &leaves[4 * quad + 1]], counters);
        if PUNCTURED && quad == 0 {
            even = zero;
        }
        low = add(low, odd);
        let pair = add(even, odd);
        let (even, odd) = streams([&leaves[4 * quad + 2], &leaves[4 * quad + 3]], counters);
        low = add(low, odd);
        let upper = add(even, odd);
        next = add(next, upper);
        quads[quad] = add(pair, upper);
    }
    let third = add(quads[1], quads[3]);
    let fourth = add(quads[2], quads[3]);
    (add(add(quads[0], quads[1]), fourth), [low, next, third, fourth])
}

/// The streams of two leaves in step, so that eight independent chains hide the latency of a round.
#[inline]
#[target_feature(enable = "avx512f,vaes")]
fn streams(leaves: [&RoundKeys; 2], counters: &Wide) -> (Wide, Wide) {
    let mut first = counters.map(|counter| _mm512_xor_si512(counter, round_key(leaves[0], 0)));
    let mut second = counters.map(|counter| _mm512_xor_si512(counter, round_key(leaves[1], 0)));
    for round in 1..10 {
        let keys = [round_key(leaves[0], round), round_key(leaves[1], round)];
        first = first.map(|block| _mm512_aesenc_epi128(block, keys[0]));
        second = second.map(|block| _mm512_aesenc_epi128(block, keys[1]));
    }
    let keys = [round_key(leaves[0], 10), round_key(leaves[1], 10)];
    (
        first.map(|block| _mm512_aesenclast_epi128(block, keys[0])),
        second.map(|block| _mm512_aesenclast_epi128(block, keys[1])),
    )
}

#[inline]
#[target_feature(enable = "avx512f")]
fn round_key(keys: &RoundKeys, round: usize) -> __m512i {
    // SAFETY: a reference to a u128 is valid for a read of 16 bytes, and the load needs no alignment.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128((&raw const keys.0[round]).cast()) })
}

/// The sixteen cipher inputs from `first` on, in order.
#[inline]
#[target_feature(enable = "avx512f")]
fn counters(first: u64) -> Wide {
    let lanes = _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0);
    [0, 4, 8, 12].map(|step| {
        let start = (first + step) as i64;
        _mm512_add_epi64(lanes, _mm512_set_epi64(0, start, 0, start, 0, start, 0, start))
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(left: Wide, right: Wide) -> Wide {
    std::array::from_fn(|index| _mm512_xor_si512(left[index], right[index]))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_strip(strip: &Strip) -> Wide {
    // SAFETY: each pointer is to four u128, which is 64 bytes, and the load needs no alignment.
    std::array::from_fn(|index| unsafe {
        _mm512_loadu_si512((&raw const strip.as_chunks::<4>().0[index]).cast())
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_strip(strip: &mut Strip, words: Wide) {
    for (target, word) in strip.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        // SAFETY: the target is four u128, which is 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(target.as_mut_ptr().cast(), word) };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn put_column(workspace: &mut Workspace, column: usize, words: Wide) {
    for (quarter, word) in workspace.columns.iter_mut().zip(words) {
        // SAFETY: an entry of a quarter is four u128, which is 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_si512(quarter[column].as_mut_ptr().cast(), word) };
    }
}

/// 128 columns of 512 bits to 512 labels, in squares of 128.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn transpose(columns: &Quarter, labels: &mut [u128; 512]) {
    for (square, labels) in labels.as_chunks_mut::<128>().0.iter_mut().enumerate() {
        let mut rows = [_mm512_setzero_si512(); 32];
        // Register i holds columns i, i + 32, i + 64 and i + 96. Swaps over 16 and 8 rows, four registers at
        // a time.
        for start in 0..8 {
            let mut group: [__m512i; 4] =
                std::array::from_fn(|index| gather(columns, square, start + 8 * index));
            swap_bits::<16>(&mut group, 2, 0x0000_ffff_0000_ffff);
            swap_bits::<8>(&mut group, 1, 0x00ff_00ff_00ff_00ff);
            for (index, row) in group.into_iter().enumerate() {
                rows[start + 8 * index] = row;
            }
        }
        // Swaps over 4, 2 and 1 rows, eight registers at a time.
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

/// Columns `index`, `index + 32`, `index + 64` and `index + 96` of one square.
#[inline]
#[target_feature(enable = "avx512f")]
fn gather(columns: &Quarter, square: usize, index: usize) -> __m512i {
    // SAFETY: each pointer is to one u128, which is 16 bytes, and the load needs no alignment.
    let load = |column: usize| unsafe { _mm_loadu_si128((&raw const columns[column][square]).cast()) };
    let row = _mm512_castsi128_si512(load(index));
    let row = _mm512_inserti32x4::<1>(row, load(index + 32));
    let row = _mm512_inserti32x4::<2>(row, load(index + 64));
    _mm512_inserti32x4::<3>(row, load(index + 96))
}

/// Between rows `apart` from each other, swaps the bits of the first above `DISTANCE` with those of the
/// second below.
#[inline]
#[target_feature(enable = "avx512f")]
fn swap_bits<const DISTANCE: u32>(rows: &mut [__m512i], apart: usize, mask: u64) {
    let mask = _mm512_set1_epi64(mask as i64);
    for group in rows.chunks_exact_mut(2 * apart) {
        let (upper, lower) = group.split_at_mut(apart);
        for (first, second) in upper.iter_mut().zip(lower) {
            let difference = _mm512_xor_si512(_mm512_srli_epi64::<DISTANCE>(*first), *second);
            let swapped = _mm512_and_si512(difference, mask);
            *second = _mm512_xor_si512(*second, swapped);
            *first = _mm512_xor_si512(*first, _mm512_slli_epi64::<DISTANCE>(swapped));
        }
    }
}

/// The 32-bit squares are transposed; what remains is a transposition of four by four words inside the
/// register, after which its lanes are labels `index`, `index + 32`, `index + 64` and `index + 96`.
#[inline]
#[target_feature(enable = "avx512f")]
fn scatter(row: __m512i, labels: &mut [u128; 128], index: usize) {
    let order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    let row = _mm512_permutexvar_epi32(order, row);
    let lanes = [
        _mm512_castsi512_si128(row),
        _mm512_extracti32x4_epi32::<1>(row),
        _mm512_extracti32x4_epi32::<2>(row),
        _mm512_extracti32x4_epi32::<3>(row),
    ];
    for (lane, word) in lanes.into_iter().enumerate() {
        // SAFETY: the target is one u128, which is 16 bytes, and the store needs no alignment.
        unsafe { _mm_storeu_si128((&raw mut labels[index + 32 * lane]).cast(), word) };
    }
}
