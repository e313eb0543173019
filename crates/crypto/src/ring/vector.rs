//! Vectors of ring values, held in words of 32 or 64 bits.

use std::borrow::Borrow;
use std::fmt;

use subtle::ConstantTimeEq;

use super::RingError;
use super::kernel::bits;
use super::kernel::elementwise::{Change, Combine, Pairwise, Replace, ShiftPlanes};
use super::kernel::vectorized;
use super::width::RingWidth;
use super::word::Word;
use crate::cpu::CpuFeatures;
use crate::secret::Wipe;

/// Values of one ring, each reduced to `0..2^l`; 32-bit words for l up to 32, 64-bit words above.
///
/// The type says nothing about who may know the values: [`super::Share`] wipes them. Neither prints them, and
/// equality takes the same time wherever two vectors differ.
#[derive(Clone)]
pub struct RingVector {
    width: RingWidth,
    words: Words,
}

/// The storage: which variant is a function of the width.
#[derive(Clone)]
pub(crate) enum Words {
    Narrow(Vec<u32>),
    Wide(Vec<u64>),
}

/// Runs the same expression on whichever words a vector holds.
macro_rules! on_words {
    ($words:expr, $values:ident => $body:expr) => {
        match $words {
            $crate::ring::vector::Words::Narrow($values) => $body,
            $crate::ring::vector::Words::Wide($values) => $body,
        }
    };
}
pub(crate) use on_words;

impl RingVector {
    /// That many zeros.
    pub fn zeros(width: RingWidth, count: usize) -> Self {
        let words =
            if width.is_narrow() { Words::Narrow(vec![0; count]) } else { Words::Wide(vec![0; count]) };
        Self { width, words }
    }

    /// The representatives of unsigned integers.
    pub fn from_unsigned(width: RingWidth, values: &[u64]) -> Self {
        let words = if width.is_narrow() {
            Words::Narrow(values.iter().map(|&value| width.reduce(value) as u32).collect())
        } else {
            Words::Wide(values.iter().map(|&value| width.reduce(value)).collect())
        };
        Self { width, words }
    }

    /// The representatives of signed integers.
    pub fn from_signed(width: RingWidth, values: &[i64]) -> Self {
        let words = if width.is_narrow() {
            Words::Narrow(values.iter().map(|&value| width.from_signed(value) as u32).collect())
        } else {
            Words::Wide(values.iter().map(|&value| width.from_signed(value)).collect())
        };
        Self { width, words }
    }

