use super::*;
use crate::ring::kernel::levels;
use proptest::prelude::*;

/// A width, two vectors of it and a shift below it.
fn operands() -> impl Strategy<Value = (RingWidth, Vec<u64>, Vec<u64>, u32)> {
    (1_u32..=64, prop::collection::vec((any::<u64>(), any::<u64>()), 0..150)).prop_flat_map(
        |(bits, pairs)| {
            let width = RingWidth::new(bits).unwrap();
            let (left, right) = pairs.into_iter().map(|(a, b)| (width.reduce(a), width.reduce(b))).unzip();
            (Just(width), Just(left), Just(right), 0..bits)
        },
    )
}

fn slow(width: RingWidth, values: &[u64], change: impl Fn(i128) -> i128) -> Vec<u64> {
    let modulus = 1_i128 << width.bits();
    values
        .iter()
        .map(|&value| change(i128::from(width.to_signed(value))).rem_euclid(modulus) as u64)
        .collect()
}

fn slow_pack(width: RingWidth, values: &[u64]) -> Vec<u8> {
    let bits: Vec<bool> =
        values.iter().flat_map(|value| (0..width.bits()).map(move |bit| value >> bit & 1 == 1)).collect();
    bits.chunks(8)
        .map(|byte| byte.iter().enumerate().map(|(place, &bit)| u8::from(bit) << place).sum())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn sums_and_differences_wrap((width, left, right, _) in operands()) {
        let (a, b) = (RingVector::from_unsigned(width, &left), RingVector::from_unsigned(width, &right));
        let modulus = 1_u128 << width.bits();
        for features in levels() {
            let (mut sum, mut difference) = (a.clone(), a.clone());
            sum.combine_with(&b, Pairwise::Add, features).unwrap();
            difference.combine_with(&b, Pairwise::Subtract, features).unwrap();
            for (index, (&x, &y)) in left.iter().zip(&right).enumerate() {
                let (x, y) = (u128::from(x), u128::from(y));
                prop_assert_eq!(u128::from(sum.get(index).unwrap()), (x + y) % modulus);
                prop_assert_eq!(u128::from(difference.get(index).unwrap()), (x + modulus - y) % modulus);
            }
        }
    }

    #[test]
    fn changes_equal_signed_arithmetic((width, values, _, shift) in operands()) {
        let vector = RingVector::from_unsigned(width, &values);
        for features in levels() {
            let changed = |change| {
                let mut copy = vector.clone();
                copy.replace(change, features);
                copy.to_unsigned()
            };
            prop_assert_eq!(changed(Change::Negate), slow(width, &values, |value| -value));
            prop_assert_eq!(changed(Change::ShiftUp(shift)), slow(width, &values, |value| value << shift));
            prop_assert_eq!(
                changed(Change::ShiftDownSigned(shift)),
                slow(width, &values, |value| value.div_euclid(1 << shift))
            );
        }
    }

    #[test]
    fn resizing_reduces_and_drops_bits((width, values, _, shift) in operands()) {
        let vector = RingVector::from_unsigned(width, &values);
        let narrower = RingWidth::new(width.bits() - shift).unwrap();
        let reduced: Vec<u64> = values.iter().map(|&value| narrower.reduce(value)).collect();
        prop_assert_eq!(vector.narrowed(narrower).unwrap().to_unsigned(), reduced);
        let shifted: Vec<u64> = values.iter().map(|&value| value >> shift).collect();
        let dropped = vector.without_low_bits(shift).unwrap();
        prop_assert_eq!(dropped.to_unsigned(), shifted);
        prop_assert_eq!(dropped.width(), narrower);
    }

    #[test]
    fn packing_equals_bit_by_bit_and_returns((width, values, _, _) in operands()) {
        let expected = slow_pack(width, &values);
        let vector = RingVector::from_unsigned(width, &values);
        prop_assert_eq!(&vector.to_bytes(), &expected);
        for features in levels() {
            let mut bytes = vec![0xa5; expected.len()];
            let mut back = RingVector::zeros(width, values.len());
            vector.pack_into(&mut bytes, features);
            prop_assert_eq!(&bytes, &expected);
            back.unpack_from(&bytes, features);
            prop_assert_eq!(&back, &vector);
        }
        prop_assert_eq!(RingVector::from_bytes(width, values.len(), &expected), Ok(vector));
    }
}

#[test]
fn signed_values_go_in_and_out() {
    for bits in [16, 32, 33, 64] {
        let width = RingWidth::new(bits).unwrap();
        let values = [-32768, -1, 0, 1, 32767];
        let vector = RingVector::from_signed(width, &values);
        assert_eq!(vector.to_signed(), values);
        assert_eq!(vector.iter().collect::<Vec<_>>(), vector.to_unsigned());
        assert_eq!(matches!(vector.words(), Words::Narrow(_)), bits <= 32);
    }
}

