//! The two machine words that ring values are held in.

use std::ops::BitAnd;

use zeroize::DefaultIsZeroes;

/// `u32` for rings of at most 32 bits, `u64` for wider ones.
pub(crate) trait Word: Copy + DefaultIsZeroes + BitAnd<Output = Self> {
    /// Bits of the word.
    const BITS: u32;
    /// The word congruent to the integer.
    fn wrap(value: u64) -> Self;
    /// The word as an integer.
    fn widen(self) -> u64;
    /// The word congruent to a signed integer.
    fn wrap_signed(value: i32) -> Self;
    /// The sum modulo the word's range.
    fn plus(self, other: Self) -> Self;
    /// The difference modulo the word's range.
    fn minus(self, other: Self) -> Self;
    /// The product modulo the word's range.
    fn times(self, other: Self) -> Self;
    /// Shift towards the high bits; `bits` below the word's.
    fn shift_up(self, bits: u32) -> Self;
    /// Shift towards the low bits, filled with the sign; `bits` below the word's.
    fn shift_down_signed(self, bits: u32) -> Self;
    /// The slice as 32-bit words, if that is what it holds: kernels exist for those alone.
    fn narrow(values: &[Self]) -> Option<&[u32]>;
}

macro_rules! word {
    ($word:ty, $signed:ty, $values:ident => $narrow:expr) => {
        impl Word for $word {
            const BITS: u32 = <$word>::BITS;

            #[inline(always)]
            fn wrap(value: u64) -> Self {
                value as $word
            }

            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn wrap_signed(value: i32) -> Self {
                <$signed>::from(value).cast_unsigned()
            }

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            #[inline(always)]
            fn shift_up(self, bits: u32) -> Self {
                self << bits
            }

            #[inline(always)]
            fn shift_down_signed(self, bits: u32) -> Self {
                (self.cast_signed() >> bits).cast_unsigned()
            }

            #[inline(always)]
            fn narrow($values: &[Self]) -> Option<&[u32]> {
                $narrow
            }
        }
    };
}

word!(u32, i32, values => Some(values));
word!(u64, i64, _values => None);
