//! Blocks of eight values with AVX-512 VBMI: values in 64-bit lanes, bytes moved by one permutation.
//!
//! ```text
//! lane j      value j, shifted to or from bit (j l) mod 8
//! byte        (j l) div 8 of the block and the seven after it
//! ```

use std::arch::x86_64::{
    __m512i, _mm_cvtsi128_si64, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_and_si512,
    _mm512_cvtepi64_epi8, _mm512_cvtepi64_epi32, _mm512_cvtepu32_epi64, _mm512_loadu_si512,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_maskz_permutexvar_epi8, _mm512_or_si512,
    _mm512_permutexvar_epi8, _mm512_set1_epi64, _mm512_sllv_epi64, _mm512_srlv_epi64, _mm512_storeu_si512,
    _pext_u64,
};
use std::ops::RangeInclusive;

use super::ONE_LOAD_BITS;
use crate::ring::word::Word;

/// Widths where a shifted value fits its lane, and shares bytes with its two neighbors alone.
pub(super) const PACKED_BITS: RangeInclusive<u32> = 8..=ONE_LOAD_BITS;

/// Widths of which eight values fit a word.
pub(super) const NARROW_BITS: RangeInclusive<u32> = 1..=7;

/// Widths where a shifted value fits its lane.
pub(super) const UNPACKED_BITS: RangeInclusive<u32> = 1..=ONE_LOAD_BITS;

/// Values of a block.
const BLOCK: usize = 8;

/// Packs the low bits of all whole blocks and returns how many values that were.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
pub(super) fn pack_narrow_blocks<W: Word>(values: &[W], bits: u32, bytes: &mut [u8]) -> usize {
    assert!(NARROW_BITS.contains(&bits));
    let kept = u64::from_ne_bytes([(1 << bits) - 1; 8]);
    let blocks = values.chunks_exact(BLOCK).zip(bytes.chunks_exact_mut(bits as usize));
    let count = blocks.len();
    for (values, bytes) in blocks {
        let lowest = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(load_lanes(values))).cast_unsigned();
        bytes.copy_from_slice(&_pext_u64(lowest, kept).to_le_bytes()[..bits as usize]);
    }
    count * BLOCK
}

/// Packs the low bits of all whole blocks and returns how many values that were.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) fn pack_blocks<W: Word>(values: &[W], bits: u32, bytes: &mut [u8]) -> usize {
    assert!(PACKED_BITS.contains(&bits));
    let shifts = load(&lane_shifts(bits));
    // Neighbors may share a byte, so even and odd lanes are moved apart and then joined.
    let moves = [0, 1].map(|parity| {
        let (mut source, mut covered) = ([0; 64], 0_u64);
        for lane in (parity..BLOCK).step_by(2) {
            let (start, end) = (lane * bits as usize, (lane + 1) * bits as usize);
            for (place, byte) in (start / 8..end.div_ceil(8)).enumerate() {
                source[byte] = (lane * 8 + place) as u8;
                covered |= 1 << byte;
            }
        }
        (load(&source), covered)
    });
    let stored = (1_u64 << bits) - 1;
    let kept = _mm512_set1_epi64(stored.cast_signed());
    let blocks = values.chunks_exact(BLOCK).zip(bytes.chunks_exact_mut(bits as usize));
    let count = blocks.len();
    for (values, bytes) in blocks {
        let lanes = _mm512_sllv_epi64(_mm512_and_si512(load_lanes(values), kept), shifts);
        let [even, odd] =
            moves.map(|(source, covered)| _mm512_maskz_permutexvar_epi8(covered, source, lanes));
        // SAFETY: the mask has as many bits as the chunk has bytes.
        unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), stored, _mm512_or_si512(even, odd)) };
    }
    count * BLOCK
}

/// Unpacks all whole blocks and returns how many values that were.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) fn unpack_blocks<W: Word>(bytes: &[u8], bits: u32, values: &mut [W]) -> usize {
    assert!(UNPACKED_BITS.contains(&bits));
    let shifts = load(&lane_shifts(bits));
    let mask = _mm512_set1_epi64(((1_u64 << bits) - 1).cast_signed());
    let source =
        load(&std::array::from_fn::<u8, 64, _>(|byte| (byte / 8 * bits as usize / 8 + byte % 8) as u8));
    let loaded = (1_u64 << bits) - 1;
    let blocks = values.chunks_exact_mut(BLOCK).zip(bytes.chunks_exact(bits as usize));
    let count = blocks.len();
    for (values, bytes) in blocks {
        // SAFETY: the mask has as many bits as the chunk has bytes.
        let packed = unsafe { _mm512_maskz_loadu_epi8(loaded, bytes.as_ptr().cast()) };
        let lanes = _mm512_srlv_epi64(_mm512_permutexvar_epi8(source, packed), shifts);
        store_lanes(_mm512_and_si512(lanes, mask), values);
    }
    count * BLOCK
}

/// Where in its first byte each value of a block starts.
fn lane_shifts(bits: u32) -> [u64; BLOCK] {
    std::array::from_fn(|lane| lane as u64 * u64::from(bits) % 8)
}

#[target_feature(enable = "avx512f")]
fn load<T: Copy, const COUNT: usize>(array: &[T; COUNT]) -> __m512i {
    const { assert!(size_of::<T>() * COUNT == 64) };
    // SAFETY: the array is 64 bytes long, and any bytes make a register.
    unsafe { _mm512_loadu_si512(array.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn load_lanes<W: Word>(values: &[W]) -> __m512i {
    const { assert!(size_of::<W>() * 8 == W::BITS as usize) };
    assert_eq!(values.len(), BLOCK);
    // SAFETY: the slice holds eight words, which are `u32` or `u64` as `BITS` says.
    unsafe {
        if W::BITS == 32 {
            _mm512_cvtepu32_epi64(_mm256_loadu_si256(values.as_ptr().cast()))
        } else {
            _mm512_loadu_si512(values.as_ptr().cast())
        }
    }
}

#[target_feature(enable = "avx512f")]
fn store_lanes<W: Word>(lanes: __m512i, values: &mut [W]) {
    const { assert!(size_of::<W>() * 8 == W::BITS as usize) };
    assert_eq!(values.len(), BLOCK);
    // SAFETY: the slice has room for eight words, which are `u32` or `u64` as `BITS` says.
    unsafe {
        if W::BITS == 32 {
            _mm256_storeu_si256(values.as_mut_ptr().cast(), _mm512_cvtepi64_epi32(lanes));
        } else {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), lanes);
        }
    }
}
