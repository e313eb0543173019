//! Values cut into digits, and the digits of neighboring channels put into one word.
//!
//! Bytes are plain: x = sum of d_i 2^(8i) with 0 <= d_i < 256. Halves are balanced, because the processor multiplies
//! signed halves only: with B = 2^15 (1 + 2^16 + 2^32 + 2^48), the 16-bit pieces of (x + B) xor B, read as signed
//! integers, are digits of x modulo 2^64. Balanced 8-bit digits come from the same formula with 2^7 and 2^8.

use super::dot::WordForm;
use super::{Vectorized, vectorized};
use crate::cpu::CpuFeatures;
use crate::ring::word::Word;

/// Added before a value is cut into balanced 16-bit digits, and removed digit by digit.
const HALF_BALANCE: u64 = 0x8000_8000_8000_8000;

/// The same for balanced 8-bit digits.
const BYTE_BALANCE: u64 = 0x8080_8080_8080_8080;

/// Cuts one row of up to four channels; the digits of neighboring values go `pixel` words apart.
pub(crate) struct CutRow<'a, W> {
    pub(crate) form: WordForm,
    pub(crate) digit_bits: u32,
    pub(crate) digits: usize,
    /// Four rows of one length; two channels' words leave out the last two.
    pub(crate) rows: [&'a [W]; 4],
    pub(crate) target: &'a mut [u32],
    pub(crate) pixel: usize,
}

impl<W: Word> CutRow<'_, W> {
    /// Writes the digits.
    pub(crate) fn cut(self, features: CpuFeatures) {
        #[cfg(target_arch = "x86_64")]
        if features.avx512 && self.form == WordForm::Bytes && W::BITS == 32 {
            let rows = self.rows.map(|row| W::narrow(row).expect("32-bit words are narrow"));
            // SAFETY: `avx512` is set only where F, BW and VL were detected.
            return unsafe { avx512::cut_bytes(rows, self.digits, self.target, self.pixel) };
        }
        vectorized(features, self);
    }

    #[inline(always)]
    fn each(self, word: impl Fn([W; 4], u32) -> u64) {
        let [first, second, third, fourth] = self.rows;
        let length = first.len();
        let (second, third, fourth) = (&second[..length], &third[..length], &fourth[..length]);
        for (column, target) in self.target.chunks_mut(self.pixel).take(length).enumerate() {
            let values = [first[column], second[column], third[column], fourth[column]];
            for (digit, target) in target[..self.digits].iter_mut().enumerate() {
                *target = word(values, digit as u32 * self.digit_bits) as u32;
            }
        }
    }
}

