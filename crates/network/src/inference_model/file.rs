//! The byte forms of a model and of its outline.
//!
//! ```text
//! 8 bytes   "SRDNMODL" (a model) or "SRDNOUTL" (an outline)
//! 4         version, little-endian; 1
//! n         the outline (see `outline.rs`)
//! n         for a model, per linear step: biases (8 bytes each), then weights packed at 8 or 12 bits
//! 32        BLAKE3 of everything before
//! ```
//!
//! An outline comes from the peer and a model from disk, so every count is compared with the bytes that are left
//! before anything is allocated, and the outline is checked before the weights are read.

mod outline;

use std::path::{Path, PathBuf};

use super::{InferenceModel, LinearWeights, ModelError, ModelOutline, WeightBits};
use outline::{Reader, Writer};

const MODEL_MAGIC: &[u8; 8] = b"SRDNMODL";
const OUTLINE_MAGIC: &[u8; 8] = b"SRDNOUTL";
const VERSION: u32 = 1;
const DIGEST_BYTES: usize = 32;

impl ModelOutline {
    /// The byte form, as it goes over the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(OUTLINE_MAGIC);
        writer.outline(self);
        writer.sealed()
    }

    /// Reads and checks the byte form.
    ///
    /// # Errors
    /// When the bytes are no outline, are damaged, of another version, or make no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let mut reader = open(bytes, OUTLINE_MAGIC, "outline")?;
        let outline = reader.outline()?;
        reader.finish()?;
        outline.check()?;
        Ok(outline)
    }

    /// What names this outline: the BLAKE3 digest of its byte form.
    pub fn digest(&self) -> [u8; DIGEST_BYTES] {
        digest_of(&self.to_bytes())
    }
}

impl InferenceModel {
    /// The byte form, as it is saved.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(MODEL_MAGIC);
        writer.outline(&self.outline);
        for layer in &self.layers {
            for bias in &layer.biases {
                writer.bytes.extend(bias.to_le_bytes());
            }
            match self.outline.weight_bits {
                WeightBits::Eight => writer.bytes.extend(layer.weights.iter().map(|weight| *weight as u8)),
                WeightBits::Twelve => pack_twelve(&layer.weights, &mut writer.bytes),
            }
        }
        writer.sealed()
    }

    /// Reads and checks the byte form.
    ///
    /// # Errors
    /// When the bytes are no model, are damaged, of another version, or make no sense.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelFileError> {
        let mut reader = open(bytes, MODEL_MAGIC, "model")?;
        let outline = reader.outline()?;
        outline.check()?;
        let mut layers = Vec::new();
        for (_, geometry) in outline.linear_steps() {
            let biases = reader.take(geometry.outputs().saturating_mul(8))?;
            let word = |b: &[u8]| i64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
            let biases = biases.chunks_exact(8).map(word).collect();
            let count = geometry.outputs().saturating_mul(geometry.taps());
            let weights = match outline.weight_bits {
                WeightBits::Eight => reader.take(count)?.iter().map(|byte| i16::from(*byte as i8)).collect(),
                WeightBits::Twelve => {
                    unpack_twelve(reader.take(count.saturating_mul(3).div_ceil(2))?, count)?
                }
            };
            layers.push(LinearWeights { weights, biases });
        }
        reader.finish()?;
        Ok(Self::new(outline, layers)?)
    }

    /// What names this model: the BLAKE3 digest of its byte form.
    pub fn digest(&self) -> [u8; DIGEST_BYTES] {
        digest_of(&self.to_bytes())
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
        let bytes =
            std::fs::read(path).map_err(|source| ModelFileError::Unreadable { path: path.into(), source })?;
        Self::from_bytes(&bytes)
    }
}

/// The digest at the end of a byte form.
fn digest_of(sealed: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&sealed[sealed.len() - DIGEST_BYTES..]);
    digest
}

/// Checks magic, version and digest; leaves the body to be read.
fn open<'a>(bytes: &'a [u8], magic: &[u8; 8], expected: &'static str) -> Result<Reader<'a>, ModelFileError> {
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
    if version != VERSION {
        return Err(ModelFileError::Version { came: version });
    }
    if blake3::hash(body).as_bytes() != digest {
        return Err(ModelFileError::Damaged);
    }
    Ok(reader)
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
    #[error("this is no {expected}: it begins with {came:?} instead of {magic:?}")]
    Magic {
        /// A model or an outline.
        expected: &'static str,
        /// How one begins.
        magic: String,
        /// How these bytes begin.
        came: String,
    },
    /// The bytes are of another version.
    #[error("version {came} is unknown; this build reads version {VERSION}")]
    Version {
        /// What came.
        came: u32,
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
    /// A name that is no text.
    #[error("a name is no UTF-8 text")]
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

#[cfg(test)]
mod tests;
