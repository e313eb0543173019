//! Values to bits and back, at exactly l bits each: the first value's lowest bit is the first byte's lowest bit.
//!
//! Eight values take l bytes, so blocks of eight start at whole bytes. Branches follow the position alone, which is
//! public; no value is looked at.

#[cfg(target_arch = "x86_64")]
mod avx512;

use super::{Vectorized, vectorized};
use crate::cpu::CpuFeatures;
use crate::ring::word::Word;

/// Values of at most this many bits lie inside any eight bytes that start with their first byte.
const ONE_LOAD_BITS: u32 = 57;

/// Writes the low `bits` bits of each value; `bytes` has exactly the length they need.
pub(crate) fn pack<W: Word>(values: &[W], bits: u32, bytes: &mut [u8], features: CpuFeatures) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if features.avx512 && avx512::PACKED_BITS.contains(&bits) && bits != W::BITS {
        // SAFETY: `avx512` is set only where F, BW, VL and VBMI were detected.
        done = unsafe { avx512::pack_blocks(values, bits, bytes) };
    } else if features.avx512 && avx512::NARROW_BITS.contains(&bits) {
        // SAFETY: `avx512` is set only where F, BW, VL, VBMI and BMI2 were detected.
        done = unsafe { avx512::pack_narrow_blocks(values, bits, bytes) };
    }
    let bytes = &mut bytes[done / 8 * bits as usize..];
    vectorized(features, Pack { values: &values[done..], bits, bytes });
}

/// Reads values of `bits` bits each; `bytes` has exactly the length they need.
pub(crate) fn unpack<W: Word>(bytes: &[u8], bits: u32, values: &mut [W], features: CpuFeatures) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if features.avx512 && avx512::UNPACKED_BITS.contains(&bits) && bits != W::BITS {
        // SAFETY: `avx512` is set only where F, BW, VL and VBMI were detected.
        done = unsafe { avx512::unpack_blocks(bytes, bits, values) };
    }
    let bytes = &bytes[done / 8 * bits as usize..];
    vectorized(features, Unpack { bytes, bits, values: &mut values[done..] });
}

/// The twin for any width: words are filled from the low end.
struct Pack<'a, W> {
    values: &'a [W],
    bits: u32,
    bytes: &'a mut [u8],
}

impl<W: Word> Vectorized for Pack<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { values, bits, bytes } = self;
        if bits == W::BITS {
            for (target, value) in bytes.chunks_exact_mut(size_of::<W>()).zip(values) {
                target.copy_from_slice(&value.widen().to_le_bytes()[..size_of::<W>()]);
            }
            return;
        }
        let mut words = bytes.chunks_exact_mut(8);
        let mut pending = 0_u64;
        let mut filled = 0;
        let kept = u64::MAX >> (64 - bits);
        for value in values {
            let value = value.widen() & kept;
            pending |= value << filled;
            filled += bits;
            if filled >= 64 {
                if let Some(word) = words.next() {
                    word.copy_from_slice(&pending.to_le_bytes());
                }
                filled -= 64;
                // What did not fit: the highest `filled` bits of the value. Two shifts, since one may be by 64.
                pending = value >> (bits - filled - 1) >> 1;
            }
        }
        // What is pending fills a last whole word, a last part of one, or nothing.
        if let Some(word) = words.next() {
            word.copy_from_slice(&pending.to_le_bytes());
        } else {
            let rest = words.into_remainder();
            let length = rest.len();
            rest.copy_from_slice(&pending.to_le_bytes()[..length]);
        }
    }
}

/// The twin for any width: each value is cut out of the nine bytes that may hold it.
struct Unpack<'a, W> {
    bytes: &'a [u8],
    bits: u32,
    values: &'a mut [W],
}

impl<W: Word> Vectorized for Unpack<'_, W> {
    #[inline(always)]
    fn run(self) {
        let Self { bytes, bits, values } = self;
        if bits == W::BITS {
            for (value, source) in values.iter_mut().zip(bytes.chunks_exact(size_of::<W>())) {
                let mut word = [0; 8];
                word[..source.len()].copy_from_slice(source);
                *value = W::wrap(u64::from_le_bytes(word));
            }
            return;
        }
        // Values whose nine bytes lie inside the slice; the few others are read from a copy with zeros behind it.
        let inner = (bytes.len().saturating_sub(8) * 8 / bits as usize).min(values.len());
        let (inner_values, last_values) = values.split_at_mut(inner);
        read(bytes, 0, bits, inner_values);
        let start = inner * bits as usize;
        let mut tail = [0; 32];
        let source = &bytes[start / 8..];
        tail[..source.len()].copy_from_slice(source);
        read(&tail, start % 8, bits, last_values);
    }
}

/// Reads values from bit `start` on; nine bytes from each value's first byte lie inside the slice.
#[inline(always)]
fn read<W: Word>(bytes: &[u8], start: usize, bits: u32, values: &mut [W]) {
    let mask = u64::MAX >> (64 - bits);
    let mut position = start;
    for value in values {
        let (byte, shift) = (position / 8, (position % 8) as u32);
        let window: [u8; 9] = bytes[byte..byte + 9].try_into().expect("a slice of nine bytes");
        let low = u64::from_le_bytes(window[..8].try_into().expect("eight of nine bytes")) >> shift;
        let word = if bits <= ONE_LOAD_BITS { low } else { low | u64::from(window[8]) << 1 << (63 - shift) };
        *value = W::wrap(word & mask);
        position += bits as usize;
    }
}
