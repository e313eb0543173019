//! Pixels, and how they become numbers.

mod normalization;

use std::fmt;

use crate::inference_model::ImageFormat;
use crate::shape::Shape;

pub use normalization::{Normalization, NormalizationError};

/// The mean of each channel of CIFAR-10, in the unit interval.
pub const CIFAR_MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
/// The standard deviation of each channel of CIFAR-10.
pub const CIFAR_DEVIATION: [f32; 3] = [0.2470, 0.2435, 0.2616];

/// An image: bytes in channel, row, column order. Its pixels are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    shape: Shape,
    pixels: Vec<u8>,
}

impl fmt::Debug for Image {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Image({})", self.shape)
    }
}

impl Image {
    /// An image of the given size.
    ///
    /// # Errors
    /// When the number of bytes is another one.
    pub fn new(shape: Shape, pixels: Vec<u8>) -> Result<Self, ImageError> {
        if pixels.len() as u64 != shape.scalars() {
            return Err(ImageError::Bytes { shape, expected: shape.scalars(), came: pixels.len() });
        }
        Ok(Self { shape, pixels })
    }

    /// A smooth random image with some noise, the same for the same seed: enough like a photograph to calibrate on.
    pub fn random(shape: Shape, seed: u64) -> Self {
        let mut stream = RandomBytes::new("image", seed);
        let mut pixels = Vec::new();
        for _ in 0..shape.channels {
            let [base, across, down, wave] = [(); 4].map(|()| f32::from(stream.byte()) / 255.0);
            for row in 0..shape.height {
                for column in 0..shape.width {
                    let (x, y) = (column as f32 / shape.width as f32, row as f32 / shape.height as f32);
                    // A triangle wave needs no sine, whose last bit differs between machines.
                    let ripple = ((x + y) * (1.0 + 6.0 * wave)).fract();
                    let noise = f32::from(stream.byte()) / 255.0;
                    let value = 0.4 * base + 0.3 * (across * x + down * y) + 0.2 * ripple + 0.2 * noise;
                    pixels.push((value * 255.0).clamp(0.0, 255.0) as u8);
                }
            }
        }
        Self { shape, pixels }
    }

    /// Its size.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its bytes, in channel, row, column order.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Fails unless the image has this size.
    ///
    /// # Errors
    /// When it has another one.
    pub fn expect_shape(&self, expected: Shape) -> Result<(), ImageError> {
        if self.shape == expected { Ok(()) } else { Err(ImageError::Shape { expected, came: self.shape }) }
    }
}

impl ImageFormat {
    /// The format for images normalized as CIFAR-10's usually are; other numbers of channels get one half and one
    /// quarter.
    pub fn usual(channels: usize) -> Self {
        let (mean, deviation) = match channels {
            3 => (CIFAR_MEAN.to_vec(), CIFAR_DEVIATION.to_vec()),
            _ => (vec![0.5; channels], vec![0.25; channels]),
        };
        Self { fraction: 6, mean, deviation }
    }

    /// The pixels as a network was trained on them.
    ///
    /// # Panics
    /// If the image has other channels than the format.
    pub fn normalize(&self, image: &Image) -> Vec<f32> {
        let per_channel = image.shape.pixels() as usize;
        assert_eq!(image.shape.channels, self.mean.len(), "channels of image and format");
        let normal = |(index, &pixel): (usize, &u8)| {
            let channel = index / per_channel;
            (f32::from(pixel) / 255.0 - self.mean[channel]) / self.deviation[channel]
        };
        image.pixels.iter().enumerate().map(normal).collect()
    }

    /// The pixels as integers with [`Self::fraction`] fraction bits.
    ///
    /// # Panics
    /// If the image has other channels than the format.
    pub fn encode(&self, image: &Image) -> Vec<i64> {
        let unit = f64::from(1_u32 << self.fraction);
        self.normalize(image).into_iter().map(|value| (f64::from(value) * unit).round() as i64).collect()
    }
}

/// An image that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// Another number of bytes than pixels.
    #[error("an image of {shape} has {expected} bytes, {came} came")]
    Bytes {
        /// The size that was promised.
        shape: Shape,
        /// How many bytes that is.
        expected: u64,
        /// How many came.
        came: usize,
    },
    /// Another size than the network takes.
    #[error("the image is {came}, the network takes {expected}")]
    Shape {
        /// What the network takes.
        expected: Shape,
        /// What came.
        came: Shape,
    },
}

/// Bytes from a seed, for tests, recipes and benchmarks; the same on every machine.
pub(crate) struct RandomBytes {
    reader: blake3::OutputReader,
    buffer: [u8; 4096],
    used: usize,
}

impl RandomBytes {
    /// The stream of one purpose and seed.
    pub(crate) fn new(purpose: &str, seed: u64) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("sordino network random bytes v1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(purpose.as_bytes());
        Self { reader: hasher.finalize_xof(), buffer: [0; 4096], used: 4096 }
    }

    fn take<const COUNT: usize>(&mut self) -> [u8; COUNT] {
        if self.used + COUNT > self.buffer.len() {
            self.reader.fill(&mut self.buffer);
            self.used = 0;
        }
        let mut bytes = [0; COUNT];
        bytes.copy_from_slice(&self.buffer[self.used..self.used + COUNT]);
        self.used += COUNT;
        bytes
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take::<1>()[0]
    }

    /// A number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f32 {
        f32::from(u16::from_le_bytes(self.take())) / 65535.0
    }

    /// A number with mean 0 and deviation 1, nearly normal: the sum of four uniform ones.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.unit()).sum();
        (sum - 2.0) * 3.0_f32.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_image() {
        let shape = Shape::image(8);
        assert_eq!(Image::random(shape, 7), Image::random(shape, 7));
        assert_ne!(Image::random(shape, 7), Image::random(shape, 8));
    }

    #[test]
    fn an_image_of_the_wrong_size_is_refused() {
        let error = Image::new(Shape::image(2), vec![0; 11]).unwrap_err();
        assert_eq!(error.to_string(), "an image of 3x2x2 has 12 bytes, 11 came");
        let error = Image::random(Shape::image(4), 1).expect_shape(Shape::image(8)).unwrap_err();
        assert_eq!(error.to_string(), "the image is 3x4x4, the network takes 3x8x8");
    }

    #[test]
    fn integers_are_the_normalized_pixels_at_their_scale() {
        let format = ImageFormat::usual(3);
        let image = Image::random(Shape::image(4), 3);
        for (integer, float) in format.encode(&image).into_iter().zip(format.normalize(&image)) {
            assert!((integer as f32 / 64.0 - float).abs() <= 1.0 / 128.0 + 1e-5);
        }
    }

    #[test]
    fn random_numbers_have_the_promised_moments() {
        let mut stream = RandomBytes::new("test", 1);
        let values: Vec<f32> = (0..20_000).map(|_| stream.normal()).collect();
        let mean = values.iter().sum::<f32>() / 20_000.0;
        let square = values.iter().map(|value| value * value).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.05, "{mean} {square}");
    }
}