impl<W: Word> Vectorized for CutRow<'_, W> {
    #[inline(always)]
    fn run(self) {
        match (self.form, self.digit_bits) {
            (WordForm::Bytes, _) => self.each(|values, bits| {
                let byte = |value: W| value.widen() >> bits & 0xff;
                byte(values[0]) | byte(values[1]) << 8 | byte(values[2]) << 16 | byte(values[3]) << 24
            }),
            (WordForm::Halves, 16) => self.each(|values, bits| {
                let half =
                    |value: W| (value.widen().wrapping_add(HALF_BALANCE) ^ HALF_BALANCE) >> bits & 0xffff;
                half(values[0]) | half(values[1]) << 16
            }),
            (WordForm::Halves, _) => self.each(|values, bits| {
                let half = |value: W| {
                    let digit = (value.widen().wrapping_add(BYTE_BALANCE) ^ BYTE_BALANCE) >> bits;
                    u64::from(i16::from(digit as i8).cast_unsigned())
                };
                half(values[0]) | half(values[1]) << 16
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        _mm_mask_storeu_epi32, _mm_maskz_loadu_epi32, _mm_setr_epi8, _mm_shuffle_epi8, _mm_unpackhi_epi32,
        _mm_unpackhi_epi64, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Cuts rows of 32-bit values into bytes, four columns at a time: a transposition of words, then one of bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) fn cut_bytes(rows: [&[u32]; 4], digits: usize, target: &mut [u32], pixel: usize) {
        let length = rows[0].len();
        assert!(rows.iter().all(|row| row.len() == length) && (1..=4).contains(&digits));
        let last = length.saturating_sub(1).checked_mul(pixel).and_then(|last| last.checked_add(digits));
        assert!(
            last.is_some_and(|last| last <= target.len()),
            "the last column's digits lie inside the target"
        );
        let stored = (1 << digits) - 1;
        let by_digit = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        for column in (0..length).step_by(4) {
            let count = (length - column).min(4);
            // SAFETY: only the lanes below `count` are read, and column + count <= length.
            let [a, b, c, d] = rows.map(|row| unsafe {
                _mm_maskz_loadu_epi32((1 << count) - 1, row.as_ptr().add(column).cast())
            });
            let (first_low, first_high) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (second_low, second_high) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            let columns = [
                _mm_unpacklo_epi64(first_low, second_low),
                _mm_unpackhi_epi64(first_low, second_low),
                _mm_unpacklo_epi64(first_high, second_high),
                _mm_unpackhi_epi64(first_high, second_high),
            ];
            for (place, values) in columns.into_iter().enumerate().take(count) {
                let words = _mm_shuffle_epi8(values, by_digit);
                // SAFETY: the first `digits` words at column * pixel lie inside the target, up to the last column.
                unsafe {
                    let target = target.as_mut_ptr().add((column + place) * pixel);
                    _mm_mask_storeu_epi32(target.cast(), stored, words);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::kernel::levels;
    use proptest::prelude::*;

    fn cut<W: Word>(
        rows: &[Vec<W>; 4],
        form: WordForm,
        digit_bits: u32,
        digits: usize,
        pixel: usize,
        features: CpuFeatures,
    ) -> Vec<u32> {
        let mut target = vec![0xdead_beef; rows[0].len().saturating_sub(1) * pixel + digits];
        let rows = std::array::from_fn(|row| &rows[row][..]);
        CutRow { form, digit_bits, digits, rows, target: &mut target, pixel }.cut(features);
        target
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]
        #[test]
        fn every_level_cuts_as_the_twin_and_the_digits_make_up_the_value(
            length in 0_usize..40,
            extra in 0_usize..4,
            seed in any::<u8>(),
        ) {
            let mut generator = crate::random::Seed::from_bytes([seed; 32]).generator();
            let wide: [Vec<u64>; 4] = std::array::from_fn(|_| (0..length).map(|_| generator.next_u64()).collect());
            let narrow = wide.clone().map(|row| row.into_iter().map(|value| value as u32).collect::<Vec<_>>());
            for (form, digit_bits) in [(WordForm::Bytes, 8), (WordForm::Halves, 16), (WordForm::Halves, 8)] {
                for digits in 1..=64 / digit_bits as usize {
                    let pixel = digits + extra;
                    let expected = cut(&wide, form, digit_bits, digits, pixel, CpuFeatures::PORTABLE);
                    for features in levels() {
                        prop_assert_eq!(&cut(&wide, form, digit_bits, digits, pixel, features), &expected);
                        if digits as u32 * digit_bits <= 32 {
                            prop_assert_eq!(&cut(&narrow, form, digit_bits, digits, pixel, features), &expected);
                        }
                    }
                    for (column, words) in expected.chunks(pixel).enumerate().take(length) {
                        let value = words[..digits].iter().rev().fold(0_u64, |value, &word| {
                            let digit = if form == WordForm::Bytes { i64::from(word as u8) } else { i64::from(word as i16) };
                            (value << digit_bits).wrapping_add(digit.cast_unsigned())
                        });
                        let mask = u64::MAX >> (64 - digits as u32 * digit_bits);
                        prop_assert_eq!(value & mask, wide[0][column] & mask);
                    }
                }
            }
        }
    }
}
