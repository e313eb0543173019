//! Convolution and pooling as their definitions have them: the slow oracle of the kernels' tests.

use super::geometry::ConvGeometry;
use super::vector::RingVector;
use super::width::RingWidth;

/// Convolves one or more images; weights in the order output channel, input channel of the group, row, column.
///
/// # Panics
/// When values or weights are not as many as the geometry says: an oracle has no one to report to.
pub fn convolve(geometry: &ConvGeometry, weights: &[i16], input: &RingVector) -> RingVector {
    assert_eq!(weights.len(), geometry.weight_len());
    assert!(input.len().is_multiple_of(geometry.input_len()));
    let values = input.to_unsigned();
    let mut output = Vec::new();
    for image in values.chunks(geometry.input_len()) {
        for channel in 0..geometry.shape().out_channels {
            for row in 0..geometry.output().height {
                for column in 0..geometry.output().width {
                    output.push(value_at(geometry, weights, image, channel, row, column, input.width()));
                }
            }
        }
    }
    RingVector::from_unsigned(input.width(), &output)
}

/// Sums of each channel under each window of a depthwise geometry.
///
/// # Panics
/// As for [`convolve`].
pub fn sum_pool(geometry: &ConvGeometry, input: &RingVector) -> RingVector {
    convolve(geometry, &vec![1; geometry.weight_len()], input)
}

fn value_at(
    geometry: &ConvGeometry,
    weights: &[i16],
    image: &[u64],
    out_channel: usize,
    out_row: usize,
    out_column: usize,
    width: RingWidth,
) -> u64 {
    let shape = geometry.shape();
    let group = out_channel / geometry.out_channels_per_group();
    let mut sum = 0_u64;
    for channel in 0..geometry.in_channels_per_group() {
        for filter_row in 0..shape.filter.height {
            for filter_column in 0..shape.filter.width {
                let weight = weights[((out_channel * geometry.in_channels_per_group() + channel)
                    * shape.filter.height
                    + filter_row)
                    * shape.filter.width
                    + filter_column];
                let row = (out_row * shape.stride.height + filter_row * shape.dilation.height)
                    .checked_sub(shape.padding.height);
                let column = (out_column * shape.stride.width + filter_column * shape.dilation.width)
                    .checked_sub(shape.padding.width);
                if let (Some(row), Some(column)) = (row, column)
                    && row < shape.input.height
                    && column < shape.input.width
                {
                    let in_channel = group * geometry.in_channels_per_group() + channel;
                    let value = image[(in_channel * shape.input.height + row) * shape.input.width + column];
                    sum = sum.wrapping_add(value.wrapping_mul(i64::from(weight).cast_unsigned()));
                }
            }
        }
    }
    width.reduce(sum)
}
