//! What the two sides of a correlated transfer hold: the offset, the choices and the labels.

use std::ops::{Deref, DerefMut};

use crate::ot::error::{OtError, OtMessage};
use crate::random::Generator;
use crate::secret::{Secret, Wipe};

/// The sender's secret offset: the two labels of a transfer differ by it. Its lowest bit is 1.
///
/// It is the free-XOR offset of the garbled circuits of the session. The lowest bit of a label is its color,
/// so the two labels of a wire must differ there.
#[derive(Debug)]
pub struct CorrelationOffset(Secret<u128>);

impl CorrelationOffset {
    /// A fresh offset: 127 uniform bits and the lowest bit set.
    pub fn random(generator: &mut Generator) -> Self {
        Self::from_u128(generator.next_u128())
    }

    /// The offset with these upper 127 bits; the lowest bit is forced to 1.
    pub fn from_u128(value: u128) -> Self {
        Self(Secret::new(value | 1))
    }

    /// The value, for the tools that garble with it.
    pub fn expose(&self) -> u128 {
        *self.0.expose()
    }
}

/// One 128-bit label per transfer, wiped on drop.
pub struct Labels(Vec<u128>);

impl Labels {
    /// All-zero labels, to be written over.
    pub(in crate::ot) fn zeroed(count: usize) -> Self {
        Self(vec![0; count])
    }
}

impl From<Vec<u128>> for Labels {
    fn from(labels: Vec<u128>) -> Self {
        Self(labels)
    }
}

impl Deref for Labels {
    type Target = [u128];

    fn deref(&self) -> &[u128] {
        &self.0
    }
}

impl DerefMut for Labels {
    fn deref_mut(&mut self) -> &mut [u128] {
        &mut self.0
    }
}

impl Drop for Labels {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// Secret bits, eight to a byte, lowest bit first: the receiver's choices.
#[derive(Debug)]
pub struct SecretBits {
    count: usize,
    /// Bits beyond `count` are zero.
    packed: Secret<Vec<u8>>,
}

impl SecretBits {
    /// Uniformly random bits.
    pub fn random(count: usize, generator: &mut Generator) -> Self {
        let mut packed = vec![0; count.div_ceil(8)];
        generator.fill(&mut packed);
        clear_padding(count, &mut packed);
        Self { count, packed: Secret::new(packed) }
    }

    /// Packs one bit per item.
    pub fn from_bools(bits: &[bool]) -> Self {
        let mut packed = vec![0; bits.len().div_ceil(8)];
        for (index, &bit) in bits.iter().enumerate() {
            packed[index / 8] |= u8::from(bit) << (index % 8);
        }
        Self { count: bits.len(), packed: Secret::new(packed) }
    }

    /// Takes bits that are packed already; bits beyond `count` are cleared.
    ///
    /// # Errors
    /// [`OtError::ItemCount`] when the bytes are not exactly those of `count` bits.
    pub fn from_packed(count: usize, mut packed: Vec<u8>) -> Result<Self, OtError> {
        if packed.len() != count.div_ceil(8) {
            let given = packed.len().saturating_mul(8);
            packed.wipe();
            return Err(OtError::ItemCount { expected: count, given });
        }
        clear_padding(count, &mut packed);
        Ok(Self { count, packed: Secret::new(packed) })
    }

    /// How many bits there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The packed bytes.
    pub fn expose(&self) -> &[u8] {
        self.packed.expose()
    }

    /// Bit `index` as 0 or 1.
    pub fn bit(&self, index: usize) -> u8 {
        self.packed.expose()[index / 8] >> (index % 8) & 1
    }
}

/// Clears the bits of the last byte that belong to no transfer.
pub(in crate::ot) fn clear_padding(count: usize, packed: &mut [u8]) {
    if let Some(last) = packed.last_mut()
        && !count.is_multiple_of(8)
    {
        *last &= (1 << (count % 8)) - 1;
    }
}

/// Refuses a peer's packed bits when one beyond the last transfer is set.
pub(in crate::ot) fn check_padding(
    message: OtMessage,
    transfers: usize,
    packed: &[u8],
) -> Result<(), OtError> {
    match packed.last() {
        Some(last) if !transfers.is_multiple_of(8) && last >> (transfers % 8) != 0 => {
            Err(OtError::PaddingBits { message, transfers })
        }
        _ => Ok(()),
    }
}

/// Refuses a peer's message of another length than the plan's.
pub(in crate::ot) fn check_length(message: OtMessage, expected: usize, sent: usize) -> Result<(), OtError> {
    if sent == expected { Ok(()) } else { Err(OtError::MessageLength { message, expected, sent }) }
}

/// Refuses a caller's items that do not match the chunk.
pub(in crate::ot) fn check_count(expected: usize, given: usize) -> Result<(), OtError> {
    if given == expected { Ok(()) } else { Err(OtError::ItemCount { expected, given }) }
}

/// Debug output that names the type and shows nothing of it.
macro_rules! opaque_debug {
    ($($name:ident),* $(,)?) => {
        $(impl std::fmt::Debug for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(concat!(stringify!($name), "(..)"))
            }
        })*
    };
}
pub(in crate::ot) use opaque_debug;

opaque_debug!(Labels);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn the_lowest_bit_of_every_offset_is_one() {
        let mut generator = Seed::from_bytes([1; 32]).generator();
        let mut seen = 0_u128;
        for _ in 0..200 {
            let offset = CorrelationOffset::random(&mut generator);
            assert_eq!(offset.expose() & 1, 1);
            seen |= !offset.expose();
        }
        assert_eq!(seen, !1, "every other bit takes both values");
        assert_eq!(CorrelationOffset::from_u128(6).expose(), 7);
    }

    #[test]
    fn packed_choices_keep_their_order_and_drop_padding() {
        let bools = [true, false, false, true, true, false, true, false, true];
        let choices = SecretBits::from_bools(&bools);
        assert_eq!(choices.expose(), [0b0101_1001, 1]);
        for (index, &choice) in bools.iter().enumerate() {
            assert_eq!(choices.bit(index) == 1, choice);
        }
        assert_eq!(SecretBits::from_packed(9, vec![0b0101_1001, 0xff]).unwrap().expose(), choices.expose());
        let refused = SecretBits::from_packed(9, vec![0]).unwrap_err();
        assert_eq!(refused, OtError::ItemCount { expected: 9, given: 8 });
    }

    #[test]
    fn secrets_print_nothing() {
        assert_eq!(format!("{:?}", Labels::zeroed(2)), "Labels(..)");
        assert!(format!("{:?}", CorrelationOffset::from_u128(9)).contains("Secret(..)"));
        assert!(format!("{:?}", SecretBits::from_bools(&[true])).contains("Secret(..)"));
    }
}
