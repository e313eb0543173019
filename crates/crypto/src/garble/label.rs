//! Wire labels, the free-XOR offset between the two labels of a wire, and where a server's fresh labels come
//! from.

use std::fmt;

use zeroize::{DefaultIsZeroes, Zeroize};

use super::error::GarbleError;
use super::kernel::{Kernel, KeyBatch};
use crate::random::Generator;
use crate::secret::Secret;

/// The random string that stands for a bit on a wire. Its lowest bit is its color.
///
/// A wire has a zero label and a one label, which differ by the [`Offset`]. The color of the zero label is
/// the wire's permute bit; whoever lacks it learns nothing from a color.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct WireLabel(pub(super) u128);

impl WireLabel {
    /// Length of a label in bytes.
    pub const BYTES: usize = 16;

    /// The label with these bytes, lowest first.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// The bytes of the label, lowest first.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The lowest bit.
    pub fn color(self) -> bool {
        self.0 & 1 == 1
    }

    /// The label of `bit` on the wire whose zero label this is, chosen without a branch.
    #[must_use]
    pub fn for_bit(self, bit: bool, offset: &Offset) -> Self {
        Self(self.0 ^ (u128::from(bit).wrapping_neg() & offset.expose()))
    }
}

impl From<u128> for WireLabel {
    fn from(value: u128) -> Self {
        Self(value)
    }
}

impl From<WireLabel> for u128 {
    fn from(label: WireLabel) -> Self {
        label.0
    }
}

impl DefaultIsZeroes for WireLabel {}

impl fmt::Debug for WireLabel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WireLabel(..)")
    }
}

/// The difference of the two labels of every wire of a session; its lowest bit is one. Known to the server
/// only.
#[derive(Debug)]
pub struct Offset(Secret<u128>);

impl Offset {
    /// The offset of an OT extension, given by its bits.
    ///
    /// # Errors
    /// When the lowest bit is zero: colors would then not tell two labels apart.
    pub fn new(bits: u128) -> Result<Self, GarbleError> {
        if bits & 1 == 0 {
            return Err(GarbleError::EvenOffset);
        }
        Ok(Self(Secret::new(bits)))
    }

    /// A fresh uniform offset.
    pub fn random(generator: &mut Generator) -> Self {
        Self(Secret::new(generator.next_u128() | 1))
    }

    /// The bits, for the OT extension that shares the offset and for the kernels.
    pub fn expose(&self) -> u128 {
        *self.0.expose()
    }
}

/// What the zero labels of a server's own input wires are expanded from: 32 bytes in place of 16 for every
/// wire.
///
/// Label j is AES_k(n xor j) with a secret key k and a secret nonce n of 128 bits each, so a guess of k
/// cannot be tried against many chunks at once, and no two labels of a chunk are equal. Colors are uniform,
/// as the permute bits of server inputs must be.
#[derive(Debug)]
pub struct LabelSeed(Secret<[u128; 2]>);

impl LabelSeed {
    /// Length of the seed in bytes.
    pub const BYTES: usize = 32;

    /// A fresh seed.
    pub fn random(generator: &mut Generator) -> Self {
        Self(Secret::new([generator.next_u128(), generator.next_u128()]))
    }

    pub(super) fn expand(&self, kernel: Kernel, labels: &mut [u128]) {
        let [key, nonce] = *self.0.expose();
        let mut keys = KeyBatch::default();
        kernel.expand(key, 0, &mut keys);
        kernel.keystream(&keys, nonce, labels);
        keys.zeroize();
    }

    pub(super) fn to_bytes(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (target, word) in bytes.chunks_exact_mut(16).zip(self.0.expose()) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Self {
        let (words, _) = bytes.as_chunks::<16>();
        Self(Secret::new([u128::from_le_bytes(words[0]), u128::from_le_bytes(words[1])]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuFeatures;
    use crate::random::Seed;

    fn generator() -> Generator {
        Seed::from_bytes([3; 32]).generator()
    }

    #[test]
    fn an_even_offset_is_refused() {
        assert!(matches!(Offset::new(2), Err(GarbleError::EvenOffset)));
        assert!(Offset::new(3).is_ok());
        assert_eq!(Offset::random(&mut generator()).expose() & 1, 1);
    }

    #[test]
    fn the_two_labels_of_a_wire_differ_in_color() {
        let offset = Offset::random(&mut generator());
        let zero = WireLabel::from(12345);
        assert_eq!(zero.for_bit(false, &offset).to_bytes(), zero.to_bytes());
        assert_ne!(zero.for_bit(true, &offset).color(), zero.color());
    }

    #[test]
    fn labels_and_offsets_print_nothing() {
        assert_eq!(format!("{:?}", WireLabel::from(7)), "WireLabel(..)");
        assert_eq!(format!("{:?}", Offset::random(&mut generator())), "Offset(Secret(..))");
    }

    #[test]
    fn expanded_labels_are_distinct_and_their_colors_balanced() {
        let seed = LabelSeed::random(&mut generator());
        let mut labels = vec![0_u128; 1 << 14];
        seed.expand(Kernel::for_cpu(CpuFeatures::available()), &mut labels);
        let ones = labels.iter().filter(|label| *label & 1 == 1).count();
        // Seven standard deviations of a fair coin around the mean.
        assert!(ones.abs_diff(1 << 13) < 7 * 64, "{ones} colors of {} are one", labels.len());
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), 1 << 14);
    }

    #[test]
    fn a_seed_survives_its_bytes() {
        let seed = LabelSeed::random(&mut generator());
        assert_eq!(LabelSeed::from_bytes(&seed.to_bytes()).to_bytes(), seed.to_bytes());
    }
}