    /// The ring.
    pub fn width(&self) -> RingWidth {
        self.width
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        on_words!(&self.words, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The representative of one value.
    pub fn get(&self, index: usize) -> Option<u64> {
        on_words!(&self.words, values => values.get(index).map(|value| value.widen()))
    }

    /// The representatives, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).map(|index| on_words!(&self.words, values => values[index].widen()))
    }

    /// The representatives in 64-bit words.
    pub fn to_unsigned(&self) -> Vec<u64> {
        on_words!(&self.words, values => values.iter().map(|value| value.widen()).collect())
    }

    /// The values as signed integers.
    pub fn to_signed(&self) -> Vec<i64> {
        on_words!(&self.words, values => values.iter().map(|value| self.width.to_signed(value.widen())).collect())
    }

    pub(crate) fn words(&self) -> &Words {
        &self.words
    }

    pub(crate) fn words_mut(&mut self) -> &mut Words {
        &mut self.words
    }

    /// Adds another vector, value by value.
    ///
    /// # Errors
    /// When ring or length differ.
    pub fn add(&mut self, other: &Self) -> Result<(), RingError> {
        self.combine_with(other, Pairwise::Add, CpuFeatures::available())
    }

    /// Subtracts another vector, value by value.
    ///
    /// # Errors
    /// When ring or length differ.
    pub fn subtract(&mut self, other: &Self) -> Result<(), RingError> {
        self.combine_with(other, Pairwise::Subtract, CpuFeatures::available())
    }

    /// Replaces each value by its negative.
    pub fn negate(&mut self) {
        self.replace(Change::Negate, CpuFeatures::available());
    }

    /// Multiplies each value by `2^shift`: how a skip connection meets the scale of a product.
    ///
    /// # Errors
    /// When the shift is not below the width.
    pub fn scale(&mut self, shift: u32) -> Result<(), RingError> {
        self.check_shift(shift)?;
        self.replace(Change::ShiftUp(shift), CpuFeatures::available());
        Ok(())
    }

    /// Multiplies each plane by its own `2^shift` and adds its own number to all of it: how the channels of a layer meet.
    ///
    /// # Errors
    /// When a shift is not below the width, or the values are not so many equal planes.
    pub fn shift_planes(&mut self, planes: &[(u32, i64)]) -> Result<(), RingError> {
        for (shift, _) in planes {
            self.check_shift(*shift)?;
        }
        if planes.is_empty() || !self.len().is_multiple_of(planes.len()) {
            return Err(RingError::NotWholeGroups { groups: planes.len(), found: self.len() });
        }
        let (width, mask) = (self.width, self.width.mask());
        on_words!(&mut self.words, values => {
            let planes: Vec<_> =
                planes.iter().map(|(shift, addend)| (*shift, Word::wrap(width.from_signed(*addend)))).collect();
            let work = ShiftPlanes { values, planes: &planes, mask: Word::wrap(mask) };
            vectorized(CpuFeatures::available(), work);
        });
        Ok(())
    }

    /// The values at the given places, in 64-bit words.
    ///
    /// # Panics
    /// When a place lies behind the end.
    pub fn at(&self, places: &[u32]) -> Vec<u64> {
        on_words!(&self.words, values => places.iter().map(|place| values[*place as usize].widen()).collect())
    }

    /// Divides each signed value by `2^shift`, rounding down. Exact on values; on shares it loses their carry.
    ///
    /// # Errors
    /// When the shift is not below the width.
    pub fn truncate(&mut self, shift: u32) -> Result<(), RingError> {
        self.check_shift(shift)?;
        self.replace(Change::ShiftDownSigned(shift), CpuFeatures::available());
        Ok(())
    }

    /// The values modulo the narrower ring: shares of a value become shares of its remainder.
    ///
    /// # Errors
    /// When the other ring is wider.
    pub fn narrowed(&self, width: RingWidth) -> Result<Self, RingError> {
        if width > self.width {
            return Err(RingError::Widening { from: self.width, to: width });
        }
        Ok(self.resized(width, 0))
    }

    /// The values without their `dropped` lowest bits, in the ring that is narrower by as many.
    ///
    /// # Errors
    /// When no bit would be left.
    pub fn without_low_bits(&self, dropped: u32) -> Result<Self, RingError> {
        self.check_shift(dropped)?;
        let width = RingWidth::new(self.width.bits() - dropped).expect("a checked shift leaves a bit");
        Ok(self.resized(width, dropped))
    }

    fn resized(&self, width: RingWidth, dropped: u32) -> Self {
        let mask = width.mask();
        let words = match &self.words {
            Words::Narrow(values) => {
                Words::Narrow(values.iter().map(|value| value >> dropped & mask as u32).collect())
            }
            Words::Wide(values) if width.is_narrow() => {
                Words::Narrow(values.iter().map(|value| (value >> dropped & mask) as u32).collect())
            }
            Words::Wide(values) => Words::Wide(values.iter().map(|value| value >> dropped & mask).collect()),
        };
        Self { width, words }
    }

    /// The values at exactly l bits each, lowest bit first, the last byte filled up with zeros.
    pub fn to_bytes(&self) -> Vec<u8> {
        let length =
            self.width.packed_bytes(self.len()).expect("values take no more bytes packed than in words");
        let mut bytes = vec![0; length];
        self.pack_into(&mut bytes, CpuFeatures::available());
        bytes
    }

    /// Reads `count` values from the bytes that [`RingVector::to_bytes`] makes of them, and from no others.
    ///
    /// # Errors
    /// When the length is not the one that `count` values have, or the last byte's unused bits are not zero.
    /// Nothing is allocated before both are known.
    pub fn from_bytes(width: RingWidth, count: usize, bytes: &[u8]) -> Result<Self, UnpackError> {
        let expected = width.packed_bytes(count).ok_or(UnpackError::CountTooLarge { width, count })?;
        if bytes.len() != expected {
            return Err(UnpackError::Length { width, count, expected, sent: bytes.len() });
        }
        let used = (count % 8 * width.bits() as usize % 8) as u32;
        let last = bytes.last().copied().unwrap_or(0);
        if used != 0 && last >> used != 0 {
            return Err(UnpackError::Padding { unused_bits: 8 - used, last_byte: last });
        }
        let mut vector = Self::zeros(width, count);
        vector.unpack_from(bytes, CpuFeatures::available());
        Ok(vector)
    }

    /// The vectors one after the other.
    ///
    /// # Errors
    /// When one of them lives in another ring.
    pub fn concatenate(width: RingWidth, parts: &[impl Borrow<Self>]) -> Result<Self, RingError> {
        Self::interleave(width, parts, 1)
    }

    /// Vectors of equally many groups, joined group by group: the first groups of all, then the second ones.
    ///
    /// # Errors
    /// When one of them lives in another ring, or is not so many groups of one length.
    pub fn interleave(
        width: RingWidth,
        parts: &[impl Borrow<Self>],
        groups: usize,
    ) -> Result<Self, RingError> {
        for part in parts.iter().map(Borrow::borrow) {
            if part.width != width {
                return Err(RingError::WidthMismatch { expected: width, found: part.width });
            }
            if groups == 0 || !part.len().is_multiple_of(groups) {
                return Err(RingError::NotWholeGroups { groups, found: part.len() });
            }
        }
        let mut whole = Self::zeros(width, parts.iter().map(|part| part.borrow().len()).sum());
        let mut start = 0;
        for group in 0..groups {
            for part in parts.iter().map(Borrow::borrow) {
                let length = part.len() / groups;
                let (to, from) = (start..start + length, group * length..(group + 1) * length);
                match (&mut whole.words, &part.words) {
                    (Words::Narrow(all), Words::Narrow(some)) => all[to].copy_from_slice(&some[from]),
                    (Words::Wide(all), Words::Wide(some)) => all[to].copy_from_slice(&some[from]),
                    _ => unreachable!("the storage follows from the width"),
                }
                start += length;
            }
        }
        Ok(whole)
    }

    fn pack_into(&self, bytes: &mut [u8], features: CpuFeatures) {
        on_words!(&self.words, values => bits::pack(values, self.width.bits(), bytes, features));
    }

    fn unpack_from(&mut self, bytes: &[u8], features: CpuFeatures) {
        on_words!(&mut self.words, values => bits::unpack(bytes, self.width.bits(), values, features));
    }

    fn combine_with(
        &mut self,
        other: &Self,
        operation: Pairwise,
        features: CpuFeatures,
    ) -> Result<(), RingError> {
        if self.width != other.width {
            return Err(RingError::WidthMismatch { expected: self.width, found: other.width });
        }
        if self.len() != other.len() {
            return Err(RingError::LengthMismatch { expected: self.len(), found: other.len() });
        }
        let mask = self.width.mask();
        match (&mut self.words, &other.words) {
            (Words::Narrow(left), Words::Narrow(right)) => {
                vectorized(features, Combine { operation, left, right, mask: mask as u32 });
            }
            (Words::Wide(left), Words::Wide(right)) => {
                vectorized(features, Combine { operation, left, right, mask });
            }
            _ => unreachable!("the storage follows from the width"),
        }
        Ok(())
    }

    fn replace(&mut self, change: Change, features: CpuFeatures) {
        let (mask, bits) = (self.width.mask(), self.width.bits());
        on_words!(&mut self.words, values => {
            vectorized(features, Replace { change, values, mask: Word::wrap(mask), bits });
        });
    }

    fn check_shift(&self, shift: u32) -> Result<(), RingError> {
        if shift < self.width.bits() { Ok(()) } else { Err(RingError::Shift { shift, width: self.width }) }
    }
}

impl fmt::Debug for RingVector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RingVector({} values of {})", self.len(), self.width)
    }
}

