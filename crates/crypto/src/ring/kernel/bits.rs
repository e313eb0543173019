//! Values to bits and back, at exactly l bits each: the first value's lowest bit is the first byte's lowest bit.
//!
//! Branches follow the position alone, which is public; no value is looked at.

use super::Vectorized;
use crate::ring::word::Word;

/// Values of at most this many bits lie inside any eight bytes that start with their first byte.
const ONE_LOAD_BITS: u32 = 57;

/// Writes values of `bits` bits each; `bytes` has exactly the length they need.
pub(crate) struct Pack<'a, W> {
    pub(crate) values: &'a [W],
    pub(crate) bits: u32,
    pub(crate) bytes: &'a mut [u8],
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
        for value in values {
            let value = value.widen();
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

/// Reads values of `bits` bits each; `bytes` has exactly the length they need.
pub(crate) struct Unpack<'a, W> {
    pub(crate) bytes: &'a [u8],
    pub(crate) bits: u32,
    pub(crate) values: &'a mut [W],
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
