//! Linear layers on integers, fast: values are cut into signed digits of at most 16 bits, and each digit is multiplied
//! and summed in 32 bits, where compilers know an instruction for dot products.
//!
//! The result is that of the 64-bit kernels, bit for bit: digits are as narrow as it takes for no sum of 32 bits to
//! overflow (the largest row of weights decides), and a sum of digits times powers of two wraps as the whole does.
//! Activations of 10 bits and weights of 8 need one digit. Weights are public to whoever runs the reference, so that
//! their size may choose the path.

use std::ops::Range;

use crate::inference_model::LinearGeometry;
use crate::shape::Shape;
use crate::walk::ConvGeometry;

/// Output pixels whose patches are laid out together; they stay in the cache.
const PIXELS_AT_ONCE: usize = 32;
/// Digits narrower than this gain nothing over 64-bit arithmetic.
const LEAST_DIGIT_BITS: u32 = 4;

/// A linear layer without biases, or nothing where its weights leave no room for digits.
pub(super) fn apply(
    geometry: &LinearGeometry,
    (input, size): (&[i64], Shape),
    output: Shape,
    weights: &[i16],
) -> Option<Vec<i64>> {
    let digit_bits = digit_bits(weights, geometry.taps())?;
    let mut result = vec![0_i64; output.scalars() as usize];
    let mut rest = input.to_vec();
    // Digits of 2^64 and beyond change nothing in arithmetic that wraps there.
    for shift in (0..64).step_by(digit_bits as usize) {
        if rest.iter().all(|value| *value == 0) {
            break;
        }
        let digits = take_digits(&mut rest, digit_bits);
        let mut add = |place: usize, sum: i32| {
            result[place] = result[place].wrapping_add(i64::from(sum) << shift);
        };
        match geometry {
            LinearGeometry::Conv(conv) => convolve(conv, (&digits, size), output, weights, &mut add),
            LinearGeometry::FullyConnected { inputs, .. } => {
                let rows = weights.chunks_exact(*inputs);
                rows.enumerate().for_each(|(place, row)| add(place, dot(row, &digits)));
            }
        }
    }
    Some(result)
}

/// The widest digits with which no sum over a row of weights overflows 32 bits.
fn digit_bits(weights: &[i16], taps: usize) -> Option<u32> {
    let row_sum = |row: &[i16]| row.iter().map(|weight| u64::from(weight.unsigned_abs())).sum::<u64>();
    let largest = weights.chunks_exact(taps).map(row_sum).max().unwrap_or(0).max(1);
    let magnitude = (i32::MAX as u64 / largest).checked_ilog2()?;
    Some((magnitude + 1).min(16)).filter(|bits| *bits >= LEAST_DIGIT_BITS)
}

/// Takes the lowest digit of each number, from -2^(bits-1) to 2^(bits-1) - 1.
fn take_digits(rest: &mut [i64], bits: u32) -> Vec<i16> {
    let take = |value: &mut i64| {
        let digit = super::integer::sign_extend(*value, bits);
        *value = value.wrapping_sub(digit) >> bits;
        digit as i16
    };
    rest.iter_mut().map(take).collect()
}

/// Exact, since [`digit_bits`] chose digits whose sums do not overflow.
fn dot(row: &[i16], patch: &[i16]) -> i32 {
    let product = |(weight, digit): (&i16, &i16)| i32::from(*weight).wrapping_mul(i32::from(*digit));
    row.iter().zip(patch).map(product).fold(0_i32, i32::wrapping_add)
}

fn convolve(
    conv: &ConvGeometry,
    input: (&[i16], Shape),
    output: Shape,
    weights: &[i16],
    add: &mut impl FnMut(usize, i32),
) {
    let pixels = output.pixels() as usize;
    let taps = conv.taps();
    let outputs = conv.outputs / conv.groups;
    let mut patches = Vec::new();
    for group in 0..conv.groups {
        for start in (0..pixels).step_by(PIXELS_AT_ONCE) {
            let end = pixels.min(start + PIXELS_AT_ONCE);
            gather(conv, input, group, output.width, start..end, &mut patches);
            for channel in group * outputs..(group + 1) * outputs {
                let row = &weights[channel * taps..(channel + 1) * taps];
                for (pixel, patch) in (start..end).zip(patches.chunks_exact(taps)) {
                    add(channel * pixels + pixel, dot(row, patch));
                }
            }
        }
    }
}

