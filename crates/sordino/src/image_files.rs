//! Image files as a network takes them, alone or in folders; [`client::images`] decodes them.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

pub use client::images::{ImageFault, MAX_FILE_BYTES, MAX_PIXELS, MAX_SIDE, decode_image};
use network::image::Image;
use network::shape::Shape;

/// What names of image files end in.
const EXTENSIONS: [&str; 8] = ["png", "jpg", "jpeg", "webp", "gif", "bmp", "tif", "tiff"];

/// Reads one image as a network with this input takes it (`outline.input`).
///
/// # Errors
/// When the file cannot be read, is no image of a known kind, is damaged or too large, or the network takes neither
/// one nor three channels.
pub fn load_image(path: &Path, input: Shape) -> Result<Image, ImageFileError> {
    let unreadable = |source| ImageFileError::Unreadable { path: path.into(), source };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
        .map_err(unreadable)?;
    decode_image(&bytes, input).map_err(|fault| ImageFileError::Image { path: path.into(), fault })
}

/// The image files of a folder, sorted by name; files of other kinds and folders inside are passed over.
///
/// # Errors
/// When the folder cannot be read or holds no image.
pub fn list_images(folder: &Path) -> Result<Vec<PathBuf>, ImageFileError> {
    let unreadable = |source| ImageFileError::Unreadable { path: folder.into(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known)) && path.is_file() {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(ImageFileError::NoImages { folder: folder.into() });
    }
    paths.sort();
    Ok(paths)
}

/// Files as they were named; folders become the images in them.
///
/// # Errors
/// When one is neither a file nor a folder with images.
pub fn image_paths(named: &[PathBuf]) -> Result<Vec<PathBuf>, ImageFileError> {
    let mut paths = Vec::new();
    for path in named {
        if path.is_dir() {
            paths.extend(list_images(path)?);
        } else if path.is_file() {
            paths.push(path.clone());
        } else {
            return Err(ImageFileError::Missing { path: path.clone() });
        }
    }
    Ok(paths)
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
    /// Nothing there.
    #[error("{} is no file and no folder", path.display())]
    Missing {
        /// What was named.
        path: PathBuf,
    },
    /// A folder without images.
    #[error(
        "{} holds no image; expected files whose names end in .png, .jpg, .jpeg, .webp, .gif, .bmp, .tif or .tiff, directly in the folder",
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
