//! The network's layers in the words of the cryptographic tools, which know no network.

use crypto::he::WeightBits;
use crypto::ring::SumPool;
use crypto::ring::geometry::{ConvGeometry, ConvShape, Extent, GeometryError};
use network::inference_model::{self, LinearGeometry};
use network::shape::Shape;
use network::spec::Pool;

/// A layer with weights.
pub(crate) fn layer(layer: &LinearGeometry, input: Shape) -> Result<ConvGeometry, GeometryError> {
    let square = Extent::square;
    match layer {
        LinearGeometry::FullyConnected { inputs, outputs } => {
            ConvGeometry::fully_connected(*inputs, *outputs)
        }
        LinearGeometry::Conv(conv) => ConvGeometry::new(ConvShape {
            in_channels: conv.inputs,
            out_channels: conv.outputs,
            input: extent(input),
            filter: square(conv.filter),
            stride: square(conv.stride),
            padding: square(conv.padding),
            dilation: square(conv.dilation),
            groups: conv.groups,
        }),
    }
}

pub(crate) const fn weight_bits(bits: inference_model::WeightBits) -> WeightBits {
    match bits {
        inference_model::WeightBits::Eight => WeightBits::Eight,
        inference_model::WeightBits::Twelve => WeightBits::Twelve,
    }
}

pub(crate) fn extent(shape: Shape) -> Extent {
    Extent { height: shape.height, width: shape.width }
}

/// The sum over each window of a map.
pub(crate) fn sum_pool(shape: Shape, pool: &Pool) -> Result<SumPool, GeometryError> {
    let square = Extent::square;
    SumPool::new(
        shape.channels,
        extent(shape),
        square(pool.window),
        square(pool.stride),
        square(pool.padding),
    )
}
