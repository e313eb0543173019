//! Convolutions and fully connected layers of ring values with the server's small weights.
//!
//! ```text
//! weights  -> PackedWeights            once per layer
//! input    -> PackedInput              once per inference
//!             both, and a Region       as many calls as there are threads
//!          -> output of that region
//! ```

mod digits;
mod panels;
pub(super) mod planes;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use self::digits::DigitPlan;
use self::panels::Panels;
use self::planes::Planes;
use super::RingError;
use super::geometry::ConvGeometry;
use super::kernel::dot::{DotKernel, LANES, MAXIMUM_PANELS};
use super::kernel::supported;
use super::vector::{RingVector, Words, on_words};
use super::width::RingWidth;
use crate::cpu::CpuFeatures;
use crate::secret::Wipe;

/// Output channels that are computed together; parts of a split layer best begin at multiples of it.
pub const CHANNEL_BLOCK: usize = LANES * MAXIMUM_PANELS;

/// A layer's weights, in the order output channel, input channel of the group, row, column.
#[derive(Clone, Copy)]
pub enum Weights<'a> {
    /// At most eight bits: the working point.
    Bytes(&'a [i8]),
    /// More than eight bits.
    Halves(&'a [i16]),
}

impl Weights<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(weights) => weights.len(),
            Self::Halves(weights) => weights.len(),
        }
    }

    fn get(&self, index: usize) -> i16 {
        match self {
            Self::Bytes(weights) => i16::from(weights[index]),
            Self::Halves(weights) => weights[index],
        }
    }

    fn fit_bytes(&self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

impl fmt::Debug for Weights<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Weights({})", self.len())
    }
}

/// A part of a layer's output: what one thread computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Output channels.
    pub channels: Range<usize>,
    /// Output rows.
    pub rows: Range<usize>,
}

impl Region {
    /// All of the output.
    pub fn whole(geometry: &ConvGeometry) -> Self {
        Self { channels: 0..geometry.shape().out_channels, rows: 0..geometry.output().height }
    }

    pub(super) fn check(&self, geometry: &ConvGeometry) -> Result<(), RingError> {
        let inside = |range: &Range<usize>, end| range.start <= range.end && range.end <= end;
        let (channels, rows) = (geometry.shape().out_channels, geometry.output().height);
        if inside(&self.channels, channels) && inside(&self.rows, rows) {
            Ok(())
        } else {
            Err(RingError::Region { region: self.clone(), channels, rows })
        }
    }

    /// Values of one image inside the region.
    pub(super) fn len(&self, geometry: &ConvGeometry) -> usize {
        self.channels.len() * self.rows.len() * geometry.output().width
    }
}

/// A layer's weights in the order in which the kernels read them. Known to the server only; wiped on drop.
pub struct PackedWeights {
    geometry: ConvGeometry,
    features: CpuFeatures,
    method: Method,
}

/// How the layer is computed: a function of its shape and the processor.
enum Method {
    /// Many channels meet many channels: dot products of digits.
    Panels(Panels),
    /// Few channels per group: multiples of shifted planes.
    Planes(Vec<i16>),
}

impl PackedWeights {
    /// Packs the weights for this processor.
    ///
    /// # Errors
    /// When the number of weights is not the geometry's.
    pub fn new(geometry: ConvGeometry, weights: Weights<'_>) -> Result<Self, RingError> {
        Self::for_features(geometry, weights, CpuFeatures::available())
    }

    /// Packs the weights for kernels that use no more than these features; those this processor lacks do not count.
    ///
    /// # Errors
    /// When the number of weights is not the geometry's.
    pub fn for_features(
        geometry: ConvGeometry,
        weights: Weights<'_>,
        features: CpuFeatures,
    ) -> Result<Self, RingError> {
        if weights.len() != geometry.weight_len() {
            return Err(RingError::WeightCount { expected: geometry.weight_len(), found: weights.len() });
        }
        let features = supported(features);
        let kernel = DotKernel::choose(features, weights.fit_bytes());
        let method = if panels::are_worthwhile(&geometry, kernel.form()) {
            Method::Panels(Panels::new(&geometry, weights, kernel))
        } else {
            Method::Planes((0..weights.len()).map(|index| weights.get(index)).collect())
        };
        Ok(Self { geometry, features, method })
    }

    /// The layer's shape.
    pub fn geometry(&self) -> &ConvGeometry {
        &self.geometry
    }

