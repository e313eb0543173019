//! AES-128 round keys for the vector kernels.

use std::arch::x86_64::*;

use zeroize::Zeroize;

use crate::ot::tree::LeafKey;

/// Eleven round keys; the leaf's whitening is added to the first, where a cipher adds its input anyway.
#[derive(Clone, Copy, Zeroize)]
#[repr(C, align(16))]
pub(in crate::ot) struct RoundKeys(pub(super) [u128; 11]);

/// Expands the leaf's key (FIPS 197, section 5.2) without a table.
#[target_feature(enable = "aes,sse4.1")]
pub(super) fn expand(leaf: &LeafKey) -> RoundKeys {
    let mut keys = [u128::from_le_bytes(leaf.key); 11];
    let mut round_constant = 1_u8;
    for round in 1..11 {
        let previous = keys[round - 1];
        // Only the substituted and rotated last word is used; it comes out in the highest word.
        let vector = _mm_set_epi64x((previous >> 64) as i64, previous as i64);
        let word = _mm_extract_epi32::<3>(_mm_aeskeygenassist_si128::<0>(vector)) as u32;
        let mut key = previous ^ previous << 32;
        key ^= key << 64;
        let word = u128::from(word ^ u32::from(round_constant));
        keys[round] = key ^ (word | word << 32 | word << 64 | word << 96);
        round_constant = (round_constant << 1) ^ ((round_constant >> 7) * 0x1b);
    }
    keys[0] ^= leaf.whitening;
    RoundKeys(keys)
}
