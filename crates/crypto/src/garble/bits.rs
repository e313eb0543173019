//! Values to wires and back: bit transposition, and packing at exactly l bits.

use zeroize::Zeroizing;

use super::error::{GarbleError, Message, check_length};
use crate::cpu::CpuFeatures;
use crate::ring::kernel::bits as kernel;

/// The low `width` bits set.
#[inline(always)]
pub(super) fn low_bits(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// All bits set if the bit is one: what selects without a branch.
#[inline(always)]
pub(super) fn spread(bit: u64) -> u64 {
    bit.wrapping_neg()
}

/// (1 - 2 bit) value.
#[inline(always)]
pub(super) fn signed_by(bit: u64, value: u64) -> u64 {
    (value ^ spread(bit)).wrapping_add(bit)
}

/// Transposes a 64 by 64 matrix of bits in place: bit j of word i becomes bit i of word j.
pub(super) fn transpose(matrix: &mut [u64; 64]) {
    let mut half = 32;
    let mut mask = u64::from(u32::MAX);
    while half > 0 {
        for block in (0..64).step_by(2 * half) {
            for row in block..block + half {
                let swap = (matrix[row] >> half ^ matrix[row + half]) & mask;
                matrix[row] ^= swap << half;
                matrix[row + half] ^= swap;
            }
        }
        half /= 2;
        mask ^= mask << half;
    }
}

/// Calls `wire` with the lanes' bits of each wire in turn: value by value, lowest bit first.
///
/// `values` holds one value per entry of `widths` for each lane, lane after lane; there are at most 64 lanes.
pub(super) fn for_each_wire(values: &[u64], widths: &[u32], mut wire: impl FnMut(usize, u64)) {
    let mut index = 0;
    for (place, width) in widths.iter().enumerate() {
        let mut matrix = Zeroizing::new([0; 64]);
        for (row, lane) in matrix.iter_mut().zip(values.chunks_exact(widths.len())) {
            *row = lane[place];
        }
        transpose(&mut matrix);
        for word in &matrix[..*width as usize] {
            wire(index, *word);
            index += 1;
        }
    }
}

/// The bytes that `count` values of `width` bits take.
pub(super) fn packed_length(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Packs the low `width` bits of each value, lowest bit first, without gaps.
pub(super) fn pack(values: &[u64], width: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(packed_length(values.len(), width));
    append_packed(&mut bytes, values, width);
    bytes
}

/// The same behind other bytes.
pub(super) fn append_packed(bytes: &mut Vec<u8>, values: &[u64], width: u32) {
    let start = bytes.len();
    bytes.resize(start + packed_length(values.len(), width), 0);
    if width > 0 {
        kernel::pack(values, width, &mut bytes[start..], CpuFeatures::available());
    }
}

/// Appends one bit of each value, eight to a byte, lowest first.
pub(super) fn append_bit(bytes: &mut Vec<u8>, values: &[u64], place: u32) {
    bytes.extend(values.chunks(8).map(|values| {
        let bits = values.iter().enumerate().map(|(index, value)| ((value >> place & 1) as u8) << index);
        bits.fold(0, |byte, bit| byte | bit)
    }));
}

/// Reads back `count` values of `width` bits.
pub(super) fn unpack(
    message: Message,
    bytes: &[u8],
    count: usize,
    width: u32,
) -> Result<Vec<u64>, GarbleError> {
    check_length(message, packed_length(count, width), bytes.len())?;
    let unused = 8 * bytes.len() - count * width as usize;
    if bytes.last().is_some_and(|last| unused > 0 && last >> (8 - unused) != 0) {
        return Err(GarbleError::Padding { message });
    }
    let mut values = vec![0; count];
    if width > 0 {
        kernel::unpack(bytes, width, &mut values, CpuFeatures::available());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn transposition_moves_every_bit() {
        let mut matrix: [u64; 64] =
            std::array::from_fn(|row| (row as u64 + 3).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let before = matrix;
        transpose(&mut matrix);
        for (row, word) in before.iter().enumerate() {
            for (column, transposed) in matrix.iter().enumerate() {
                assert_eq!(word >> column & 1, transposed >> row & 1);
            }
        }
    }

    #[test]
    fn wires_come_value_by_value_lowest_bit_first() {
        let mut wires = Vec::new();
        for_each_wire(&[0b01, 0b110, 0b11, 0b001], &[2, 3], |index, word| wires.push((index, word)));
        assert_eq!(wires, [(0, 0b11), (1, 0b10), (2, 0b10), (3, 0b01), (4, 0b01)]);
    }

    proptest! {
        #[test]
        fn packed_values_come_back(values in proptest::collection::vec(any::<u64>(), 0..70), width in 1_u32..=64) {
            let masked: Vec<u64> = values.iter().map(|value| value & low_bits(width)).collect();
            let bytes = pack(&values, width);
            prop_assert_eq!(bytes.len(), packed_length(values.len(), width));
            prop_assert_eq!(unpack(Message::Reply, &bytes, values.len(), width), Ok(masked));
        }
    }

    /// The slow obvious version: bit by bit.
    fn pack_slowly(values: &[u64], width: u32) -> Vec<u8> {
        let mut bytes = vec![0; packed_length(values.len(), width)];
        for (index, value) in values.iter().enumerate() {
            for bit in 0..width {
                let place = index * width as usize + bit as usize;
                bytes[place / 8] |= ((value >> bit & 1) as u8) << (place % 8);
            }
        }
        bytes
    }

    proptest! {
        #[test]
        fn bits_lie_where_they_must(values in proptest::collection::vec(any::<u64>(), 0..70), width in 1_u32..=64) {
            prop_assert_eq!(pack(&values, width), pack_slowly(&values, width));
            let bits: Vec<u64> = values.iter().map(|value| value >> (width - 1)).collect();
            let mut bytes = vec![7];
            append_bit(&mut bytes, &values, width - 1);
            prop_assert_eq!(&bytes[1..], pack_slowly(&bits, 1));
        }
    }

    #[test]
    fn wrong_lengths_and_padding_are_refused() {
        let error = |came| GarbleError::MessageLength { message: Message::Reply, expected: 3, came };
        assert_eq!(unpack(Message::Reply, &[0; 2], 4, 5), Err(error(2)));
        assert_eq!(unpack(Message::Reply, &[0; 4], 4, 5), Err(error(4)));
        let padding = GarbleError::Padding { message: Message::Reply };
        assert_eq!(unpack(Message::Reply, &[0, 0, 0x10], 4, 5), Err(padding));
    }
}
