//! Additive shares: two vectors, each uniform on its own, whose sum is the value.

use std::fmt;

use super::RingError;
use super::vector::{RingVector, on_words};
use super::width::RingWidth;
use super::word::Word;
use crate::random::Generator;
use crate::secret::Wipe;

/// One party's share of a vector of values. It prints nothing, is not copied and is wiped on drop.
#[derive(PartialEq, Eq)]
pub struct Share(RingVector);

impl Share {
    /// Takes values into custody as a share. The caller's own copies are the caller's to wipe.
    pub fn new(values: RingVector) -> Self {
        Self(values)
    }

    /// Uniform values: a mask, or the share of one who has not heard the value yet.
    pub fn random(width: RingWidth, count: usize, generator: &mut Generator) -> Self {
        let mut values = RingVector::zeros(width, count);
        fill_uniform(&mut values, generator);
        Self(values)
    }

    /// Lends the values. Every use is a place a reviewer should look at.
    pub fn expose(&self) -> &RingVector {
        &self.0
    }

    /// Lends the values for writing.
    pub fn expose_mut(&mut self) -> &mut RingVector {
        &mut self.0
    }

    /// The ring.
    pub fn width(&self) -> RingWidth {
        self.0.width()
    }

    /// How many values are shared.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a share of other values: the result is a share of the sums.
    ///
    /// # Errors
    /// When ring or length differ.
    pub fn add(&mut self, other: &Self) -> Result<(), RingError> {
        self.0.add(&other.0)
    }

    /// Subtracts a share of other values: the result is a share of the differences.
    ///
    /// # Errors
    /// When ring or length differ.
    pub fn subtract(&mut self, other: &Self) -> Result<(), RingError> {
        self.0.subtract(&other.0)
    }

    /// Multiplies by `2^shift`; both parties do the same.
    ///
    /// # Errors
    /// When the shift is not below the width.
    pub fn scale(&mut self, shift: u32) -> Result<(), RingError> {
        self.0.scale(shift)
    }

    /// The share modulo a narrower ring; both parties do the same.
    ///
    /// # Errors
    /// When the other ring is wider: that needs the wrap of the sum, which neither party knows.
    pub fn narrowed(&self, width: RingWidth) -> Result<Self, RingError> {
        self.0.narrowed(width).map(Self)
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Share({} values of {})", self.len(), self.width())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// A uniform vector that hides one vector of values once: the client's r at a layer boundary.
///
/// Hiding takes the blind by value, so that no second vector can be hidden by it. What else the client computes
/// from r (its encryption, its own share) borrows it before.
#[derive(PartialEq, Eq)]
pub struct Blind(Share);

impl Blind {
    /// A fresh blind.
    pub fn random(width: RingWidth, count: usize, generator: &mut Generator) -> Self {
        Self(Share::random(width, count, generator))
    }

    /// Lends the values. Every use is a place a reviewer should look at.
    pub fn expose(&self) -> &RingVector {
        self.0.expose()
    }

    /// The values minus the blind, and the blind as the client's share of them: together they are the values.
    ///
    /// # Errors
    /// When ring or length differ; the blind is spent all the same.
    pub fn blind(self, values: &RingVector) -> Result<(RingVector, Share), RingError> {
        let mut blinded = values.clone();
        blinded.subtract(self.expose())?;
        Ok((blinded, self.0))
    }
}

impl fmt::Debug for Blind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Blind({} values of {})", self.0.len(), self.0.width())
    }
}

/// The values behind a blinded vector.
///
/// # Errors
/// When ring or length differ.
pub fn unblind(blinded: &RingVector, blind: &Share) -> Result<RingVector, RingError> {
    let mut values = blinded.clone();
    values.add(&blind.0)?;
    Ok(values)
}

/// Splits values into two shares: the first is uniform, the second what is missing.
pub fn share(values: &RingVector, generator: &mut Generator) -> (Share, Share) {
    let random = Share::random(values.width(), values.len(), generator);
    let mut missing = Share::new(values.clone());
    missing.0.subtract(&random.0).expect("both vectors have the ring and length of the values");
    (random, missing)
}

/// Adds two shares up to the values.
///
/// # Errors
/// When ring or length differ.
pub fn combine(first: &Share, second: &Share) -> Result<RingVector, RingError> {
    let mut values = first.0.clone();
    values.add(&second.0)?;
    Ok(values)
}

fn fill_uniform(values: &mut RingVector, generator: &mut Generator) {
    let mask = values.width().mask();
    on_words!(values.words_mut(), words => fill_words(words, mask, generator));
}