#[test]
fn mismatches_are_refused() {
    let width = |bits| RingWidth::new(bits).unwrap();
    let mut vector = RingVector::zeros(width(20), 3);
    assert_eq!(
        vector.add(&RingVector::zeros(width(21), 3)),
        Err(RingError::WidthMismatch { expected: width(20), found: width(21) })
    );
    assert_eq!(
        vector.subtract(&RingVector::zeros(width(20), 4)),
        Err(RingError::LengthMismatch { expected: 3, found: 4 })
    );
    assert_eq!(vector.scale(20), Err(RingError::Shift { shift: 20, width: width(20) }));
    assert_eq!(vector.truncate(64), Err(RingError::Shift { shift: 64, width: width(20) }));
    assert_eq!(vector.without_low_bits(20), Err(RingError::Shift { shift: 20, width: width(20) }));
    assert_eq!(vector.narrowed(width(21)), Err(RingError::Widening { from: width(20), to: width(21) }));
    assert_eq!(
        RingVector::concatenate(width(41), &[RingVector::zeros(width(41), 1), vector]),
        Err(RingError::WidthMismatch { expected: width(41), found: width(20) })
    );
}

#[test]
fn groups_of_parts_interleave() {
    for bits in [20, 41] {
        let width = RingWidth::new(bits).unwrap();
        let part = |values: &[u64]| RingVector::from_unsigned(width, values);
        let parts = [part(&[1, 2, 5, 6]), part(&[]), part(&[3, 7])];
        assert_eq!(RingVector::interleave(width, &parts, 2).unwrap().to_unsigned(), [1, 2, 3, 5, 6, 7]);
        for groups in [0, 3] {
            assert_eq!(
                RingVector::interleave(width, &parts, groups),
                Err(RingError::NotWholeGroups { groups, found: 4 })
            );
        }
    }
}

#[test]
fn parts_concatenate_in_order() {
    for bits in [20, 41] {
        let width = RingWidth::new(bits).unwrap();
        let part = |values: &[u64]| RingVector::from_unsigned(width, values);
        let whole = RingVector::concatenate(width, &[part(&[1, 2]), part(&[]), part(&[3])]).unwrap();
        assert_eq!(whole.to_unsigned(), [1, 2, 3]);
    }
}

#[test]
fn bytes_of_another_length_or_with_padding_are_refused() {
    let width = RingWidth::new(20).unwrap();
    let bytes = RingVector::from_unsigned(width, &[0xfffff, 1, 0xfffff]).to_bytes();
    assert_eq!(bytes, [0xff, 0xff, 0x1f, 0, 0, 0xff, 0xff, 0x0f]);
    for sent in [0, 7, 9] {
        let mut other = bytes.clone();
        other.resize(sent, 0);
        assert_eq!(
            RingVector::from_bytes(width, 3, &other),
            Err(UnpackError::Length { width, count: 3, expected: 8, sent })
        );
    }
    for bit in 4..8 {
        let mut other = bytes.clone();
        other[7] |= 1 << bit;
        assert_eq!(
            RingVector::from_bytes(width, 3, &other),
            Err(UnpackError::Padding { unused_bits: 4, last_byte: other[7] })
        );
    }
    assert_eq!(
        RingVector::from_bytes(width, usize::MAX, &bytes),
        Err(UnpackError::CountTooLarge { width, count: usize::MAX })
    );
    assert_eq!(RingVector::from_bytes(width, 0, &[]), Ok(RingVector::zeros(width, 0)));
    assert!(RingVector::from_bytes(width, 0, &[0]).is_err());
}

#[test]
fn a_huge_count_is_refused_before_anything_is_allocated() {
    let width = RingWidth::new(1).unwrap();
    // Words for this many values would not fit any memory, yet the answer comes at once.
    let count = usize::MAX - 7;
    assert!(matches!(RingVector::from_bytes(width, count, &[0; 16]), Err(UnpackError::Length { .. })));
}

proptest! {
    #[test]
    fn planes_have_shifts_and_addends_of_their_own(
        (bits, shift, addend) in (2_u32..=64).prop_flat_map(|bits| (Just(bits), 0..bits, any::<i64>())),
        values in prop::collection::vec(any::<u64>(), 60),
    ) {
        let width = RingWidth::new(bits).unwrap();
        let planes = [(shift, addend), (0, 0), (1, -1)];
        let mut vector = RingVector::from_unsigned(width, &values);
        vector.shift_planes(&planes).unwrap();
        for (index, value) in values.iter().enumerate() {
            let (shift, addend) = planes[index / 20];
            let expected = width.reduce((value << shift).wrapping_add(width.from_signed(addend)));
            prop_assert_eq!(vector.get(index), Some(expected));
        }
        let places = [7, 59, 0, 7];
        let expected: Vec<_> = places.iter().map(|place| vector.get(*place as usize).unwrap()).collect();
        prop_assert_eq!(vector.at(&places), expected);
    }
}

#[test]
fn planes_must_be_equal_and_shifts_below_the_width() {
    let mut vector = RingVector::zeros(RingWidth::new(8).unwrap(), 6);
    assert!(matches!(vector.shift_planes(&[(8, 0), (0, 0)]), Err(RingError::Shift { .. })));
    for planes in [&[][..], &[(1, 1); 4]] {
        assert!(matches!(vector.shift_planes(planes), Err(RingError::NotWholeGroups { .. })));
    }
}

#[test]
fn vectors_print_their_size_alone_and_wipe() {
    let mut vector = RingVector::from_unsigned(RingWidth::new(41).unwrap(), &[123_456_789, 5]);
    assert_eq!(format!("{vector:?}"), "RingVector(2 values of 41 bits)");
    vector.wipe();
    assert_eq!(vector.to_unsigned(), [0, 0]);
}
