//! One block per instruction: AES-NI, in the three-operand encoding that comes with AVX2.

use std::arch::x86_64::*;

use super::lockstep::{encrypt, hash_both, hash_mixed, load_inputs, lockstep};
use super::{AndInputs, KeyBatch, RowWeights};

type Vector = __m128i;
const BLOCKS: usize = 1;

/// # Safety
/// 16 bytes from the pointer on must be readable.
#[target_feature(enable = "aes,avx2")]
#[inline]
unsafe fn load(bytes: *const u8) -> Vector {
    // SAFETY: the caller vouches for the 16 bytes; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.cast()) }
}

/// # Safety
/// 16 bytes from the pointer on must be writable.
#[target_feature(enable = "aes,avx2")]
#[inline]
unsafe fn store(bytes: *mut u8, vector: Vector) {
    // SAFETY: the caller vouches for the 16 bytes; the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.cast(), vector) }
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn broadcast(value: u128) -> Vector {
    _mm_set_epi64x((value >> 64) as i64, value as i64)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn xor_two(left: Vector, right: Vector) -> Vector {
    _mm_xor_si128(left, right)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn and(left: Vector, right: Vector) -> Vector {
    _mm_and_si128(left, right)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn add(left: Vector, right: Vector) -> Vector {
    _mm_add_epi64(left, right)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn subtract(left: Vector, right: Vector) -> Vector {
    _mm_sub_epi64(left, right)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn round(state: Vector, key: Vector) -> Vector {
    _mm_aesenc_si128(state, key)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn last_round(state: Vector, key: Vector) -> Vector {
    _mm_aesenclast_si128(state, key)
}

#[target_feature(enable = "aes,avx2")]
#[inline]
fn sigma(label: Vector) -> Vector {
    _mm_xor_si128(_mm_shuffle_epi32::<0b01_00_11_10>(label), _mm_and_si128(label, _mm_set_epi64x(-1, 0)))
}

/// All ones where the color is one.
#[target_feature(enable = "aes,avx2")]
#[inline]
fn color_mask(label: Vector) -> Vector {
    let spread = _mm_srai_epi32::<31>(_mm_slli_epi32::<31>(label));
    _mm_shuffle_epi32::<0>(spread)
}

/// The key schedules of sixteen keys, four registers in flight.
#[target_feature(enable = "aes,avx2")]
pub(super) fn expand(raw: &[u128; KeyBatch::KEYS], keys: &mut KeyBatch) {
    const ROUND_CONSTANTS: [i32; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];
    // The last word of each key, rotated by a byte, in all four words.
    let rotate = _mm_set1_epi32(0x0c0f_0e0d);
    // Word 1 into words 2 and 3; nothing into words 0 and 1.
    let spread = _mm_set_epi64x(0x0706_0504_0706_0504, -1);
    keys.rounds[0] = *raw;
    for first in (0..KeyBatch::KEYS).step_by(LANES) {
        let mut state = load_labels(raw, first);
        for (index, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
            let constant = _mm_set1_epi32(constant);
            state = all(state, |key| {
                // With four equal columns the shifting of rows changes nothing: what is left is the S-box.
                let substituted = _mm_aesenclast_si128(_mm_shuffle_epi8(key, rotate), constant);
                let pairs = _mm_xor_si128(key, _mm_slli_epi64::<32>(key));
                let prefix = _mm_xor_si128(pairs, _mm_shuffle_epi8(pairs, spread));
                _mm_xor_si128(prefix, substituted)
            });
            store_labels(&mut keys.rounds[index + 1], first, state);
        }
    }
}

lockstep!("aes,avx2");