impl PartialEq for RingVector {
    fn eq(&self, other: &Self) -> bool {
        self.width == other.width
            && match (&self.words, &other.words) {
                (Words::Narrow(left), Words::Narrow(right)) => left.ct_eq(right).into(),
                (Words::Wide(left), Words::Wide(right)) => left.ct_eq(right).into(),
                _ => false,
            }
    }
}

impl Eq for RingVector {}

impl Wipe for RingVector {
    fn wipe(&mut self) {
        on_words!(&mut self.words, values => values.as_mut_slice().wipe());
    }
}

/// Bytes that are not the packed form of the values expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The message is too short or too long.
    #[error("{count} values of {width} take {expected} bytes, the peer sent {sent}")]
    Length {
        /// The ring.
        width: RingWidth,
        /// The values expected.
        count: usize,
        /// The bytes they take.
        expected: usize,
        /// The bytes that came.
        sent: usize,
    },
    /// The unused bits of the last byte are not zero.
    #[error("the {unused_bits} unused bits of the last byte must be zero, the byte is {last_byte:#04x}")]
    Padding {
        /// How many of its bits hold no value.
        unused_bits: u32,
        /// The byte that came.
        last_byte: u8,
    },
    /// No message could hold that many values.
    #[error("{count} values of {width} do not fit the address space")]
    CountTooLarge {
        /// The ring.
        width: RingWidth,
        /// The values expected.
        count: usize,
    },
}

#[cfg(test)]
mod tests;
