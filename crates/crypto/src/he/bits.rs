//! Numbers of any width up to 128 bits, one after the other without gaps, lowest bits first.

/// Bytes that hold this many numbers of this width.
pub(super) fn packed_length(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Appends numbers to a vector of bytes.
pub(super) struct BitWriter<'a> {
    bytes: &'a mut Vec<u8>,
    pending: u128,
    pending_bits: u32,
}

impl<'a> BitWriter<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes, pending: 0, pending_bits: 0 }
    }

    /// Writes a number that fits its width.
    #[inline(always)]
    pub(super) fn push(&mut self, number: u128, width: u32) {
        if width > 64 {
            self.push_word(number as u64, 64);
            self.push_word((number >> 64) as u64, width - 64);
        } else {
            self.push_word(number as u64, width);
        }
    }

    #[inline(always)]
    fn push_word(&mut self, word: u64, width: u32) {
        self.pending |= u128::from(word) << self.pending_bits;
        self.pending_bits += width;
        if self.pending_bits >= 64 {
            self.bytes.extend_from_slice(&(self.pending as u64).to_le_bytes());
            self.pending >>= 64;
            self.pending_bits -= 64;
        }
    }

    /// Fills the last byte with zeros.
    pub(super) fn finish(self) {
        let length = self.pending_bits.div_ceil(8) as usize;
        self.bytes.extend_from_slice(&self.pending.to_le_bytes()[..length]);
    }
}

/// The numbers of one width in a slice of bytes. The slice must hold them.
pub(super) fn numbers(bytes: &[u8], width: u32, count: usize) -> impl Iterator<Item = u128> + '_ {
    assert!(bytes.len() >= packed_length(count, width) && (1..=120).contains(&width));
    let mask = u128::MAX >> (128 - width);
    (0..count).map(move |index| {
        let bit = index * width as usize;
        let window = &bytes[bit / 8..];
        let word = match window.first_chunk::<16>() {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => {
                let mut chunk = [0; 16];
                chunk[..window.len()].copy_from_slice(window);
                u128::from_le_bytes(chunk)
            }
        };
        word >> (bit % 8) & mask
    })
}

/// The same for numbers of at most 56 bits, which one aligned-to-bytes word always covers.
pub(super) fn words(bytes: &[u8], width: u32, count: usize) -> impl Iterator<Item = u64> + '_ {
    assert!(bytes.len() >= packed_length(count, width) && (1..=WORD_WIDTH).contains(&width));
    let mask = u64::MAX >> (64 - width);
    (0..count).map(move |index| {
        let bit = index * width as usize;
        let window = &bytes[bit / 8..];
        let word = match window.first_chunk::<8>() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => {
                let mut chunk = [0; 8];
                chunk[..window.len()].copy_from_slice(window);
                u64::from_le_bytes(chunk)
            }
        };
        word >> (bit % 8) & mask
    })
}

/// The widest numbers that [`words`] reads.
pub(super) const WORD_WIDTH: u32 = 56;

/// Whether the bits after the last number are zero.
pub(super) fn is_padding_clear(bytes: &[u8], width: u32, count: usize) -> bool {
    let used = count * width as usize % 8;
    used == 0 || bytes.last().is_none_or(|last| last >> used == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in prop::collection::vec(any::<u128>(), 0..40), width in 1_u32..=120) {
            let values: Vec<_> = values.iter().map(|value| value & (u128::MAX >> (128 - width))).collect();
            let mut bytes = Vec::new();
            let mut writer = BitWriter::new(&mut bytes);
            values.iter().for_each(|value| writer.push(*value, width));
            writer.finish();
            prop_assert_eq!(bytes.len(), packed_length(values.len(), width));
            prop_assert!(numbers(&bytes, width, values.len()).eq(values.iter().copied()));
            if width <= WORD_WIDTH {
                let words = words(&bytes, width, values.len());
                prop_assert!(words.map(u128::from).eq(values.iter().copied()));
            }
            prop_assert!(is_padding_clear(&bytes, width, values.len()));
        }
    }

    #[test]
    fn stray_bits_are_seen() {
        assert!(!is_padding_clear(&[0xff, 0x40], 7, 2));
        assert!(is_padding_clear(&[0xff, 0x3f], 7, 2));
        assert!(is_padding_clear(&[0xff], 8, 1));
    }
}
