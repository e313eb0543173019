//! Sum-pooling: average pooling without its division, which the next layer's weights take over.

use std::ops::Range;

use super::RingError;
use super::geometry::{ConvGeometry, ConvShape, Extent, GeometryError};
use super::kernel::polyphase::RunSum;
use super::kernel::vectorized;
use super::linear::Region;
use super::linear::planes::Planes;
use super::vector::{RingVector, Words};
use crate::cpu::CpuFeatures;
use crate::secret::Wipe;

/// A pooling layer that adds up the values under each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumPool {
    geometry: ConvGeometry,
}

impl SumPool {
    /// A window that moves over each channel; the border of zeros adds nothing.
    ///
    /// # Errors
    /// As for [`ConvGeometry::new`].
    pub fn new(
        channels: usize,
        input: Extent,
        window: Extent,
        stride: Extent,
        padding: Extent,
    ) -> Result<Self, GeometryError> {
        let geometry = ConvGeometry::new(ConvShape {
            in_channels: channels,
            out_channels: channels,
            input,
            filter: window,
            stride,
            padding,
            dilation: Extent::square(1),
            groups: channels,
        })?;
        Ok(Self { geometry })
    }

    /// One window over the whole image: one sum per channel.
    ///
    /// # Errors
    /// As for [`ConvGeometry::new`].
    pub fn global(channels: usize, input: Extent) -> Result<Self, GeometryError> {
        Self::new(channels, input, input, Extent::square(1), Extent::square(0))
    }

    /// The layer's shape, as a depthwise convolution.
    pub fn geometry(&self) -> &ConvGeometry {
        &self.geometry
    }

    /// Pools one or more images.
    ///
    /// # Errors
    /// When the values are not a whole number of images.
    pub fn apply(&self, input: &RingVector) -> Result<RingVector, RingError> {
        self.apply_channels(input, 0..self.geometry.shape().out_channels)
    }

    /// Pools some channels of one or more images. For one image, the channels' outputs concatenate.
    ///
    /// # Errors
    /// When the values are not a whole number of images, or there are no such channels.
    pub fn apply_channels(
        &self,
        input: &RingVector,
        channels: Range<usize>,
    ) -> Result<RingVector, RingError> {
        self.apply_at(input, channels, CpuFeatures::available())
    }

    fn apply_at(
        &self,
        input: &RingVector,
        channels: Range<usize>,
        features: CpuFeatures,
    ) -> Result<RingVector, RingError> {
        let image = self.geometry.input_len();
        if input.is_empty() || !input.len().is_multiple_of(image) {
            return Err(RingError::NotWholeImages { image, found: input.len() });
        }
        let region = Region { channels, rows: 0..self.geometry.output().height };
        region.check(&self.geometry)?;
        let mut output = RingVector::zeros(input.width(), input.len() / image * region.len(&self.geometry));
        let mask = input.width().mask();
        match (input.words(), output.words_mut()) {
            (Words::Narrow(values), Words::Narrow(output)) => {
                self.pool(values, region.channels, mask as u32, features, output);
            }
            (Words::Wide(values), Words::Wide(output)) => {
                self.pool(values, region.channels, mask, features, output);
            }
            _ => unreachable!("the storage follows from the width"),
        }
        Ok(output)
    }

    fn pool<W: super::word::Word>(
        &self,
        values: &[W],
        channels: Range<usize>,
        mask: W,
        features: CpuFeatures,
        output: &mut [W],
    ) {
        let shape = self.geometry.shape();
        let is_global = shape.filter == shape.input && shape.padding == Extent::square(0);
        if !is_global {
            let planes = Planes::new(&self.geometry);
            let mut dealt = planes.deal(values);
            planes.pool(&dealt, channels, mask, features, output);
            dealt.wipe();
        } else if !channels.is_empty() {
            let area = shape.input.area();
            for (values, sums) in
                values.chunks_exact(self.geometry.input_len()).zip(output.chunks_exact_mut(channels.len()))
            {
                let values = &values[channels.start * area..channels.end * area];
                vectorized(features, RunSum { values, length: area, mask, sums });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;
    use crate::ring::kernel::levels;
    use crate::ring::reference;
    use crate::ring::share::Share;
    use crate::ring::width::RingWidth;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]
        #[test]
        fn pooling_equals_its_definition(
            channels in 1_usize..5,
            sizes in prop::array::uniform8(0_usize..4),
            bits in prop::sample::select(vec![16_u32, 20, 24, 32, 33, 41, 64]),
            images in 1_usize..3,
        ) {
            let pair = |at: usize, least: usize| Extent { height: sizes[at] + least, width: sizes[at + 1] + least };
            let Ok(pool) = SumPool::new(channels, pair(0, 4), pair(2, 1), pair(4, 1), pair(6, 0)) else {
                return Err(TestCaseError::reject("the window must fit"));
            };
            let mut generator = Seed::from_bytes([bits as u8; 32]).generator();
            let width = RingWidth::new(bits).unwrap();
            let count = images * pool.geometry().input_len();
            let input = Share::random(width, count, &mut generator);
            let expected = reference::sum_pool(pool.geometry(), input.expose());
            for features in levels() {
                let found = pool.apply_at(input.expose(), 0..channels, features).unwrap();
                prop_assert!(found == expected, "{pool:?}, {bits} bits, {features:?}");
            }
        }
    }

    #[test]
    fn global_pooling_sums_whole_channels() {
        let pool = SumPool::global(3, Extent { height: 2, width: 2 }).unwrap();
        let width = RingWidth::new(8).unwrap();
        let input = RingVector::from_unsigned(width, &[1, 2, 3, 4, 5, 6, 7, 8, 255, 1, 1, 1]);
        assert_eq!(pool.apply(&input).unwrap().to_unsigned(), [10, 26, 2]);
        assert_eq!(pool.apply_channels(&input, 1..3).unwrap().to_unsigned(), [26, 2]);
        assert_eq!(pool.apply_channels(&input, 1..1).unwrap().len(), 0);
    }

    #[test]
    fn what_does_not_fit_the_layer_is_refused() {
        let width = RingWidth::new(8).unwrap();
        let pool = SumPool::global(3, Extent::square(2)).unwrap();
        assert_eq!(
            pool.apply(&RingVector::zeros(width, 13)),
            Err(RingError::NotWholeImages { image: 12, found: 13 })
        );
        assert!(matches!(
            pool.apply_channels(&RingVector::zeros(width, 12), 2..4),
            Err(RingError::Region { channels: 3, .. })
        ));
        let wide = Extent::square(3);
        assert!(SumPool::new(1, Extent::square(2), wide, Extent::square(1), Extent::square(0)).is_err());
    }
}
