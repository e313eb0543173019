//! Images with labels, on the host and on a device.

use network::shape::Shape;

use super::LearnError;
use crate::assemble::TrainableNetwork;
use crate::augment::Pixels;
use crate::tensor::{Device, Tensor, guarded};

/// Images with labels, on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageSet<'a> {
    /// Of one image.
    pub(crate) shape: Shape,
    /// How many classes there are.
    pub(crate) classes: usize,
    /// One image after the other: channels, rows, columns.
    pub(crate) images: &'a [u8],
    /// The class of each.
    pub(crate) labels: &'a [u16],
    /// Of each channel, on a scale from 0 to 1.
    pub(crate) mean: &'a [f32],
    /// Of each channel, on the same scale.
    pub(crate) deviation: &'a [f32],
}

/// Images with labels, on a device.
#[derive(Debug)]
pub(crate) struct DeviceImages {
    pub(crate) pixels: Pixels,
    pub(crate) labels: Tensor,
    pub(crate) classes: usize,
}

impl DeviceImages {
    /// Moves images to a device.
    ///
    /// # Errors
    /// When counts do not fit, a label is no class, or the device has no room.
    pub(crate) fn new(set: &ImageSet<'_>, device: Device) -> Result<Self, LearnError> {
        let ImageSet { shape, classes, images, labels, mean, deviation } = *set;
        let count = labels.len();
        if count == 0 || images.len() as u64 != shape.scalars() * count as u64 {
            return Err(LearnError::Images { bytes: images.len(), labels: count, shape });
        }
        if mean.len() != shape.channels || deviation.len() != shape.channels {
            let came = mean.len().min(deviation.len());
            return Err(LearnError::Normalization { channels: shape.channels, came });
        }
        if let Some(label) = labels.iter().find(|label| usize::from(**label) >= classes) {
            return Err(LearnError::Label { label: *label, classes });
        }
        let labels: Vec<i64> = labels.iter().map(|label| i64::from(*label)).collect();
        let place = || Self {
            pixels: Pixels::new(images, shape, mean, deviation, device),
            labels: device.integers(&labels, &[count as i64]),
            classes,
        };
        Ok(guarded(place)?)
    }

    pub(crate) fn len(&self) -> usize {
        self.pixels.count() as usize
    }

    /// Whether a network takes such images and knows as many classes.
    pub(super) fn check(&self, network: &TrainableNetwork) -> Result<(), LearnError> {
        self.check_fit(network.spec().name(), network.input_shape(), network.classes())
    }

    /// The same for whatever takes images of a shape and knows so many classes.
    pub(super) fn check_fit(&self, name: &str, expected: Shape, classes: usize) -> Result<(), LearnError> {
        let (network, came) = (name.to_owned(), self.pixels.shape());
        if expected != came {
            return Err(LearnError::Input { network, expected, came });
        }
        match classes == self.classes {
            true => Ok(()),
            false => Err(LearnError::Classes { network, expected: classes, came: self.classes }),
        }
    }
}