fn fill_words<W: Word>(words: &mut [W], mask: u64, generator: &mut Generator) {
    let mut buffer = [0; 4096];
    let size = size_of::<W>();
    for chunk in words.chunks_mut(buffer.len() / size) {
        let bytes = &mut buffer[..size_of_val(chunk)];
        generator.fill(bytes);
        for (word, bytes) in chunk.iter_mut().zip(bytes.chunks_exact(size)) {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(bytes);
            *word = W::wrap(u64::from_le_bytes(wide) & mask);
        }
    }
    buffer.wipe();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn shares_of_every_width_combine_to_the_values() {
        let mut generator = Seed::from_bytes([3; 32]).generator();
        for bits in 1..=64 {
            let width = RingWidth::new(bits).unwrap();
            let unreduced: Vec<u64> = (0..1500).map(|_| generator.next_u64()).collect();
            let values = RingVector::from_unsigned(width, &unreduced);
            let (first, second) = share(&values, &mut generator);
            assert_eq!(combine(&first, &second).unwrap(), values);
        }
    }

    #[test]
    fn each_share_alone_covers_the_ring_evenly() {
        let width = RingWidth::new(3).unwrap();
        let mut generator = Seed::from_bytes([4; 32]).generator();
        let (first, second) = share(&RingVector::from_unsigned(width, &[5; 80_000]), &mut generator);
        for one in [first, second] {
            let mut counts = [0_i32; 8];
            one.expose().iter().for_each(|value| counts[value as usize] += 1);
            // Ten thousand each; six standard deviations are 561.
            assert!(counts.iter().all(|count| (count - 10_000).abs() < 561), "{counts:?}");
        }
    }

    #[test]
    fn random_shares_use_every_bit_of_wide_rings() {
        let mut generator = Seed::from_bytes([5; 32]).generator();
        for bits in [31, 32, 33, 64] {
            let width = RingWidth::new(bits).unwrap();
            let random = Share::random(width, 3000, &mut generator);
            assert_eq!(random.expose().iter().fold(0, |seen, value| seen | value), width.mask());
            assert_eq!(random.expose().iter().fold(u64::MAX, |seen, value| seen & value), 0);
        }
    }

    #[test]
    fn linear_steps_on_both_shares_are_steps_on_the_values() {
        let mut generator = Seed::from_bytes([6; 32]).generator();
        let width = RingWidth::new(24).unwrap();
        let values = RingVector::from_signed(width, &[-7, 0, 1, 1 << 20]);
        let (mut first, mut second) = share(&values, &mut generator);
        let (one, other) = share(&RingVector::from_signed(width, &[1, 2, 3, 4]), &mut generator);
        first.scale(2).unwrap();
        second.scale(2).unwrap();
        first.add(&one).unwrap();
        second.add(&other).unwrap();
        assert_eq!(combine(&first, &second).unwrap().to_signed(), [-27, 2, 7, (1 << 22) + 4]);
        first.subtract(&one).unwrap();
        second.subtract(&other).unwrap();
        let narrower = RingWidth::new(23).unwrap();
        let narrow =
            combine(&first.narrowed(narrower).unwrap(), &second.narrowed(narrower).unwrap()).unwrap();
        assert_eq!(narrow.to_signed(), [-28, 0, 4, -(1 << 22)]);
    }

    #[test]
    fn a_blind_hides_once_and_stays_as_a_share() {
        let mut generator = Seed::from_bytes([7; 32]).generator();
        let width = RingWidth::new(20).unwrap();
        let values = RingVector::from_signed(width, &[-3, 0, 9]);
        let blind = Blind::random(width, 3, &mut generator);
        let known = blind.expose().clone();
        let (blinded, share) = blind.blind(&values).unwrap();
        assert_ne!(blinded, values);
        assert_eq!(share.expose(), &known);
        assert_eq!(unblind(&blinded, &share).unwrap(), values);
        let other = Blind::random(width, 4, &mut generator);
        assert_eq!(format!("{other:?}"), "Blind(4 values of 20 bits)");
        assert_eq!(other.blind(&values).unwrap_err(), RingError::LengthMismatch { expected: 3, found: 4 });
    }

    #[test]
    fn shares_of_different_rings_do_not_combine() {
        let zeros = |bits, count| Share::new(RingVector::zeros(RingWidth::new(bits).unwrap(), count));
        assert!(matches!(combine(&zeros(20, 1), &zeros(21, 1)), Err(RingError::WidthMismatch { .. })));
        assert!(matches!(combine(&zeros(20, 1), &zeros(20, 2)), Err(RingError::LengthMismatch { .. })));
    }

    #[test]
    fn a_share_prints_its_size_alone() {
        let share = Share::new(RingVector::from_unsigned(RingWidth::new(32).unwrap(), &[77]));
        assert_eq!(format!("{share:?}"), "Share(1 values of 32 bits)");
    }
}
