//! The byte forms of a model and of its outline.
//!
//! ```text
//! 8 bytes   "SRDNMODL" (a model) or "SRDNOUTL" (an outline)
//! 4         version, little-endian; 1 for an outline, 1 or 2 for a model
//! n         the outline (see `outline.rs`)
//! n         for a model: biases and weights of each linear step
//!             version 1: biases (8 bytes each), then weights at 8 or 12 bits
//!             version 2: weights entropy-coded (see `packing.rs`)
//! 32        BLAKE3 of everything before
//! ```
//!
//! Models are written in version 2 and read in both. What names a model, its digest, is that of version 1: how its weights
//! are packed changes nothing about it.
//!
//! An outline comes from the peer and a model from disk, so every count is compared with the bytes that are left
//! before anything is allocated, and the outline is checked before the weights are read.

mod outline;
mod packing;

use std::path::{Path, PathBuf};

use super::{InferenceModel, LinearGeometry, LinearWeights, ModelError, ModelOutline, WeightBits};
use crate::bytes::{Truncated, read_at_most};
use crate::digest::Digest;
use outline::{Reader, Writer};

/// A model of the most weights that are allowed, with its outline.
const MAX_FILE_BYTES: u64 = 4 << 30;
const MODEL_MAGIC: &[u8; 8] = b"SRDNMODL";
const OUTLINE_MAGIC: &[u8; 8] = b"SRDNOUTL";
const OUTLINE_VERSION: u32 = 1;
const PLAIN_VERSION: u32 = 1;
const PACKED_VERSION: u32 = 2;
const DIGEST_BYTES: usize = Digest::BYTES;

impl ModelOutline {
    /// The byte form, as it goes over the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(OUTLINE_MAGIC, OUTLINE_VERSION);
        writer.outline(self);
        writer.sealed()
    }

    /// Reads and checks the byte form.
    ///
    /// # Errors
    /// When the bytes are no outline, are damaged, of another version, or make no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let (version, mut reader) = open(bytes, OUTLINE_MAGIC, "outline")?;
        if version != OUTLINE_VERSION {
            return Err(ModelFileError::Version { came: version, known: "version 1" });
        }
        let outline = reader.outline()?;
        reader.finish()?;
        outline.check()?;
        Ok(outline)
    }

    /// What names this outline: the BLAKE3 digest of its byte form.
    pub fn digest(&self) -> Digest {
        digest_of(&self.to_bytes())
    }
}

impl InferenceModel {
    /// The byte form, as it is saved.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(MODEL_MAGIC, PACKED_VERSION);
        writer.outline(&self.outline);
        packing::write(&self.layers, self.outline.weight_bits, &mut writer.bytes);
        writer.sealed()
    }

    /// Reads and checks the byte form.
    ///
    /// # Errors
    /// When the bytes are no model, are damaged, of another version, or make no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let (version, mut reader) = open(bytes, MODEL_MAGIC, "model")?;
        if ![PLAIN_VERSION, PACKED_VERSION].contains(&version) {
            return Err(ModelFileError::Version { came: version, known: "versions 1 and 2" });
        }
        let outline = reader.outline()?;
        outline.check()?;
        let bits = outline.weight_bits;
        let shapes = outline.linear_steps().map(|(_, geometry)| geometry);
        let layers = match version {
            PLAIN_VERSION => shapes.map(|geometry| read_plain(&mut reader, geometry, bits)).collect(),
            _ => packing::read(&mut reader, shapes, bits),
        }?;
        reader.finish()?;
        Ok(Self::new(outline, layers)?)
    }

    /// What names this model: the BLAKE3 digest of its byte form in version 1.
    pub fn digest(&self) -> Digest {
        digest_of(&self.plain_bytes())
    }

    /// The byte form in version 1.
    fn plain_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(MODEL_MAGIC, PLAIN_VERSION);
        writer.outline(&self.outline);
        for layer in &self.layers {
            write_biases(layer, &mut writer.bytes);
            write_plain_weights(&layer.weights, self.outline.weight_bits, &mut writer.bytes);
        }
        writer.sealed()
    }

    /// Writes the model to a file; an old one is replaced at once or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ModelFileError> {
        let unwritable = |source| ModelFileError::Unwritable { path: path.into(), source };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let written = std::fs::write(&part, self.to_bytes()).and_then(|()| std::fs::rename(&part, path));
        written.map_err(|source| {
            // Nothing to do about a part that cannot be removed either; the error that matters is the first.
            let _ = std::fs::remove_file(&part);
            unwritable(source)
        })
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// When the file cannot be read or holds no model that makes sense.
    pub fn load(path: &Path) -> Result<Self, ModelFileError> {
        let bytes = read_at_most(path, MAX_FILE_BYTES)
            .map_err(|source| ModelFileError::Unreadable { path: path.into(), source })?;
        Self::from_bytes(&bytes)
    }
}

impl From<Truncated> for ModelFileError {
    fn from(Truncated { expected, came }: Truncated) -> Self {
        Self::Truncated { expected, came }
    }
}

/// The digest at the end of a byte form.
fn digest_of(sealed: &[u8]) -> Digest {
    Digest(*sealed.last_chunk().expect("a byte form ends with its digest"))
}

