//! Values to wires and back: bit transposition, and packing at exactly l bits.

use super::error::{GarbleError, Message, check_length};

/// The low `width` bits set.
pub(super) fn low_bits(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
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
        let mut matrix = [0; 64];
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
    let (mut pending, mut filled) = (0_u128, 0);
    for value in values {
        pending |= u128::from(value & low_bits(width)) << filled;
        filled += width;
        while filled >= 8 {
            bytes.push(pending as u8);
            pending >>= 8;
            filled -= 8;
        }
    }
    if filled > 0 {
        bytes.push(pending as u8);
    }
    bytes
}

/// Reads back `count` values of `width` bits.
pub(super) fn unpack(
    message: Message,
    bytes: &[u8],
    count: usize,
    width: u32,
) -> Result<Vec<u64>, GarbleError> {
    check_length(message, packed_length(count, width), bytes.len())?;
    let mut bytes = bytes.iter();
    let (mut pending, mut filled) = (0_u128, 0);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        while filled < width {
            let byte = bytes.next().expect("the length was checked");
            pending |= u128::from(*byte) << filled;
            filled += 8;
        }
        values.push(pending as u64 & low_bits(width));
        pending >>= width;
        filled -= width;
    }
    if pending != 0 {
        return Err(GarbleError::Padding { message });
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

    #[test]
    fn wrong_lengths_and_padding_are_refused() {
        let error = |came| GarbleError::MessageLength { message: Message::Reply, expected: 3, came };
        assert_eq!(unpack(Message::Reply, &[0; 2], 4, 5), Err(error(2)));
        assert_eq!(unpack(Message::Reply, &[0; 4], 4, 5), Err(error(4)));
        let padding = GarbleError::Padding { message: Message::Reply };
        assert_eq!(unpack(Message::Reply, &[0, 0, 0x10], 4, 5), Err(padding));
    }
}