/// For each output pixel of a range the inputs its filter meets, in the order of the weights; zeros outside the map.
fn gather(
    conv: &ConvGeometry,
    (input, size): (&[i16], Shape),
    group: usize,
    output_width: usize,
    pixels: Range<usize>,
    patches: &mut Vec<i16>,
) {
    patches.clear();
    let inputs = conv.inputs / conv.groups;
    let map_length = size.pixels() as usize;
    for pixel in pixels {
        let top = (pixel / output_width * conv.stride).wrapping_sub(conv.padding);
        let left = (pixel % output_width * conv.stride).wrapping_sub(conv.padding);
        let is_whole_row = conv.dilation == 1 && left < size.width && left + conv.filter <= size.width;
        for map in input.chunks_exact(map_length).skip(group * inputs).take(inputs) {
            for down in 0..conv.filter {
                let row = top.wrapping_add(down * conv.dilation);
                if row >= size.height {
                    patches.extend((0..conv.filter).map(|_| 0));
                } else if is_whole_row {
                    patches.extend(&map[row * size.width + left..][..conv.filter]);
                } else {
                    let line = &map[row * size.width..][..size.width];
                    let column = |across: usize| left.wrapping_add(across * conv.dilation);
                    patches.extend(
                        (0..conv.filter).map(|across| line.get(column(across)).copied().unwrap_or(0)),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels;
    use super::*;
    use proptest::prelude::*;

    fn numbers(count: usize, seed: u64) -> Vec<i64> {
        let number = |index: usize| {
            let word = (index as u64 ^ seed << 20).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as i64
        };
        (0..count).map(number).collect()
    }

    proptest! {
        #[test]
        fn digits_change_nothing(
            filter in 1_usize..4, stride in 1_usize..3, padding in 0_usize..3, dilation in 1_usize..3,
            groups in 1_usize..3, side in 5_usize..12, seed in any::<u64>(), unused_bits in 0_u32..60,
        ) {
            let conv = ConvGeometry {
                inputs: 2 * groups, outputs: 3 * groups, filter, stride, padding, dilation, groups, bias: false,
            };
            let size = Shape::new(conv.inputs, side, side + 1);
            let length = |side: usize| (side + 2 * padding - (dilation * (filter - 1) + 1)) / stride + 1;
            let output = Shape::new(conv.outputs, length(side), length(side + 1));
            let input: Vec<i64> =
                numbers(size.scalars() as usize, seed).into_iter().map(|value| value >> unused_bits).collect();
            let weights: Vec<i16> =
                numbers(conv.taps() * conv.outputs, !seed).into_iter().map(|weight| weight as i16).collect();
            let weight = |index: usize| i64::from(weights[index]);
            let slow = kernels::convolve(&conv, (&input, size), output, weight);
            let fast = apply(&LinearGeometry::Conv(conv), (&input, size), output, &weights).unwrap();
            prop_assert_eq!(fast, slow);
            let dense = LinearGeometry::FullyConnected { inputs: input.len(), outputs: 1 };
            let row: Vec<i16> = numbers(input.len(), seed / 2).into_iter().map(|weight| weight as i16).collect();
            let slow = kernels::fully_connect(1, &input, |index| i64::from(row[index]));
            if let Some(fast) = apply(&dense, (&input, size), Shape::vector(1), &row) {
                prop_assert_eq!(fast, slow);
            }
        }
    }

    #[test]
    fn the_largest_sums_just_fit() {
        for taps in [1, 2, 515, 4608, 16_513] {
            let weights = vec![-127_i16; taps];
            let bits = digit_bits(&weights, taps).unwrap();
            let input = vec![-(1_i64 << (bits - 1)); taps];
            let geometry = LinearGeometry::FullyConnected { inputs: taps, outputs: 1 };
            let sums = apply(&geometry, (&input, Shape::vector(taps)), Shape::vector(1), &weights).unwrap();
            assert_eq!(sums, [127 * taps as i64 * (1 << (bits - 1))]);
        }
        assert_eq!(digit_bits(&vec![i16::MAX; 1 << 16], 1 << 16), None);
    }
}
