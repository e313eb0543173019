//! The file form of a mask.
//!
//! ```text
//! 8 bytes   "SRDNMASK"
//! 4         version, little-endian; 1
//! 4         number of sites
//! per site  channels, height, width (4 bytes each); kind (1 byte: 0 keep, 1 drop, 2 channels, 3 pixels); its bits
//! 32        BLAKE3 of everything before
//! ```
//!
//! A reader knows the network, so every count is checked against it before anything is allocated.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{ActivationMask, Bits, SiteMask};
use crate::bytes::{ByteReader, Truncated};
use crate::shape::Shape;
use crate::walk::{Network, ReluSite};

const MAGIC: &[u8; 8] = b"SRDNMASK";
const VERSION: u32 = 1;
const DIGEST_BYTES: usize = 32;
/// What a site has before its bits.
const SITE_BYTES: u64 = 13;

impl ActivationMask {
    /// The file form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(small(self.sites.len()));
        for (shape, mask) in &self.sites {
            for side in [shape.channels, shape.height, shape.width] {
                bytes.extend(small(side));
            }
            let (kind, bits) = match mask {
                SiteMask::KeepAll => (0, None),
                SiteMask::DropAll => (1, None),
                SiteMask::Channels(bits) => (2, Some(bits)),
                SiteMask::Pixels(bits) => (3, Some(bits)),
            };
            bytes.push(kind);
            bytes.extend(bits.into_iter().flat_map(Bits::bytes));
        }
        let digest = blake3::hash(&bytes);
        bytes.extend(digest.as_bytes());
        bytes
    }

    /// The longest file form that a mask of this network can have.
    pub fn max_file_bytes(network: &dyn Network) -> u64 {
        let site = |site: &ReluSite| SITE_BYTES + site.shape.scalars().div_ceil(8);
        let sites: u64 = network.walk().sites().iter().map(site).sum();
        (MAGIC.len() + 8 + DIGEST_BYTES) as u64 + sites
    }

    /// Reads a file, and no more of it than a mask of this network can have: a device never ends.
    ///
    /// # Errors
    /// When it cannot be read or is too long, and as for [`Self::from_bytes`].
    pub fn from_file(path: &Path, network: &dyn Network) -> Result<Self, MaskReadError> {
        let unreadable = |source| MaskReadError::Unreadable { path: path.into(), source };
        let limit = Self::max_file_bytes(network);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > limit {
            let network = network.name().to_owned();
            return Err(MaskReadError::TooLong { path: path.into(), limit, network });
        }
        Self::from_bytes(&bytes, network)
            .map_err(|source| MaskReadError::Unusable { path: path.into(), source })
    }

    /// Reads the file form for a network.
    ///
    /// # Errors
    /// When the bytes are no mask, are damaged, or belong to another network.
    pub fn from_bytes(bytes: &[u8], network: &dyn Network) -> Result<Self, MaskFileError> {
        let header = MAGIC.len() + 8;
        if bytes.len() < header + DIGEST_BYTES {
            return Err(MaskFileError::Truncated { came: bytes.len() });
        }
        let (body, digest) = bytes.split_at(bytes.len() - DIGEST_BYTES);
        let mut reader = Reader(ByteReader::new(body));
        if reader.0.array()? != *MAGIC {
            return Err(MaskFileError::NoMask);
        }
        let version = reader.number()?;
        if version != VERSION {
            return Err(MaskFileError::Version { came: version });
        }
        if blake3::hash(body).as_bytes() != digest {
            return Err(MaskFileError::Damaged);
        }
        let sites = network.walk().sites();
        let count = reader.number()? as usize;
        if count != sites.len() {
            return Err(MaskFileError::Sites { expected: sites.len(), came: count });
        }
        let masks = sites.iter().map(|site| reader.site(&site.name, site.shape)).collect::<Result<_, _>>()?;
        let rest = reader.0.rest();
        if !rest.is_empty() {
            return Err(MaskFileError::Excess { bytes: rest.len() });
        }
        Ok(Self { sites: masks })
    }
}

/// Limits of the spec keep every one of these numbers below 2^32.
fn small(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("specs limit sites, channels and sides").to_le_bytes()
}

