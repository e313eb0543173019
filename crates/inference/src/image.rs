//! Pixels become integers here; behind this module there are no floats.

use network::inference_model::ModelOutline;
use network::shape::Shape;

use crate::InferenceError;

/// An image in fixed point, ready for one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    shape: Shape,
    values: Vec<i64>,
}

impl Image {
    /// Normalizes 8-bit pixels as the model asks, channel by channel, row by row.
    ///
    /// # Errors
    /// When the number of pixels is not that of the model's input.
    pub fn from_pixels(outline: &ModelOutline, pixels: &[u8]) -> Result<Self, InferenceError> {
        let shape = outline.input;
        if pixels.len() as u64 != shape.scalars() {
            let came = Shape::new(1, 1, pixels.len());
            return Err(InferenceError::Image { expected: shape, came });
        }
        let format = &outline.image;
        let plane = shape.height * shape.width;
        let scale = (1_u64 << format.fraction) as f32;
        let value = |(index, pixel): (usize, &u8)| {
            let channel = index / plane;
            let unit = f32::from(*pixel) / 255.0;
            ((unit - format.mean[channel]) / format.deviation[channel] * scale).round() as i64
        };
        Ok(Self { shape, values: pixels.iter().enumerate().map(value).collect() })
    }

    /// Integers that are normalized already.
    ///
    /// # Errors
    /// When their number is not that of the model's input.
    pub fn from_integers(outline: &ModelOutline, values: Vec<i64>) -> Result<Self, InferenceError> {
        if values.len() as u64 != outline.input.scalars() {
            let came = Shape::new(1, 1, values.len());
            return Err(InferenceError::Image { expected: outline.input, came });
        }
        Ok(Self { shape: outline.input, values })
    }

    /// The size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The integers, channel by channel, row by row.
    pub fn values(&self) -> &[i64] {
        &self.values
    }
}
