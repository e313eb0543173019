//! The geometry of a linear layer.

use crate::he::error::HeError;
use crate::ring::geometry::{ConvGeometry, Extent};

/// A linear layer as both parties know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinearShape {
    /// A two-dimensional convolution; values are ordered channel, row, column.
    Convolution(ConvolutionShape),
    /// A matrix; weights are ordered output, input.
    FullyConnected {
        /// Length of the input.
        inputs: usize,
        /// Length of the output.
        outputs: usize,
    },
}

/// A two-dimensional convolution; pairs are vertical, then horizontal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvolutionShape {
    /// Channels of the input.
    pub input_channels: usize,
    /// Channels of the output.
    pub output_channels: usize,
    /// Height and width of the input.
    pub input_size: [usize; 2],
    /// Height and width of a filter.
    pub filter_size: [usize; 2],
    /// Step from one output to the next.
    pub stride: [usize; 2],
    /// Zeros around the input, on each side.
    pub padding: [usize; 2],
    /// Distance between neighboring taps of a filter.
    pub dilation: [usize; 2],
    /// Groups of channels that do not mix.
    pub groups: usize,
}

/// Sizes above this are refused, so that no product below can overflow.
const MAX_SIZE: usize = 1 << 15;

impl ConvolutionShape {
    /// A dense convolution with a square filter of odd size, stride one, and padding that keeps the resolution.
    pub fn same(input_channels: usize, output_channels: usize, size: usize, filter: usize) -> Self {
        Self {
            input_channels,
            output_channels,
            input_size: [size; 2],
            filter_size: [filter; 2],
            stride: [1; 2],
            padding: [filter / 2; 2],
            dilation: [1; 2],
            groups: 1,
        }
    }

    /// Height and width of the output.
    pub fn output_size(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let reach = self.dilation[axis] * (self.filter_size[axis].max(1) - 1) + 1;
            let padded = self.input_size[axis] + 2 * self.padding[axis];
            padded.checked_sub(reach).map_or(0, |steps| steps / self.stride[axis].max(1) + 1)
        })
    }

    /// Input channels that one output channel reads.
    pub(in crate::he) fn group_inputs(&self) -> usize {
        self.input_channels / self.groups
    }

    /// The group that an input channel belongs to.
    pub(in crate::he) fn input_group(&self, channel: usize) -> usize {
        channel / self.group_inputs()
    }

    /// The group that an output channel belongs to.
    pub(in crate::he) fn output_group(&self, channel: usize) -> usize {
        channel / (self.output_channels / self.groups)
    }

    fn check(&self) -> Result<(), HeError> {
        let refuse = |reason| Err(HeError::Shape { reason });
        let pairs = [self.input_size, self.filter_size, self.stride, self.dilation];
        let counts = [self.input_channels, self.output_channels, self.groups];
        if pairs.as_flattened().iter().chain(&counts).any(|size| !(1..=MAX_SIZE).contains(size)) {
            return refuse("every size must be between 1 and 32768");
        }
        if self.padding.iter().any(|&padding| padding > MAX_SIZE) {
            return refuse("the padding is too large");
        }
        if ![self.input_channels, self.output_channels]
            .iter()
            .all(|channels| channels.is_multiple_of(self.groups))
        {
            return refuse("the groups do not divide the channels");
        }
        if self.output_size().contains(&0) {
            return refuse("the filter is larger than the padded input");
        }
        let values = [self.input_channels, self.input_size[0], self.input_size[1]].iter().product::<usize>();
        let outputs = self.output_size().iter().product::<usize>() * self.output_channels;
        if values.max(outputs) > u32::MAX as usize {
            return refuse("the layer has more than 2^32 values");
        }
        Ok(())
    }
}

/// A layer that the online phase computes on shares, for the offline phase.
impl From<&ConvGeometry> for LinearShape {
    fn from(geometry: &ConvGeometry) -> Self {
        let shape = geometry.shape();
        let pair = |extent: Extent| [extent.height, extent.width];
        Self::Convolution(ConvolutionShape {
            input_channels: shape.in_channels,
            output_channels: shape.out_channels,
            input_size: pair(shape.input),
            filter_size: pair(shape.filter),
            stride: pair(shape.stride),
            padding: pair(shape.padding),
            dilation: pair(shape.dilation),
            groups: shape.groups,
        })
    }
}

impl LinearShape {
    /// The layer as a convolution: a matrix is one over pictures of a single point.
    pub(in crate::he) fn as_convolution(&self) -> ConvolutionShape {
        match *self {
            Self::Convolution(shape) => shape,
            Self::FullyConnected { inputs, outputs } => ConvolutionShape::same(inputs, outputs, 1, 1),
        }
    }

    pub(in crate::he) fn checked(&self) -> Result<ConvolutionShape, HeError> {
        let shape = self.as_convolution();
        shape.check().map(|()| shape)
    }

    /// Values that enter the layer.
    pub fn input_values(&self) -> usize {
        let shape = self.as_convolution();
        shape.input_channels * shape.input_size[0] * shape.input_size[1]
    }

    /// Values that leave it.
    pub fn output_values(&self) -> usize {
        let shape = self.as_convolution();
        shape.output_channels * shape.output_size()[0] * shape.output_size()[1]
    }

    /// Its weights, ordered output channel, input channel of the group, filter row, filter column.
    pub fn weights(&self) -> usize {
        let shape = self.as_convolution();
        shape.output_channels * shape.group_inputs() * shape.filter_size[0] * shape.filter_size[1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_usual_formula() {
        let shape =
            ConvolutionShape { stride: [2, 1], dilation: [1, 2], ..ConvolutionShape::same(4, 6, 9, 3) };
        assert_eq!(shape.output_size(), [5, 7]);
        let layer = LinearShape::Convolution(ConvolutionShape { groups: 2, ..shape });
        assert_eq!((layer.input_values(), layer.output_values(), layer.weights()), (324, 210, 108));
        let matrix = LinearShape::FullyConnected { inputs: 5, outputs: 3 };
        assert_eq!((matrix.input_values(), matrix.output_values(), matrix.weights()), (5, 3, 15));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let good = ConvolutionShape::same(4, 6, 9, 3);
        let bad = [
            ConvolutionShape { input_channels: 0, ..good },
            ConvolutionShape { groups: 4, ..good },
            ConvolutionShape { groups: 0, ..good },
            ConvolutionShape { stride: [0, 1], ..good },
            ConvolutionShape { filter_size: [3, 12], ..good },
            ConvolutionShape { input_size: [1 << 20, 1], ..good },
            ConvolutionShape { padding: [usize::MAX, 1], ..good },
            ConvolutionShape {
                input_channels: 1 << 14,
                input_size: [1 << 14; 2],
                output_channels: 1,
                ..good
            },
        ];
        assert!(LinearShape::Convolution(good).checked().is_ok());
        for shape in bad {
            assert!(
                matches!(LinearShape::Convolution(shape).checked(), Err(HeError::Shape { .. })),
                "{shape:?}"
            );
        }
    }
}