struct Reader<'a>(ByteReader<'a>);

impl Reader<'_> {
    fn number(&mut self) -> Result<u32, MaskFileError> {
        Ok(self.0.number()?)
    }

    fn site(&mut self, name: &str, expected: Shape) -> Result<(Shape, SiteMask), MaskFileError> {
        let came = Shape::new(self.number()? as usize, self.number()? as usize, self.number()? as usize);
        if came != expected {
            return Err(MaskFileError::Shape { site: name.to_owned(), expected, came });
        }
        let mask = match self.0.byte()? {
            0 => SiteMask::KeepAll,
            1 => SiteMask::DropAll,
            2 => SiteMask::Channels(self.bits(name, expected.channels)?),
            3 => {
                SiteMask::Pixels(self.bits(name, usize::try_from(expected.scalars()).unwrap_or(usize::MAX))?)
            }
            kind => return Err(MaskFileError::Kind { site: name.to_owned(), came: kind }),
        };
        Ok((expected, mask))
    }

    fn bits(&mut self, name: &str, length: usize) -> Result<Bits, MaskFileError> {
        let bytes = self.0.take(length.div_ceil(8))?;
        Bits::from_bytes(bytes, length).ok_or_else(|| MaskFileError::Padding { site: name.to_owned() })
    }
}

impl From<Truncated> for MaskFileError {
    fn from(Truncated { came, .. }: Truncated) -> Self {
        Self::Truncated { came }
    }
}

/// A file that holds no mask for this network.
#[derive(Debug, thiserror::Error)]
pub enum MaskReadError {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is longer than any mask of the network.
    #[error("{} has more than {limit} bytes, too many for a mask of {network}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that it may have.
        limit: u64,
        /// The network.
        network: String,
    },
    /// Its bytes are no mask of the network.
    #[error("the mask {} is not usable", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: MaskFileError,
    },
}

