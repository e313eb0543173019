//! The arithmetic both executors share: convolutions and pooling over any kind of number.

use crate::shape::Shape;
use crate::spec::Pool;
use crate::walk::ConvGeometry;

/// A number that can be multiplied and added up; integers wrap.
pub(crate) trait Number: Copy {
    /// Nothing.
    const ZERO: Self;
    /// Adds a product.
    fn accumulate(&mut self, weight: Self, value: Self);
    /// Adds.
    fn add(self, other: Self) -> Self;
    /// The larger one.
    fn larger(self, other: Self) -> Self;
}

impl Number for f32 {
    const ZERO: Self = 0.0;

    fn accumulate(&mut self, weight: Self, value: Self) {
        *self += weight * value;
    }

    fn add(self, other: Self) -> Self {
        self + other
    }

    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

impl Number for i64 {
    const ZERO: Self = 0;

    fn accumulate(&mut self, weight: Self, value: Self) {
        *self = self.wrapping_add(weight.wrapping_mul(value));
    }

    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    fn larger(self, other: Self) -> Self {
        self.max(other)
    }
}

/// Output pixels that are computed together; their patches stay in the cache.
const PIXELS_AT_ONCE: usize = 256;

/// A convolution without biases. `weight` gives the weights in the order output, input, row, column.
pub(crate) fn convolve<T: Number>(
    conv: &ConvGeometry,
    (input, size): (&[T], Shape),
    output: Shape,
    weight: impl Fn(usize) -> T,
) -> Vec<T> {
    let pixels = output.pixels() as usize;
    let taps = conv.taps();
    let outputs = conv.outputs / conv.groups;
    let mut result = vec![T::ZERO; conv.outputs * pixels];
    let mut patches = Vec::new();
    for group in 0..conv.groups {
        for start in (0..pixels).step_by(PIXELS_AT_ONCE) {
            let end = pixels.min(start + PIXELS_AT_ONCE);
            gather(conv, (input, size), group, output.width, start..end, &mut patches);
            for channel in group * outputs..(group + 1) * outputs {
                let row = &mut result[channel * pixels + start..channel * pixels + end];
                for (tap, patch) in patches.chunks_exact(end - start).enumerate() {
                    let factor = weight(channel * taps + tap);
                    for (sum, value) in row.iter_mut().zip(patch) {
                        sum.accumulate(factor, *value);
                    }
                }
            }
        }
    }
    result
}

/// For every tap of a group the inputs it meets at a range of output pixels; zeros outside the map.
fn gather<T: Number>(
    conv: &ConvGeometry,
    (input, size): (&[T], Shape),
    group: usize,
    output_width: usize,
    pixels: std::ops::Range<usize>,
    patches: &mut Vec<T>,
) {
    patches.clear();
    let inputs = conv.inputs / conv.groups;
    for channel in group * inputs..(group + 1) * inputs {
        let map = &input[channel * size.pixels() as usize..][..size.pixels() as usize];
        for tap in 0..conv.kernel * conv.kernel {
            let (down, across) = (tap / conv.kernel * conv.dilation, tap % conv.kernel * conv.dilation);
            patches.extend(pixels.clone().map(|pixel| {
                let row = (pixel / output_width * conv.stride + down).wrapping_sub(conv.padding);
                let column = (pixel % output_width * conv.stride + across).wrapping_sub(conv.padding);
                if row < size.height && column < size.width {
                    map[row * size.width + column]
                } else {
                    T::ZERO
                }
            }));
        }
    }
}

/// A fully connected layer without biases.
pub(crate) fn fully_connect<T: Number>(outputs: usize, input: &[T], weight: impl Fn(usize) -> T) -> Vec<T> {
    let dot = |output: usize| {
        let mut sum = T::ZERO;
        for (index, value) in input.iter().enumerate() {
            sum.accumulate(weight(output * input.len() + index), *value);
        }
        sum
    };
    (0..outputs).map(dot).collect()
}

/// The sum over each window; zeros outside the map.
pub(crate) fn sum_pool<T: Number>(pool: &Pool, input: (&[T], Shape), output: Shape) -> Vec<T> {
    pooled(pool, input, output, T::add)
}

/// The maximum over each window; nothing outside the map.
pub(crate) fn max_pool<T: Number>(pool: &Pool, input: (&[T], Shape), output: Shape) -> Vec<T> {
    pooled(pool, input, output, T::larger)
}

fn pooled<T: Number>(
    pool: &Pool,
    (input, size): (&[T], Shape),
    output: Shape,
    join: impl Fn(T, T) -> T,
) -> Vec<T> {
    let mut result = Vec::new();
    for map in input.chunks_exact(size.pixels() as usize) {
        for row in 0..output.height {
            for column in 0..output.width {
                let rows = covered(row, pool, size.height);
                let values = rows.flat_map(|row| {
                    let columns = covered(column, pool, size.width);
                    columns.map(move |column| map[row * size.width + column])
                });
                result.push(values.reduce(&join).unwrap_or(T::ZERO));
            }
        }
    }
    result
}

/// The rows (or columns) of the map that a window covers.
fn covered(position: usize, pool: &Pool, length: usize) -> std::ops::Range<usize> {
    let start = position * pool.stride;
    start.saturating_sub(pool.padding)..(start + pool.kernel).saturating_sub(pool.padding).min(length)
}

/// By how many an average divides at each output pixel.
pub(crate) fn average_counts(pool: &Pool, size: Shape, output: Shape) -> Vec<u32> {
    let mut counts = Vec::new();
    for row in 0..output.height {
        for column in 0..output.width {
            let inside = covered(row, pool, size.height).len() * covered(column, pool, size.width).len();
            counts.push(if pool.count_padding { pool.kernel * pool.kernel } else { inside } as u32);
        }
    }
    counts
}

/// The sum over each channel.
pub(crate) fn global_sum<T: Number>(input: &[T], size: Shape) -> Vec<T> {
    let sum = |map: &[T]| map.iter().copied().fold(T::ZERO, T::add);
    input.chunks_exact(size.pixels() as usize).map(sum).collect()
}

/// The map without its first row and column.
pub(crate) fn drop_first_row_and_column<T: Number>(input: &[T], size: Shape) -> Vec<T> {
    let maps = input.chunks_exact(size.pixels() as usize);
    maps.flat_map(|map| map.chunks_exact(size.width).skip(1).flat_map(|row| row[1..].iter().copied()))
        .collect()
}

/// Some channels.
pub(crate) fn slice<T: Number>(input: &[T], size: Shape, start: usize, channels: usize) -> Vec<T> {
    let pixels = size.pixels() as usize;
    input[start * pixels..(start + channels) * pixels].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Straight from the definition.
    fn slow(conv: &ConvGeometry, input: &[i64], size: Shape, output: Shape, weights: &[i64]) -> Vec<i64> {
        let (inputs, outputs) = (conv.inputs / conv.groups, conv.outputs / conv.groups);
        let mut result = Vec::new();
        for channel in 0..conv.outputs {
            for row in 0..output.height {
                for column in 0..output.width {
                    let mut sum = 0;
                    for tap in 0..conv.taps() {
                        let from = channel / outputs * inputs + tap / (conv.kernel * conv.kernel);
                        let (down, across) = (tap / conv.kernel % conv.kernel, tap % conv.kernel);
                        let y = (row * conv.stride + down * conv.dilation) as i64 - conv.padding as i64;
                        let x = (column * conv.stride + across * conv.dilation) as i64 - conv.padding as i64;
                        if (0..size.height as i64).contains(&y) && (0..size.width as i64).contains(&x) {
                            let at = (from * size.height + y as usize) * size.width + x as usize;
                            sum += weights[channel * conv.taps() + tap] * input[at];
                        }
                    }
                    result.push(sum);
                }
            }
        }
        result
    }

    proptest! {
        #[test]
        fn convolutions_follow_the_definition(
            kernel in 1_usize..4, stride in 1_usize..3, padding in 0_usize..3, dilation in 1_usize..3,
            groups in 1_usize..3, side in 5_usize..20, seed in any::<u32>(),
        ) {
            let conv = ConvGeometry {
                inputs: 2 * groups, outputs: 3 * groups, kernel, stride, padding, dilation, groups, bias: false,
            };
            let size = Shape::new(conv.inputs, side, side + 1);
            let span = dilation * (kernel - 1) + 1;
            let length = |side: usize| (side + 2 * padding - span) / stride + 1;
            let output = Shape::new(conv.outputs, length(side), length(side + 1));
            let number = |index: usize| (index as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) as i64 % 19 - 9;
            let input: Vec<i64> = (0..size.scalars() as usize).map(number).collect();
            let weights: Vec<i64> = (0..conv.taps() * conv.outputs).map(|index| number(index + 77)).collect();
            let fast = convolve(&conv, (&input, size), output, |index| weights[index]);
            prop_assert_eq!(fast, slow(&conv, &input, size, output, &weights));
        }
    }

    #[test]
    fn pools_see_only_what_lies_inside_the_map() {
        let pool = Pool::new(3, 2).padding(1);
        let (size, output) = (Shape::new(1, 4, 4), Shape::new(1, 2, 2));
        let input: Vec<i64> = (0..16).map(|value| value - 20).collect();
        assert_eq!(max_pool(&pool, (&input, size), output), [-15, -13, -7, -5]);
        assert_eq!(sum_pool(&pool, (&input, size), output), [-70, -96, -69, -90]);
        assert_eq!(average_counts(&pool, size, output), [4, 6, 6, 9]);
        let counted = Pool { count_padding: true, ..pool };
        assert_eq!(average_counts(&counted, size, output), [9; 4]);
    }

    #[test]
    fn cropping_takes_the_first_row_and_column() {
        let input: Vec<i64> = (0..18).collect();
        assert_eq!(drop_first_row_and_column(&input, Shape::new(2, 3, 3)), [4, 5, 7, 8, 13, 14, 16, 17]);
    }
}