/// Checks magic and digest; gives the version and leaves the body to be read.
fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    expected: &'static str,
) -> Result<(u32, Reader<'a>), ModelFileError> {
    let header = magic.len() + 4;
    if bytes.len() < header + DIGEST_BYTES {
        return Err(ModelFileError::Truncated { expected: header + DIGEST_BYTES, came: bytes.len() });
    }
    let (body, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
    let (came, body_after_magic) = body.split_at(magic.len());
    if came != magic {
        let came = String::from_utf8_lossy(came).into_owned();
        return Err(ModelFileError::Magic {
            expected,
            magic: String::from_utf8_lossy(magic).into_owned(),
            came,
        });
    }
    let mut reader = Reader::new(body_after_magic);
    let version = reader.number()?;
    if blake3::hash(body).as_bytes() != digest {
        return Err(ModelFileError::Damaged);
    }
    Ok((version, reader))
}

fn write_biases(layer: &LinearWeights, bytes: &mut Vec<u8>) {
    bytes.extend(layer.biases.iter().flat_map(|bias| bias.to_le_bytes()));
}

fn write_plain_weights(weights: &[i16], bits: WeightBits, bytes: &mut Vec<u8>) {
    match bits {
        WeightBits::Eight => bytes.extend(weights.iter().map(|weight| *weight as u8)),
        WeightBits::Twelve => pack_twelve(weights, bytes),
    }
}

fn read_plain(
    reader: &mut Reader<'_>,
    geometry: LinearGeometry,
    bits: WeightBits,
) -> Result<LinearWeights, ModelFileError> {
    let biases = read_biases(reader, geometry)?;
    Ok(LinearWeights { weights: read_plain_weights(reader, geometry, bits)?, biases })
}

fn read_biases(reader: &mut Reader<'_>, geometry: LinearGeometry) -> Result<Vec<i64>, ModelFileError> {
    let words = reader.take(geometry.outputs().saturating_mul(8))?.as_chunks().0;
    Ok(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
}

fn read_plain_weights(
    reader: &mut Reader<'_>,
    geometry: LinearGeometry,
    bits: WeightBits,
) -> Result<Vec<i16>, ModelFileError> {
    let count = geometry.outputs().saturating_mul(geometry.taps());
    match bits {
        WeightBits::Eight => Ok(reader.take(count)?.iter().map(|byte| i16::from(*byte as i8)).collect()),
        WeightBits::Twelve => unpack_twelve(reader.take(count.saturating_mul(3).div_ceil(2))?, count),
    }
}

/// Two weights in three bytes, low bits first; a last one alone takes two.
fn pack_twelve(weights: &[i16], bytes: &mut Vec<u8>) {
    for pair in weights.chunks(2) {
        let first = pair[0] as u32 & 0xfff;
        let second = pair.get(1).map_or(0, |second| *second as u32 & 0xfff);
        let packed = (first | second << 12).to_le_bytes();
        bytes.extend(&packed[..if pair.len() == 2 { 3 } else { 2 }]);
    }
}

fn unpack_twelve(bytes: &[u8], count: usize) -> Result<Vec<i16>, ModelFileError> {
    let mut weights = Vec::with_capacity(count);
    let extend = |bits: u32| ((bits as i32) << 20 >> 20) as i16;
    for packed in bytes.chunks(3) {
        let word = u32::from(packed[0]) | u32::from(packed[1]) << 8;
        match packed.get(2) {
            Some(last) => {
                let word = word | u32::from(*last) << 16;
                weights.extend([extend(word & 0xfff), extend(word >> 12)]);
            }
            None if word >> 12 == 0 => weights.push(extend(word)),
            None => return Err(ModelFileError::Padding),
        }
    }
    Ok(weights)
}

/// Bytes that hold no model or outline.
#[derive(Debug, thiserror::Error)]
pub enum ModelFileError {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file could not be written.
    #[error("cannot write {}", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The bytes end too early.
    #[error("the bytes end too early: {expected} more were expected, {came} are left")]
    Truncated {
        /// What was expected.
        expected: usize,
        /// What was left.
        came: usize,
    },
    /// The bytes begin with something else.
    #[error("this is no {expected}: it begins with {came:?} instead of {magic:?}{}", makes(expected))]
    Magic {
        /// A model or an outline.
        expected: &'static str,
        /// How one begins.
        magic: String,
        /// How these bytes begin.
        came: String,
    },
    /// The bytes are of another version.
    #[error("version {came} is unknown; this build reads {known}")]
    Version {
        /// What came.
        came: u32,
        /// What is read.
        known: &'static str,
    },
    /// The digest differs.
    #[error("the bytes are damaged: their digest does not match; copy them again")]
    Damaged,
    /// A number that stands for nothing.
    #[error("{what} is {came}; expected {expected}")]
    Code {
        /// Which number.
        what: &'static str,
        /// What came.
        came: u64,
        /// What is known.
        expected: &'static str,
    },
    /// Bits that must be zero are not.
    #[error("bits beyond the last are set")]
    Padding,
    /// Entropy-coded weights that were cut off or put together.
    #[error("the code of a layer's weights does not end where it must; write the model anew")]
    CodedWeights,
    /// A name that is no text, or would move a terminal's cursor.
    #[error("a name is no UTF-8 text without control characters")]
    Text,
    /// Bytes after the end.
    #[error("{bytes} bytes follow the end")]
    Excess {
        /// How many.
        bytes: usize,
    },
    /// The contents make no sense.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Where a file of this kind comes from, if a user makes it.
fn makes(expected: &str) -> &'static str {
    if expected == "model" { "; `sordino freeze` makes one of a network" } else { "" }
}

#[cfg(test)]
mod tests;
