//! Image files as a network takes them, alone or in folders; [`client::images`] decodes them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub use client::images::{ImageFault, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE, decode_image};
use network::image::Image;
use network::shape::Shape;
use network::text::counted;

/// What names of image files end in.
const EXTENSIONS: [&str; 9] = ["png", "jpg", "jpeg", "jfif", "webp", "gif", "bmp", "tif", "tiff"];
/// What files of other names begin with, if they are images. Two letters, as BMP has, are too few to tell.
const BEGINNINGS: [&[u8]; 5] = [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"II*\0", b"MM\0*"];
/// The name that stands for standard input.
const STANDARD_INPUT: &str = "-";
/// How many of the files that are left out a note names.
const NAMED: usize = 3;

/// Reads one image as a network with this input takes it (`outline.input`): a file, a pipe, or with `-` standard input.
///
/// # Errors
/// When the file cannot be read, is no image of a known kind, is damaged or too large, or the network takes neither
/// one nor three channels.
pub fn load_image(path: &Path, input: Shape) -> Result<Image, ImageFileError> {
    let unreadable = |source| ImageFileError::Unreadable { path: path.into(), source };
    let bytes = if path == Path::new(STANDARD_INPUT) {
        read_limited(io::stdin().lock())
    } else {
        File::open(path).and_then(read_limited)
    };
    let bytes = bytes.map_err(unreadable)?;
    decode_image(&bytes, input).map_err(|fault| ImageFileError::Image { path: path.into(), fault })
}

/// At most one byte more than an image may have.
fn read_limited(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a folder holds, sorted by name, hidden entries left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFolder {
    /// Files whose name ends, or whose contents begin, as an image's does.
    pub images: Vec<PathBuf>,
    /// Other files.
    pub others: Vec<PathBuf>,
    /// How many folders are inside; they are passed over.
    pub folders: usize,
}

impl ImageFolder {
    /// Looks at the files right in a folder.
    ///
    /// # Errors
    /// When the folder cannot be read or holds no image.
    pub fn read(folder: &Path) -> Result<Self, ImageFileError> {
        let unreadable = |source| ImageFileError::Unreadable { path: folder.into(), source };
        let mut found = Self::default();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if is_hidden {
                continue;
            }
            if path.is_dir() {
                found.folders += 1;
            } else if path.is_file() && (is_named_image(&path) || begins_as_image(&path)) {
                found.images.push(path);
            } else {
                found.others.push(path);
            }
        }
        if found.images.is_empty() {
            return Err(ImageFileError::NoImages { folder: folder.into() });
        }
        found.images.sort();
        found.others.sort();
        Ok(found)
    }

    /// What was left out and why, for people; nothing where all was taken.
    fn note(&self, folder: &Path) -> Option<String> {
        let mut left_out = Vec::new();
        if !self.others.is_empty() {
            let names = self.others.iter().filter_map(|path| path.file_name()).take(NAMED);
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            let more = if self.others.len() > NAMED { ", …" } else { "" };
            let files = counted(self.others.len() as u64, "file");
            let are = if self.others.len() == 1 { "that is no image" } else { "that are no images" };
            left_out.push(format!("{files} {are} by name or beginning ({}{more})", names.join(", ")));
        }
        if self.folders > 0 {
            left_out
                .push(format!("{}, whose images are not looked for", counted(self.folders as u64, "folder")));
        }
        let taken = counted(self.images.len() as u64, "image");
        let left_out = (!left_out.is_empty()).then(|| left_out.join("; "))?;
        Some(format!("{}: {taken} taken; left out: {left_out}", folder.display()))
    }
}

fn is_named_image(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// A file that cannot be read does not.
fn begins_as_image(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(12).read_to_end(&mut beginning));
    let is_webp = beginning.starts_with(b"RIFF") && beginning.ends_with(b"WEBP");
    read.is_ok() && (is_webp || BEGINNINGS.iter().any(|known| beginning.starts_with(known)))
}

/// The image files of a folder, sorted by name; files of other kinds and folders inside are passed over.
///
/// # Errors
/// When the folder cannot be read or holds no image.
pub fn list_images(folder: &Path) -> Result<Vec<PathBuf>, ImageFileError> {
    Ok(ImageFolder::read(folder)?.images)
}

/// Images to read, and what people should know about those that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedImages {
    /// In the order of their names.
    pub paths: Vec<PathBuf>,
    /// A line for each folder of which something was left out.
    pub notes: Vec<String>,
}

/// Files and pipes as they were named, `-` for standard input; folders become the images in them.
///
/// # Errors
/// When one does not exist, or is a folder without images.
pub fn named_images(named: &[PathBuf]) -> Result<NamedImages, ImageFileError> {
    let mut images = NamedImages::default();
    for path in named {
        if path.is_dir() {
            let folder = ImageFolder::read(path)?;
            images.notes.extend(folder.note(path));
            images.paths.extend(folder.images);
        } else if path == Path::new(STANDARD_INPUT) {
            if images.paths.contains(path) {
                return Err(ImageFileError::InputTwice);
            }
            images.paths.push(path.clone());
        } else if path.exists() {
            images.paths.push(path.clone());
        } else {
            return Err(ImageFileError::Missing { path: path.clone() });
        }
    }
    Ok(images)
}

/// All images of a folder, or so many of them, in the order of their names.
///
/// # Errors
/// As [`list_images`] and [`load_image`]; the first file that is not usable is named.
pub fn load_images(
    folder: &Path,
    input: Shape,
    at_most: Option<usize>,
) -> Result<Vec<Image>, ImageFileError> {
    let paths = list_images(folder)?;
    paths.iter().take(at_most.unwrap_or(usize::MAX)).map(|path| load_image(path, input)).collect()
}

/// A file or folder of images that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageFileError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Standard input holds one image.
    #[error("- was named twice; standard input is one image")]
    InputTwice,
    /// Nothing there.
    #[error("{} does not exist; expected an image, a folder of images, or - for standard input", path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// A folder without images.
    #[error(
        "{} holds no image; expected files that are PNG, JPEG, WebP, GIF, BMP or TIFF by name or beginning, directly in the folder",
        folder.display()
    )]
    NoImages {
        /// The folder.
        folder: PathBuf,
    },
    /// A file that is no usable image.
    #[error("{} is not usable", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        fault: ImageFault,
    },
}

#[cfg(test)]
mod tests;
