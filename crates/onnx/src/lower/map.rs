//! Maps: values of the network, as a tensor of the file reads them.

use network::shape::Shape;
use network::spec::{Conv, Groups, Layer};
use network::walk::ValueId;
use network::weights::LayerWeights;

use super::{Lowering, Outcome};
use crate::embed::Window;
use crate::error::NodeFault;

/// A value and how its axes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Map {
    pub(super) value: ValueId,
    pub(super) view: View,
    /// Rows and columns that were padded with zeros, cut off or skipped, but not yet by a step: a convolution that reads the
    /// map does it for nothing.
    pub(super) pending: Window,
}

/// The axes of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// Batch, channels, rows, columns.
    ChannelsFirst,
    /// Batch, rows, columns, channels.
    ChannelsLast,
    /// Batch, channels, pixels.
    Rows,
    /// Batch, scalars: channel by channel.
    Flat,
    /// Batch, scalars: pixel by pixel.
    FlatPixels,
}

impl Map {
    pub(super) const fn new(value: ValueId, view: View) -> Self {
        Self { value, view, pending: Window::PIXEL }
    }
}

impl Lowering<'_> {
    /// The size of a map, with what is pending.
    pub(super) fn shape(&self, map: Map) -> Shape {
        let shape = self.builder.shape(map.value);
        match map.pending.output(shape) {
            Some([height, width]) => Shape { height, width, ..shape },
            None => shape,
        }
    }

    /// The dimensions of the tensor, batch first.
    pub(super) fn dims(&self, map: Map) -> Vec<usize> {
        let Shape { channels, height, width } = self.shape(map);
        match map.view {
            View::ChannelsFirst => vec![self.batch, channels, height, width],
            View::ChannelsLast => vec![self.batch, height, width, channels],
            View::Rows => vec![self.batch, channels, height * width],
            View::Flat | View::FlatPixels => vec![self.batch, channels * height * width],
        }
    }

    /// The map with nothing pending: a step pads, cuts and skips.
    pub(super) fn settled(&mut self, map: Map, name: &str) -> Outcome<Map> {
        if map.pending == Window::PIXEL {
            return Ok(map);
        }
        let channels = self.builder.shape(map.value).channels;
        let value =
            self.depthwise(&format!("{name}.border"), map.value, map.pending, &vec![1.0; channels])?;
        Ok(Map::new(value, map.view))
    }

    /// Each channel through its own filter; `weights` holds one filter per channel.
    pub(super) fn depthwise(
        &mut self,
        name: &str,
        input: ValueId,
        window: Window,
        weights: &[f32],
    ) -> Outcome<ValueId> {
        let shape = self.builder.shape(input);
        let square = window.square(shape).ok_or_else(|| uneven(window, shape))?;
        self.spend(shape.channels.saturating_mul(square.filter * square.filter))?;
        let weights = square.fill(weights, window.filter);
        let conv = Conv {
            out: shape.channels,
            filter: square.filter,
            stride: square.stride,
            padding: Some(square.padding),
            dilation: square.dilation,
            groups: Groups::Depthwise,
            bias: true,
        };
        let weights = LayerWeights::Linear { weights, biases: vec![0.0; shape.channels] };
        Ok(self.builder.weighted(name, &Layer::Conv(conv), weights, input)?)
    }
}

/// The refusal of a window that no square does.
pub(super) fn uneven(window: Window, input: Shape) -> NodeFault {
    let Window { filter, stride, dilation, before, after } = window;
    NodeFault::Form {
        what: format!(
            "a window of {filter:?} with strides {stride:?}, dilations {dilation:?} and padding {before:?} before and {after:?} \
             after, on a map of {input},"
        ),
        instead: "square windows with one stride, and the same padding on all sides",
    }
}
