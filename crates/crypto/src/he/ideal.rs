//! The same layer kept by a trusted third party: what the encryption must equal.

use super::error::HeError;
use super::packing::LinearShape;
use crate::secret::Secret;

/// Hands the client `W r - s` for the server's weights W and mask s and the client's blind r, all modulo
/// `2^ring_bits`.
///
/// # Errors
/// When the shape does not fit together or a slice has the wrong length.
pub fn client_share(
    shape: &LinearShape,
    ring_bits: u32,
    weights: &[i16],
    blind: &[u64],
    mask: &[u64],
) -> Result<Secret<Vec<u64>>, HeError> {
    count("mask", shape.output_values(), mask.len())?;
    let mut share = apply(shape, ring_bits, weights, blind)?;
    for (share, mask) in share.iter_mut().zip(mask) {
        *share = share.wrapping_sub(*mask) & ring_mask(ring_bits);
    }
    Ok(Secret::new(share))
}

/// `W x` modulo `2^ring_bits`, tap by tap.
///
/// # Errors
/// When the shape does not fit together or a slice has the wrong length.
pub fn apply(
    shape: &LinearShape,
    ring_bits: u32,
    weights: &[i16],
    input: &[u64],
) -> Result<Vec<u64>, HeError> {
    let layer = shape.checked()?;
    count("weights", shape.weights(), weights.len())?;
    count("input", shape.input_values(), input.len())?;
    let ([height, width], [rows, columns]) = (layer.input_size, layer.output_size());
    let [filter_height, filter_width] = layer.filter_size;
    let mut output = Vec::with_capacity(shape.output_values());
    for channel in 0..layer.output_channels {
        let first_input = layer.output_group(channel) * layer.group_inputs();
        for place in 0..rows * columns {
            let (row, column) = (place / columns, place % columns);
            let mut sum = 0_u64;
            for inner in 0..layer.group_inputs() {
                for tap in 0..filter_height * filter_width {
                    let down = row * layer.stride[0] + tap / filter_width * layer.dilation[0];
                    let across = column * layer.stride[1] + tap % filter_width * layer.dilation[1];
                    let y = down.checked_sub(layer.padding[0]).filter(|y| *y < height);
                    let x = across.checked_sub(layer.padding[1]).filter(|x| *x < width);
                    let (Some(y), Some(x)) = (y, x) else { continue };
                    let filter = channel * layer.group_inputs() + inner;
                    let weight = weights[filter * filter_height * filter_width + tap] as u64;
                    sum = sum.wrapping_add(
                        weight.wrapping_mul(input[((first_input + inner) * height + y) * width + x]),
                    );
                }
            }
            output.push(sum & ring_mask(ring_bits));
        }
    }
    Ok(output)
}

fn ring_mask(ring_bits: u32) -> u64 {
    u64::MAX >> (64 - ring_bits)
}

fn count(what: &'static str, expected: usize, got: usize) -> Result<(), HeError> {
    if expected == got { Ok(()) } else { Err(HeError::Count { what, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::super::packing::ConvolutionShape;
    use super::*;

    #[test]
    fn a_convolution_by_hand() {
        let shape = LinearShape::Convolution(ConvolutionShape::same(1, 1, 2, 3));
        let weights = [1, 2, 3, 4, 5, 6, 7, 8, -9];
        let output = apply(&shape, 16, &weights, &[1, 10, 100, 1000]).unwrap();
        let by_hand = [5 + 60 + 800 - 9000, 4 + 50 + 700 + 8000, 2 + 30 + 500 + 6000, 1 + 20 + 400 + 5000];
        assert_eq!(output, by_hand.map(|value: i64| value as u64 & 0xffff));
    }

    #[test]
    fn both_shares_add_up() {
        let shape = LinearShape::FullyConnected { inputs: 2, outputs: 2 };
        let share = client_share(&shape, 8, &[1, -1, 2, 3], &[7, 9], &[250, 3]).unwrap();
        assert_eq!(share.expose()[..], [4, 38]);
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let shape = LinearShape::FullyConnected { inputs: 2, outputs: 2 };
        assert!(apply(&shape, 8, &[1; 3], &[0; 2]).is_err());
        assert!(apply(&shape, 8, &[1; 4], &[0; 1]).is_err());
        assert!(client_share(&shape, 8, &[1; 4], &[0; 2], &[0; 3]).is_err());
    }
}
