//! Bytes of an image file as a network takes them: PNG, JPEG, WebP and, outside browsers, GIF (its first picture), BMP and TIFF.
//!
//! ```text
//! bytes -> size in the header, checked -> pixels, turned upright -> centre of the network's aspect
//!       -> resized (triangle filter) -> channels of the network
//! ```
//!
//! The centre is as large as the image allows: the short side is used whole and the long one cut at both ends, as
//! after "resize the short side, crop the centre", and without the huge intermediate image that a narrow strip would
//! make there. The triangle filter widens when it shrinks an image, so nothing aliases. Transparency is dropped; the
//! rotation that a camera notes is applied; networks with one channel get luminance. The contents decide what kind
//! of file it is, not the name.
//!
//! Files may be hostile: their length, and the width and height their header states, are checked before any pixel is
//! allocated, and the decoder works under a limit of memory.

use std::io::Cursor;

use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits};
use network::image::Image;
use network::shape::Shape;

/// The longest file that is read.
pub const MAX_FILE_BYTES: u64 = 64 << 20;
/// The longest side of an image.
pub const MAX_SIDE: u32 = 16_384;
/// The most pixels of an image.
pub const MAX_PIXELS: u64 = 64 << 20;
/// The most memory a decoder may use, the pixels included.
const MAX_DECODER_BYTES: u64 = 512 << 20;
/// What can be read. In browsers the others would weigh more than they are worth.
const KINDS: &str =
    if cfg!(target_family = "wasm") { "PNG, JPEG or WebP" } else { "PNG, JPEG, WebP, GIF, BMP or TIFF" };

/// Decodes the bytes of an image file as a network with this input takes it.
///
/// # Errors
/// When they are no image of a known kind, damaged or too large, or the network takes neither one nor three channels.
pub fn decode_image(bytes: &[u8], input: Shape) -> Result<Image, ImageFault> {
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ImageFault::File);
    }
    if !matches!(input.channels, 1 | 3) || input.pixels() == 0 {
        return Err(ImageFault::Channels { input });
    }
    let upright = decode(bytes)?;
    let fitted = fit(&upright, input);
    let planes = match input.channels {
        1 => fitted.into_luma8().into_raw(),
        _ => planes(&fitted.into_rgb8().into_raw()),
    };
    Ok(Image::new(input, planes).expect("the image was resized to the input"))
}

fn decode(bytes: &[u8]) -> Result<DynamicImage, ImageFault> {
    if is_cut_jpeg(bytes) {
        return Err(ImageFault::Cut);
    }
    let reader = || ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let (width, height) = reader()?.into_dimensions()?;
    if width.max(height) > MAX_SIDE || u64::from(width) * u64::from(height) > MAX_PIXELS {
        return Err(ImageFault::Size { width, height });
    }
    if width.min(height) == 0 {
        return Err(ImageFault::Empty { width, height });
    }
    let mut reader = reader()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder()?;
    let orientation = decoder.orientation()?;
    let mut decoded = DynamicImage::from_decoder(decoder)?;
    decoded.apply_orientation(orientation);
    Ok(decoded)
}

/// Whether a JPEG ends before its picture does: decoders fill the rest with gray. Between the last start of a scan and the
/// end of the picture neither marker occurs.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    const START_OF_SCAN: [u8; 2] = [0xff, 0xda];
    const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|pair| pair == marker);
    bytes.starts_with(&[0xff, 0xd8]) && last(END_OF_IMAGE) < last(START_OF_SCAN)
}

/// The largest centre with the aspect of the input, at the size of the input.
fn fit(image: &DynamicImage, input: Shape) -> DynamicImage {
    let side = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
    let (width, height) = (u64::from(image.width()), u64::from(image.height()));
    let (wanted_width, wanted_height) = (side(input.width), side(input.height));
    // Rounded to nearest, and at least one pixel.
    let matching = |length: u64, own: u64, other: u64| ((2 * length * own + other) / (2 * other)).max(1);
    let crop_width = width.min(matching(height, wanted_width, wanted_height));
    let crop_height = height.min(matching(width, wanted_height, wanted_width));
    let narrow = |length: u64| u32::try_from(length).expect("no longer than a side of the image");
    let centre = image.crop_imm(
        narrow((width - crop_width) / 2),
        narrow((height - crop_height) / 2),
        narrow(crop_width),
        narrow(crop_height),
    );
    let exact = |length: u64| u32::try_from(length).expect("inputs of networks are small");
    centre.resize_exact(exact(wanted_width), exact(wanted_height), FilterType::Triangle)
}

/// Pixels of three bytes as three planes.
fn planes(pixels: &[u8]) -> Vec<u8> {
    (0..3).flat_map(|channel| pixels.iter().skip(channel).step_by(3).copied()).collect()
}

/// What can be wrong with an image file.
#[derive(Debug, thiserror::Error)]
pub enum ImageFault {
    /// Too many bytes.
    #[error("the file is longer than {MAX_FILE_BYTES} bytes; save the image smaller")]
    File,
    /// Too many pixels.
    #[error(
        "the image is {width}x{height}; expected at most {MAX_PIXELS} pixels and {MAX_SIDE} a side; shrink it first"
    )]
    Size {
        /// As its header states.
        width: u32,
        /// As its header states.
        height: u32,
    },
    /// No pixels.
    #[error("the image is {width}x{height}; expected at least one pixel")]
    Empty {
        /// As its header states.
        width: u32,
        /// As its header states.
        height: u32,
    },
    /// A JPEG without its end.
    #[error("the JPEG ends before its picture does; copy it again")]
    Cut,
    /// Another kind of file, or a damaged one.
    #[error("expected a whole {KINDS} image; convert or copy it again")]
    Decode(#[from] image::ImageError),
    /// Bytes that end too early.
    #[error("expected a whole {KINDS} image; convert or copy it again")]
    Read(#[from] std::io::Error),
    /// A network for other data than pictures.
    #[error(
        "the network takes {input}; image files can be made into 1 channel (gray) or 3 (red, green, blue)"
    )]
    Channels {
        /// What the network takes.
        input: Shape,
    },
}
