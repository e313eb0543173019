//! Images and their classes: what a network learns from and is tried on.
//!
//! ```text
//! cifar      CIFAR-10 and CIFAR-100, the binary and the python release
//! folder     Tiny ImageNet, ImageNet-style folders, any folder of class folders
//! packed     such a set in a few large files, to carry it
//! synthetic  shapes in colors, drawn from a seed; nothing to download
//! split      the fixed held-out part of a training set, for every choice that is made between networks
//! classes    the classes of a set beside those of a model
//! find       which set a folder holds
//! check      what is wrong with it, where the official release comes from
//! ```
//!
//! A whole set is held in memory as bytes; normalization happens where the images are used.

mod check;
mod cifar;
mod classes;
mod error;
mod find;
mod folder;
mod packed;
mod pickle;
mod split;
mod synthetic;

use std::path::Path;

use network::image::Image;
use network::inference_model::ImageFormat;
use network::shape::Shape;
use serde::{Deserialize, Serialize};

pub use check::{Finding, Survey, survey};
pub use classes::ClassMatch;
pub use error::{BadImage, DataError};
pub use find::{FoundSet, find};
pub use packed::{PackOptions, Packed, pack};
pub use split::{HELD_OUT_SEED, held_out_split};
pub use synthetic::{SyntheticSize, synthetic};

/// Fraction bits of a pixel in a frozen model.
const IMAGE_FRACTION: u32 = 6;

/// Which set of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataKind {
    /// 50,000 and 10,000 images of 32x32 in 10 classes.
    Cifar10,
    /// The same in 100 classes.
    Cifar100,
    /// 100,000 and 10,000 images of 64x64 in 200 classes.
    TinyImageNet,
    /// Folders `train` and `val` or `test` of class folders, or class folders alone.
    Folder,
    /// Shapes in colors, drawn from a seed.
    Synthetic,
}

