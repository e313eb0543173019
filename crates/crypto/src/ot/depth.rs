//! How deep the trees of an extension are: fewer bytes on the wire against more AES on both sides.

use crate::ot::base::BASE_TRANSFERS;

/// From this rate on the bytes that a deeper tree saves take less time than its cipher blocks.
const RATE_OF_SHALLOW: u64 = 340_000_000;

/// The depth of the trees, which is also how many bits of the offset one tree carries. Both parties know it when the
/// setup begins, and all lengths follow from it.
///
/// A deeper tree costs fewer bytes per transfer and more cipher blocks; it is as safe as a shallow one. Which of the
/// two is faster depends on the rate at which the receiver's bytes leave, see
/// `docs/src/security/oblivious-transfer.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Depth {
    /// 32 trees of 16 leaves: four bytes and four cipher blocks per transfer, for fast links.
    #[default]
    Four,
    /// 16 trees of 256 leaves: two bytes and 32 cipher blocks per transfer, for slow links.
    Eight,
}

impl Depth {
    /// Both, the shallow one first.
    pub const ALL: [Self; 2] = [Self::Four, Self::Eight];

    /// The faster one where the receiver sends so many bits a second, on one thread a side: see the table in the docs.
    pub const fn for_rate(bits_per_second: u64) -> Self {
        if bits_per_second < RATE_OF_SHALLOW { Self::Eight } else { Self::Four }
    }

    /// The depth with trees that carry so many bits of the offset.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }

    /// Bits of the offset that one tree carries.
    pub const fn bits(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// Trees of one extension: bits on the wire per transfer.
    pub const fn trees(self) -> usize {
        BASE_TRANSFERS / self.bits()
    }

    /// Leaves of one tree.
    pub const fn leaves(self) -> usize {
        1 << self.bits()
    }
}

impl std::fmt::Display for Depth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_carry_the_offset_once() {
        for (depth, trees, leaves) in [(Depth::Four, 32, 16), (Depth::Eight, 16, 256)] {
            assert_eq!((depth.trees(), depth.leaves()), (trees, leaves));
            assert_eq!(depth.trees() * depth.bits(), BASE_TRANSFERS);
            assert_eq!(depth.to_string(), depth.bits().to_string());
        }
        assert_eq!(Depth::ALL[0], Depth::default());
        assert_eq!(
            (Depth::for_rate(100_000_000), Depth::for_rate(1_000_000_000)),
            (Depth::Eight, Depth::Four)
        );
        assert_eq!([4, 8, 5].map(Depth::from_bits), [Some(Depth::Four), Some(Depth::Eight), None]);
    }
}
