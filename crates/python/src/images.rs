//! Bytes of whole images, one behind the other, in channel, row, column order.

use network::image::{Image, ImageError};
use network::shape::Shape;
use pyo3::prelude::*;

use crate::error::of_model;

/// The images of these bytes.
pub(crate) fn images(shape: Shape, pixels: &[u8]) -> PyResult<Vec<Image>> {
    let each = usize::try_from(shape.scalars()).unwrap_or(usize::MAX);
    let image = |bytes: &[u8]| Image::new(shape, bytes.to_vec());
    pixels.chunks(each).map(image).collect::<Result<Vec<_>, ImageError>>().map_err(of_model)
}

/// As Python has it: channels, height, width.
pub(crate) fn sides(shape: Shape) -> (usize, usize, usize) {
    (shape.channels, shape.height, shape.width)
}
