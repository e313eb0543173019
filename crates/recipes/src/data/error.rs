//! Why a set of images cannot be used.

use std::path::PathBuf;

use super::{DataKind, FoundSet};
use crate::file::FileError;

/// A set of images that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Nobody said where it is.
    #[error("{} is read from a folder; say which with --data DIR; {}", kind.name(), kind.source())]
    NoDirectory {
        /// The set.
        kind: DataKind,
    },
    /// The folder holds something else.
    #[error("{} is not in {}: {missing}; the official release is {}", kind.name(), directory.display(), kind.origin())]
    NotFound {
        /// The set.
        kind: DataKind,
        /// Where it was looked for.
        directory: PathBuf,
        /// What is not there.
        missing: String,
    },
    /// Images of this set have one size.
    #[error("images of {} have sides of {expected} pixels, {side} were asked for", kind.name())]
    Side {
        /// The set.
        kind: DataKind,
        /// What was asked for.
        side: usize,
        /// What it has.
        expected: usize,
    },
    /// A file has another length.
    #[error("{} has {came} bytes, expected {expected}: unpack the release again", path.display())]
    Length {
        /// Which.
        path: PathBuf,
        /// What it should have.
        expected: u64,
        /// What it has.
        came: u64,
    },
    /// A class that does not exist.
    #[error("{}: image {image} is of class {class}, but there are {classes} classes", path.display())]
    Class {
        /// The file.
        path: PathBuf,
        /// The image's number.
        image: usize,
        /// Its class.
        class: u64,
        /// How many there are.
        classes: usize,
    },
    /// A pickle of another kind.
    #[error("{} is no python batch of the release: {reason}", path.display())]
    Pickle {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An image file that cannot be decoded.
    #[error("{} is no usable image", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        source: BadImage,
    },
    /// Some of the images to pack cannot be used.
    #[error(
        "{count} of {all} images cannot be used; --skip-bad leaves such out:\n  {}",
        bad.join("\n  ")
    )]
    BadImages {
        /// How many.
        count: usize,
        /// How many there are.
        all: usize,
        /// The first of them, each with its reason.
        bad: Vec<String>,
    },
    /// All of the images to pack cannot be used.
    #[error("none of {all} images can be used:\n  {}", bad.join("\n  "))]
    NoGoodImage {
        /// How many there are.
        all: usize,
        /// The first of them, each with its reason.
        bad: Vec<String>,
    },
    /// A line of a list that cannot be understood.
    #[error("{}, line {line}: {reason}", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A packed set that is not whole.
    #[error("{}: {reason}", path.display())]
    Packed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A set that is no folder of image files.
    #[error("{set}, has few files already; Tiny ImageNet and folders of images can be packed")]
    NothingToPack {
        /// The set.
        set: FoundSet,
    },
    /// Packed there is another set.
    #[error("{} holds a packed set; name another folder, or replace it with --force", directory.display())]
    AlreadyPacked {
        /// Where.
        directory: PathBuf,
    },
    /// What is packed lies where the result was to go.
    #[error("{} is what is read; name another folder for the packed set", directory.display())]
    IntoItself {
        /// Where.
        directory: PathBuf,
    },
    /// Nothing there.
    #[error("{} does not exist", directory.display())]
    Missing {
        /// What was named.
        directory: PathBuf,
    },
    /// Something else than a folder.
    #[error("{} is no folder; unpack the archive and name the folder", directory.display())]
    NoFolder {
        /// What was named.
        directory: PathBuf,
    },
    /// No set that is known.
    #[error("{} holds neither CIFAR, nor Tiny ImageNet, nor class folders with images", directory.display())]
    Unknown {
        /// The folder.
        directory: PathBuf,
    },
    /// More than one set.
    #[error(
        "{} holds {} sets, name the folder of one:\n  {}",
        directory.display(),
        found.len(),
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
    )]
    Several {
        /// The folder.
        directory: PathBuf,
        /// What it holds.
        found: Vec<FoundSet>,
    },
    /// No class folders with images.
    #[error(
        "{} holds no images in class folders; expected {}/CLASS/*.png, .jpg, .jpeg or .webp",
        directory.display(),
        directory.display()
    )]
    NoClasses {
        /// The folder.
        directory: PathBuf,
    },
    /// The test folder has a class that the training folder has not.
    #[error("{} has class {class}, which the training images do not have", directory.display())]
    UnknownClass {
        /// The test folder.
        directory: PathBuf,
        /// The class.
        class: String,
    },
    /// Some classes are a model's, and this one is not.
    #[error(
        "the class {class:?} of the images is none of the model's, although others are; rename the folder as the model \
         names its class, or leave it out"
    )]
    ClassOfNoModel {
        /// The class.
        class: String,
    },
    /// More than memory or labels hold.
    #[error("{what} of {value} is too much; at most {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        value: u64,
        /// What is allowed.
        limit: u64,
    },
}

/// Why an image file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadImage {
    /// A JPEG without its end.
    #[error("the JPEG ends before its picture does; copy it again")]
    Cut,
    /// Another kind of file, or a damaged one.
    #[error(transparent)]
    Decode(#[from] image::ImageError),
}