impl DataKind {
    /// What to call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cifar10 => "CIFAR-10",
            Self::Cifar100 => "CIFAR-100",
            Self::TinyImageNet => "Tiny ImageNet",
            Self::Folder => "a folder of images",
            Self::Synthetic => "the synthetic set",
        }
    }

    /// Side of an image, unless a recipe resizes it, and number of classes, where the set fixes them.
    pub fn dimensions(self) -> Option<(usize, usize)> {
        match self {
            Self::Cifar10 => Some((32, 10)),
            Self::Cifar100 => Some((32, 100)),
            Self::TinyImageNet => Some((64, 200)),
            Self::Folder | Self::Synthetic => None,
        }
    }

    /// Side of an image, where a request names none.
    fn usual_side(self) -> usize {
        self.dimensions().map_or(32, |(side, _)| side)
    }

    /// Where the official release comes from.
    pub fn origin(self) -> &'static str {
        match self {
            Self::Cifar10 => {
                "https://www.cs.toronto.edu/~kriz/cifar.html (cifar-10-binary.tar.gz or cifar-10-python.tar.gz)"
            }
            Self::Cifar100 => {
                "https://www.cs.toronto.edu/~kriz/cifar.html (cifar-100-binary.tar.gz or cifar-100-python.tar.gz)"
            }
            Self::TinyImageNet => "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            Self::Folder => "your own images: DIR/train/CLASS/*.png and DIR/test/CLASS/*.png",
            Self::Synthetic => "drawn by Sordino itself; nothing to download",
        }
    }

    /// The same as a clause.
    fn source(self) -> String {
        match self {
            Self::Folder | Self::Synthetic => format!("expected {}", self.origin()),
            _ => format!("the official release comes from {}", self.origin()),
        }
    }

    /// Mean and deviation of each channel, where the papers have fixed ones.
    pub(crate) fn normalization(self) -> ([f32; 3], [f32; 3]) {
        match self {
            Self::Cifar10 => ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010]),
            Self::Cifar100 => ([0.5071, 0.4867, 0.4408], [0.2675, 0.2565, 0.2761]),
            Self::TinyImageNet => ([0.480, 0.448, 0.398], [0.277, 0.269, 0.282]),
            Self::Folder => ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
            Self::Synthetic => ([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]),
        }
    }
}

/// How pixels become numbers: `(pixel / 255 - mean) / deviation`, channel by channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalization {
    /// Of each channel, in the unit interval.
    pub mean: Vec<f32>,
    /// Of each channel.
    pub deviation: Vec<f32>,
}

impl Normalization {
    /// Whether it makes numbers of the pixels of so many channels.
    pub(crate) fn is_usable(&self, channels: usize) -> bool {
        let counts = (self.mean.len(), self.deviation.len());
        counts == (channels, channels) && self.deviation.iter().all(|deviation| *deviation > 0.0)
    }

    /// The same as a frozen model writes it.
    pub fn image_format(&self) -> ImageFormat {
        ImageFormat { fraction: IMAGE_FRACTION, mean: self.mean.clone(), deviation: self.deviation.clone() }
    }
}

/// Images with their classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// What to call it.
    pub name: String,
    /// The size of each image.
    pub shape: Shape,
    /// The names of the classes.
    pub classes: Vec<String>,
    /// Subtracted from each channel, in the unit interval.
    pub mean: Vec<f32>,
    /// Divides each channel.
    pub deviation: Vec<f32>,
    /// Image, channel, row, column.
    pub images: Vec<u8>,
    /// The class of each image.
    pub labels: Vec<u16>,
}

impl Dataset {
    /// How many images there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Bytes of one image.
    fn stride(&self) -> usize {
        self.shape.scalars() as usize
    }

    /// One image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn image(&self, index: usize) -> Image {
        let pixels = self.images[index * self.stride()..(index + 1) * self.stride()].to_vec();
        Image::new(self.shape, pixels).expect("every image of a set has its shape")
    }

    /// Some of the images, in the given order.
    ///
    /// # Panics
    /// If there is no such image.
    #[must_use]
    pub fn subset(&self, indices: &[u32]) -> Self {
        let mut images = Vec::with_capacity(indices.len() * self.stride());
        for &index in indices {
            let start = index as usize * self.stride();
            images.extend_from_slice(&self.images[start..start + self.stride()]);
        }
        let labels = indices.iter().map(|index| self.labels[*index as usize]).collect();
        Self { images, labels, ..self.without_images() }
    }

    /// The first images, at most so many.
    #[must_use]
    pub fn first(&self, count: usize) -> Self {
        let count = count.min(self.len());
        let images = self.images[..count * self.stride()].to_vec();
        Self { images, labels: self.labels[..count].to_vec(), ..self.without_images() }
    }

    fn without_images(&self) -> Self {
        Self {
            name: self.name.clone(),
            shape: self.shape,
            classes: self.classes.clone(),
            mean: self.mean.clone(),
            deviation: self.deviation.clone(),
            images: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// How its pixels become numbers.
    pub fn normalization(&self) -> Normalization {
        Normalization { mean: self.mean.clone(), deviation: self.deviation.clone() }
    }
}

/// Images to learn from and images to be tried on.
#[derive(Clone, Debug, PartialEq)]
pub struct DataPair {
    /// To learn from.
    pub training: Dataset,
    /// To be tried on.
    pub test: Dataset,
}

/// What to open and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataRequest {
    /// Which set.
    pub kind: DataKind,
    /// The side that images of a folder are resized to; the set's own where absent.
    pub side: Option<usize>,
    /// Sizes and seed of the synthetic set.
    pub synthetic: SyntheticSize,
}

impl DataRequest {
    /// A set in its usual size.
    pub fn new(kind: DataKind) -> Self {
        Self { kind, side: None, synthetic: SyntheticSize::default() }
    }
}

/// Opens a set of images; the synthetic one needs no folder.
///
/// # Errors
/// When the folder is missing or does not hold the set, or a file of it is damaged.
pub fn open(request: &DataRequest, directory: Option<&Path>) -> Result<DataPair, DataError> {
    let directory = || directory.ok_or(DataError::NoDirectory { kind: request.kind });
    match request.kind {
        DataKind::Synthetic => Ok(synthetic(&request.synthetic)),
        DataKind::Cifar10 | DataKind::Cifar100 => {
            if let Some(side) = request.side.filter(|side| *side != cifar::SIDE) {
                return Err(DataError::Side { kind: request.kind, side, expected: cifar::SIDE });
            }
            cifar::open(request.kind, directory()?)
        }
        kind @ (DataKind::TinyImageNet | DataKind::Folder) => {
            let (directory, side) = (directory()?, request.side.unwrap_or(kind.usual_side()));
            match kind {
                _ if packed::is_packed(directory) => packed::open(directory, kind, side),
                DataKind::TinyImageNet => folder::list_tiny_imagenet(directory)?.load(kind, side),
                _ => folder::list_folder(directory)?.load(kind, side),
            }
        }
    }
}

/// A set of three color channels with the usual normalization of its kind.
fn color_set(kind: DataKind, name: &str, side: usize, classes: Vec<String>) -> Dataset {
    let (mean, deviation) = kind.normalization();
    Dataset {
        name: name.to_owned(),
        shape: Shape::image(side),
        classes,
        mean: mean.to_vec(),
        deviation: deviation.to_vec(),
        images: Vec::new(),
        labels: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Dataset {
        let mut set = color_set(DataKind::Folder, "test", 1, vec!["a".into(), "b".into()]);
        set.images = (0..12).collect();
        set.labels = vec![0, 1, 1, 0];
        set
    }

    #[test]
    fn a_subset_keeps_images_beside_their_classes() {
        let subset = small().subset(&[3, 1]);
        assert_eq!(subset.labels, [0, 1]);
        assert_eq!(subset.images, [9, 10, 11, 3, 4, 5]);
        assert_eq!(subset.image(1).pixels(), [3, 4, 5]);
        assert_eq!(small().first(2).labels, [0, 1]);
        assert_eq!(small().first(9), small());
    }

    #[test]
    fn a_set_that_is_not_drawn_needs_a_folder() {
        let error = open(&DataRequest::new(DataKind::Cifar100), None).unwrap_err();
        assert!(error.to_string().contains("--data"), "{error}");
        let request = DataRequest { side: Some(64), ..DataRequest::new(DataKind::Cifar10) };
        let error = open(&request, Some(Path::new("."))).unwrap_err();
        assert!(error.to_string().contains("32"), "{error}");
    }
}