    /// Lays out one or more images for [`PackedWeights::convolve_region`].
    ///
    /// # Errors
    /// When the values are not a whole number of images.
    pub fn pack_input(&self, input: &RingVector) -> Result<PackedInput, RingError> {
        let image = self.geometry.input_len();
        if input.is_empty() || !input.len().is_multiple_of(image) {
            return Err(RingError::NotWholeImages { image, found: input.len() });
        }
        let (width, images) = (input.width(), input.len() / image);
        let layout = match &self.method {
            Method::Panels(panels) => {
                let plan = panels.plan(width);
                let words = on_words!(input.words(), values => {
                    digits::cut(&self.geometry, &plan, values, self.features)
                });
                Layout::Digits { plan, words }
            }
            Method::Planes(_) => Layout::Planes(match input.words() {
                Words::Narrow(values) => Words::Narrow(Planes::new(&self.geometry).deal(values)),
                Words::Wide(values) => Words::Wide(Planes::new(&self.geometry).deal(values)),
            }),
        };
        Ok(PackedInput { geometry: self.geometry, width, images, layout })
    }

    /// Computes a part of the output: for each image, the region's channels, rows and all columns, in that order.
    ///
    /// # Errors
    /// When the input was packed for another layer, or the region reaches outside the output.
    pub fn convolve_region(&self, input: &PackedInput, region: &Region) -> Result<RingVector, RingError> {
        region.check(&self.geometry)?;
        let mut output = RingVector::zeros(input.width, input.images * region.len(&self.geometry));
        self.convolve_region_into(input, region, &mut output)?;
        Ok(output)
    }

    /// The same into a vector that is there already: large fresh ones cost page faults.
    ///
    /// # Errors
    /// As for [`PackedWeights::convolve_region`], and when the vector's ring or length is not the region's.
    pub fn convolve_region_into(
        &self,
        input: &PackedInput,
        region: &Region,
        output: &mut RingVector,
    ) -> Result<(), RingError> {
        region.check(&self.geometry)?;
        if input.geometry != self.geometry {
            return Err(RingError::ForeignInput);
        }
        if output.width() != input.width {
            return Err(RingError::WidthMismatch { expected: input.width, found: output.width() });
        }
        let expected = input.images * region.len(&self.geometry);
        if output.len() != expected {
            return Err(RingError::LengthMismatch { expected, found: output.len() });
        }
        let mask = input.width.mask();
        match (&self.method, &input.layout) {
            (Method::Panels(panels), Layout::Digits { plan, words }) if *plan == panels.plan(input.width) => {
                let pass = panels::Pass { geometry: &self.geometry, panels, plan, input: words, region };
                match output.words_mut() {
                    Words::Narrow(output) => pass.run(input.images, self.features, mask as u32, output),
                    Words::Wide(output) => pass.run(input.images, self.features, mask, output),
                }
            }
            (Method::Planes(weights), Layout::Planes(dealt)) => {
                let planes = Planes::new(&self.geometry);
                match (dealt, output.words_mut()) {
                    (Words::Narrow(dealt), Words::Narrow(output)) => {
                        planes.convolve(dealt, weights, region, mask as u32, self.features, output);
                    }
                    (Words::Wide(dealt), Words::Wide(output)) => {
                        planes.convolve(dealt, weights, region, mask, self.features, output);
                    }
                    _ => unreachable!("the storage follows from the width"),
                }
            }
            _ => return Err(RingError::ForeignInput),
        }
        Ok(())
    }

    /// Computes the whole output of one or more images.
    ///
    /// # Errors
    /// When the values are not a whole number of images.
    pub fn convolve(&self, input: &RingVector) -> Result<RingVector, RingError> {
        self.convolve_region(&self.pack_input(input)?, &Region::whole(&self.geometry))
    }
}

impl fmt::Debug for PackedWeights {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PackedWeights").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl Drop for PackedWeights {
    fn drop(&mut self) {
        match &mut self.method {
            Method::Panels(panels) => panels.wipe(),
            Method::Planes(weights) => weights.wipe(),
        }
    }
}

/// One or more images, laid out for one layer on one kind of processor. Wiped on drop.
pub struct PackedInput {
    geometry: ConvGeometry,
    width: RingWidth,
    images: usize,
    layout: Layout,
}

enum Layout {
    Digits { plan: DigitPlan, words: Vec<u32> },
    Planes(Words),
}

impl PackedInput {
    /// How many images there are.
    pub fn images(&self) -> usize {
        self.images
    }
}

impl fmt::Debug for PackedInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PackedInput({} images, {})", self.images, self.width)
    }
}

impl Drop for PackedInput {
    fn drop(&mut self) {
        match &mut self.layout {
            Layout::Digits { words, .. } => words.wipe(),
            Layout::Planes(words) => on_words!(words, values => values.wipe()),
        }
    }
}