/// Bytes that hold no mask for this network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskFileError {
    /// They end too early.
    #[error("the mask file ends too early: {came} bytes are left where more were expected")]
    Truncated {
        /// What was left.
        came: usize,
    },
    /// They begin with something else.
    #[error("this is no mask file; one begins with SRDNMASK")]
    NoMask,
    /// They are of another version.
    #[error("mask file version {came} is unknown; this build reads version {VERSION}")]
    Version {
        /// What came.
        came: u32,
    },
    /// The digest differs.
    #[error("the mask file is damaged: its digest does not match; copy it again")]
    Damaged,
    /// Another number of ReLU layers.
    #[error(
        "the mask file has {came} sites, the network {expected} ReLU layers; it was made for another network"
    )]
    Sites {
        /// What the network has.
        expected: usize,
        /// What came.
        came: usize,
    },
    /// Another shape.
    #[error("the mask file has {came} at {site}, the network {expected}; it was made for another network")]
    Shape {
        /// The site.
        site: String,
        /// What the network has.
        expected: Shape,
        /// What came.
        came: Shape,
    },
    /// An unknown kind of mask.
    #[error("the mask of {site} is of kind {came}; known are 0 to 3")]
    Kind {
        /// The site.
        site: String,
        /// What came.
        came: u8,
    },
    /// Bits beyond the last.
    #[error("the mask of {site} sets bits beyond its last one")]
    Padding {
        /// The site.
        site: String,
    },
    /// Bytes after the last site.
    #[error("{bytes} bytes follow the last site")]
    Excess {
        /// How many.
        bytes: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::tests::random_mask;
    use crate::zoo;
    use proptest::prelude::*;

    fn sealed(mut body: Vec<u8>) -> Vec<u8> {
        let digest = blake3::hash(&body);
        body.extend(digest.as_bytes());
        body
    }

    #[test]
    fn a_written_mask_reads_back() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        let mask = random_mask(&spec, &[true, false, true, true, false]);
        assert_eq!(ActivationMask::from_bytes(&mask.to_bytes(), &spec), Ok(mask));
    }

    #[test]
    fn no_mask_is_longer_than_one_of_pixels() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        let pixels = |site: &ReluSite| {
            SiteMask::Pixels(Bits::collect((0..site.shape.scalars()).map(|index| index % 3 == 0)))
        };
        let longest = ActivationMask::new(&spec, spec.walk().sites().iter().map(pixels).collect()).unwrap();
        assert_eq!(longest.to_bytes().len() as u64, ActivationMask::max_file_bytes(&spec));
        let other = random_mask(&spec, &[true, false, true]).to_bytes();
        assert!((other.len() as u64) < ActivationMask::max_file_bytes(&spec));
    }

    #[test]
    fn a_file_is_read_to_its_longest_and_no_further() {
        let spec = zoo::build("resnet18", 32, 10).unwrap();
        let mask = ActivationMask::keep_all(&spec);
        let path = std::env::temp_dir().join(format!("sordino-mask-{}", std::process::id()));
        std::fs::write(&path, mask.to_bytes()).unwrap();
        assert_eq!(ActivationMask::from_file(&path, &spec).unwrap(), mask);
        std::fs::write(&path, b"SRDNMASK").unwrap();
        let error = ActivationMask::from_file(&path, &spec).unwrap_err();
        assert!(
            matches!(error, MaskReadError::Unusable { source: MaskFileError::Truncated { .. }, .. }),
            "{error}"
        );
        std::fs::remove_file(&path).unwrap();
        let error = ActivationMask::from_file(&path, &spec).unwrap_err();
        assert!(matches!(error, MaskReadError::Unreadable { .. }), "{error}");
        #[cfg(unix)]
        {
            let error = ActivationMask::from_file(Path::new("/dev/zero"), &spec).unwrap_err();
            assert!(matches!(error, MaskReadError::TooLong { .. }), "{error}");
        }
    }

    #[test]
    fn every_truncation_and_every_flipped_byte_is_refused() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        let bytes = random_mask(&spec, &[true, false, false]).to_bytes();
        for end in 0..bytes.len() {
            assert!(ActivationMask::from_bytes(&bytes[..end], &spec).is_err());
        }
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0x10;
            assert!(ActivationMask::from_bytes(&flipped, &spec).is_err());
        }
    }

    #[test]
    fn sealed_lies_are_refused_too() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        let bytes = ActivationMask::keep_all(&spec).to_bytes();
        let body = &bytes[..bytes.len() - DIGEST_BYTES];
        let altered = |at: usize, value: &[u8]| {
            let mut body = body.to_vec();
            body[at..at + value.len()].copy_from_slice(value);
            ActivationMask::from_bytes(&sealed(body), &spec).unwrap_err()
        };
        assert_eq!(altered(0, b"X"), MaskFileError::NoMask);
        assert_eq!(altered(8, &[9]), MaskFileError::Version { came: 9 });
        assert_eq!(altered(12, &[255; 4]), MaskFileError::Sites { expected: 9, came: u32::MAX as usize });
        assert!(matches!(altered(16, &[255; 4]), MaskFileError::Shape { .. }));
        assert!(matches!(altered(28, &[7]), MaskFileError::Kind { came: 7, .. }));
        assert!(matches!(altered(28, &[3]), MaskFileError::Shape { .. } | MaskFileError::Truncated { .. }));
        let longer = sealed([body, &[0]].concat());
        assert_eq!(ActivationMask::from_bytes(&longer, &spec), Err(MaskFileError::Excess { bytes: 1 }));
    }

    #[test]
    fn bits_beyond_the_last_are_refused() {
        let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
        let mut masks = vec![SiteMask::KeepAll; 9];
        masks[0] = SiteMask::Channels(Bits::collect([true, false, true]));
        let bytes = ActivationMask::new(&spec, masks).unwrap().to_bytes();
        let mut body = bytes[..bytes.len() - DIGEST_BYTES].to_vec();
        body[29] |= 0b1000;
        assert!(matches!(
            ActivationMask::from_bytes(&sealed(body), &spec),
            Err(MaskFileError::Padding { .. })
        ));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let spec = zoo::build("resnet10:m=3", 8, 10).unwrap();
            prop_assert!(ActivationMask::from_bytes(&sealed(bytes), &spec).is_err());
        }
    }
}
