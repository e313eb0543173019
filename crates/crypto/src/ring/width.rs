//! The width l of a ring Z_2^l, and single values in it.

/// The largest width: values are held in 64-bit words.
const MAXIMUM_BITS: u32 = 64;

/// The bits l of a ring Z_2^l, from 1 to 64.
///
/// A value is held as its representative in `0..2^l`; read as a signed integer, the upper half is negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingWidth(u32);

impl RingWidth {
    /// The ring of that many bits.
    ///
    /// # Errors
    /// When the bits are not in 1..=64.
    pub const fn new(bits: u32) -> Result<Self, WidthOutOfRange> {
        if bits == 0 || bits > MAXIMUM_BITS { Err(WidthOutOfRange { bits }) } else { Ok(Self(bits)) }
    }

    /// The bits l.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The largest representative, 2^l - 1.
    pub const fn mask(self) -> u64 {
        u64::MAX >> (MAXIMUM_BITS - self.0)
    }

    /// Whether values fit 32-bit words, which is how they are then held.
    pub const fn is_narrow(self) -> bool {
        self.0 <= 32
    }

    /// The representative of an unsigned integer.
    pub const fn reduce(self, value: u64) -> u64 {
        value & self.mask()
    }

    /// The representative of a signed integer.
    pub const fn from_signed(self, value: i64) -> u64 {
        self.reduce(value.cast_unsigned())
    }

    /// The signed integer in `-2^(l-1)..2^(l-1)` that a representative stands for.
    pub const fn to_signed(self, value: u64) -> i64 {
        let unused = MAXIMUM_BITS - self.0;
        (value << unused).cast_signed() >> unused
    }

    /// The bytes that `count` values take at exactly l bits each; `None` when that overflows.
    pub const fn packed_bytes(self, count: usize) -> Option<usize> {
        // Eight values take l bytes, so no product here exceeds the answer by much.
        let whole = match (count / 8).checked_mul(self.0 as usize) {
            Some(whole) => whole,
            None => return None,
        };
        whole.checked_add(((count % 8) * self.0 as usize).div_ceil(8))
    }
}

impl std::fmt::Display for RingWidth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} bits", self.0)
    }
}

/// A width that no ring here has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ring of {bits} bits was asked for; widths go from 1 to 64")]
pub struct WidthOutOfRange {
    /// The bits asked for.
    pub bits: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_from_1_to_64_are_accepted_and_no_others() {
        assert!((1..=64).all(|bits| RingWidth::new(bits).is_ok()));
        for bits in [0, 65, u32::MAX] {
            assert_eq!(RingWidth::new(bits), Err(WidthOutOfRange { bits }));
        }
    }

    #[test]
    fn signed_values_survive_the_ring_and_wrap_at_its_edge() {
        for bits in 1..=64 {
            let width = RingWidth::new(bits).unwrap();
            let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
            for value in [low, low / 2, -1, 0, high / 2, high] {
                if value >= low && value <= high {
                    assert_eq!(width.to_signed(width.from_signed(value)), value, "{bits} bits");
                }
            }
            assert_eq!(width.to_signed(width.from_signed(high.wrapping_add(1))), low);
        }
    }

    #[test]
    fn packed_bytes_round_up_and_notice_overflow() {
        let bytes = |bits, count| RingWidth::new(bits).unwrap().packed_bytes(count);
        assert_eq!(bytes(20, 0), Some(0));
        assert_eq!(bytes(20, 1), Some(3));
        assert_eq!(bytes(20, 2), Some(5));
        assert_eq!(bytes(41, 9), Some(47));
        assert_eq!(bytes(8, usize::MAX), Some(usize::MAX));
        assert_eq!(bytes(9, usize::MAX), None);
    }
}
