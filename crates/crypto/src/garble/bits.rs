//! Values to wires and back: bit transposition, and packing at exactly l bits.

use zeroize::Zeroizing;

use super::error::{GarbleError, Message, check_length};

/// The low `width` bits set.
pub(super) fn low_bits(width: u32) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// All bits set if the bit is one: what selects without a branch.
pub(super) fn spread(bit: u64) -> u64 {
    bit.wrapping_neg()
}

/// (1 - 2 bit) value.
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
    append_packed(&mut bytes, values.iter().copied(), width);
    bytes
}

/// The same behind other bytes, of values that are nowhere held together.
pub(super) fn append_packed(bytes: &mut Vec<u8>, values: impl Iterator<Item = u64>, width: u32) {
    let (mut pending, mut filled) = (0_u128, 0);
    for value in values {
        pending |= u128::from(value & low_bits(width)) << filled;
        filled += width;
        if filled >= 64 {
            bytes.extend_from_slice(&(pending as u64).to_le_bytes());
            pending >>= 64;
            filled -= 64;
        }
    }
    bytes.extend_from_slice(&(pending as u64).to_le_bytes()[..filled.div_ceil(8) as usize]);
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
    let value = |index: usize| {
        let bit = index * width as usize;
        word_at(bytes, bit / 8) >> (bit % 8)
    };
    let mask = low_bits(width);
    // A value of more bits than these may reach into a ninth byte.
    if width <= 57 {
        return Ok((0..count).map(|index| value(index) & mask).collect());
    }
    let upper = |index: usize| {
        let bit = index * width as usize;
        (word_at(bytes, bit / 8 + 8) << 1) << (63 - bit % 8)
    };
    Ok((0..count).map(|index| (value(index) | upper(index)) & mask).collect())
}

/// Eight bytes from a place on, lowest first; behind the end there are zeros.
fn word_at(bytes: &[u8], start: usize) -> u64 {
    let rest = bytes.get(start..).unwrap_or_default();
    if let Some(word) = rest.first_chunk() {
        return u64::from_le_bytes(*word);
    }
    let mut word = [0; 8];
    word[..rest.len()].copy_from_slice(rest);
    u64::from_le_bytes(word)
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
