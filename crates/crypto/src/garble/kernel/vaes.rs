//! Four blocks per instruction: VAES on 512-bit registers.

use std::arch::x86_64::*;

use super::lockstep::{encrypt, hash_both, hash_mixed, load_inputs, lockstep};
use super::{AndInputs, KeyBatch, RowWeights};

type Vector = __m512i;
const BLOCKS: usize = 4;

/// # Safety
/// 64 bytes from the pointer on must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
unsafe fn load(bytes: *const u8) -> Vector {
    // SAFETY: the caller vouches for the 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.cast()) }
}

/// # Safety
/// 64 bytes from the pointer on must be writable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
unsafe fn store(bytes: *mut u8, vector: Vector) {
    // SAFETY: the caller vouches for the 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.cast(), vector) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn broadcast(value: u128) -> Vector {
    _mm512_broadcast_i32x4(_mm_set_epi64x((value >> 64) as i64, value as i64))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn xor_two(left: Vector, right: Vector) -> Vector {
    _mm512_xor_si512(left, right)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn and(left: Vector, right: Vector) -> Vector {
    _mm512_and_si512(left, right)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn add(left: Vector, right: Vector) -> Vector {
    _mm512_add_epi64(left, right)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn subtract(left: Vector, right: Vector) -> Vector {
    _mm512_sub_epi64(left, right)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn round(state: Vector, key: Vector) -> Vector {
    _mm512_aesenc_epi128(state, key)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn last_round(state: Vector, key: Vector) -> Vector {
    _mm512_aesenclast_epi128(state, key)
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn sigma(label: Vector) -> Vector {
    _mm512_xor_si512(_mm512_shuffle_epi32::<0b01_00_11_10>(label), _mm512_maskz_mov_epi64(0b1010_1010, label))
}

/// All ones in the lanes whose color is one.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
#[inline]
fn color_mask(label: Vector) -> Vector {
    let spread = _mm512_srai_epi32::<31>(_mm512_slli_epi32::<31>(label));
    _mm512_shuffle_epi32::<0>(spread)
}

/// The key schedules of sixteen keys, four per register and four registers in flight.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,aes,vaes")]
pub(super) fn expand(raw: &[u128; KeyBatch::KEYS], keys: &mut KeyBatch) {
    const ROUND_CONSTANTS: [i32; 10] = [0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36];
    // The last word of each key, rotated by a byte, in all four words.
    let rotate = _mm512_set1_epi32(0x0c0f_0e0d);
    // Word 1 into words 2 and 3; nothing into words 0 and 1.
    let spread = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0706_0504_0706_0504, -1));
    let mut state = load_labels(raw, 0);
    keys.rounds[0] = *raw;
    for (index, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        let constant = _mm512_set1_epi32(constant);
        state = all(state, |key| {
            // With four equal columns the shifting of rows changes nothing: what is left is the S-box.
            let substituted = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(key, rotate), constant);
            let pairs = _mm512_xor_si512(key, _mm512_slli_epi64::<32>(key));
            let prefix = _mm512_xor_si512(pairs, _mm512_shuffle_epi8(pairs, spread));
            _mm512_xor_si512(prefix, substituted)
        });
        store_labels(&mut keys.rounds[index + 1], 0, state);
    }
}

lockstep!("avx512f,avx512bw,avx512dq,avx512vl,aes,vaes");
