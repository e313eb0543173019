//! A set of images in a few large files, to carry it from machine to machine (`sordino data pack`).
//!
//! ```text
//! DIR/set.json       kind, classes, and for each image its class and its length
//! DIR/slice-000 ...  image files as they were, one after the other; none lies across two slices
//! ```
//!
//! Pixels would take nine times the room of their JPEGs, and decoding 110,000 small JPEGs takes seconds. So the files stay as they
//! are. Slices have digests, and a set whose slices are not all there says which are missing.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::ImageReader;
use serde::{Deserialize, Serialize};

use super::folder::{self, Labeled, Listing};
use super::{DataError, DataKind, DataPair, color_set};
use crate::file::{FileError, read_bytes, read_text, write_whole};

const INDEX: &str = "set.json";
const VERSION: u32 = 1;
/// The longest index.
const MAX_INDEX_BYTES: u64 = 1 << 30;
/// The longest slice, and so the longest image file.
const MAX_SLICE_BYTES: u64 = 4 << 30;

/// What `set.json` says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    version: u32,
    kind: DataKind,
    name: String,
    classes: Vec<String>,
    slices: Vec<Slice>,
    training: Images,
    test: Images,
}

/// Images in their order.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Images {
    labels: Vec<u16>,
    lengths: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slice {
    file: String,
    images: usize,
    bytes: u64,
    blake3: String,
}

/// What packing made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// Images to learn from.
    pub training: usize,
    /// Images to be tried on.
    pub test: usize,
    /// Files beside the index.
    pub slices: usize,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// Packs Tiny ImageNet or class folders into slices of at most so many bytes.
///
/// # Errors
/// When the folder does not hold such a set, an image file is longer than a slice, or something cannot be written.
pub fn pack(kind: DataKind, directory: &Path, out: &Path, slice_bytes: u64) -> Result<Packed, DataError> {
    let listing = match kind {
        DataKind::TinyImageNet => folder::list_tiny_imagenet(directory)?,
        DataKind::Folder => folder::list_folder(directory)?,
        kind => return Err(DataError::NothingToPack { kind }),
    };
    std::fs::create_dir_all(out).map_err(FileError::on("make", out))?;
    let mut writer = Writer { out, slice_bytes, content: Vec::new(), images: 0, slices: Vec::new() };
    let training = writer.add(&listing.training)?;
    let test = writer.add(&listing.test)?;
    writer.end_slice()?;
    let slices = writer.slices;
    let packed = Packed {
        training: training.labels.len(),
        test: test.labels.len(),
        slices: slices.len(),
        bytes: slices.iter().map(|slice| slice.bytes).sum(),
    };
    let Listing { name, classes, .. } = listing;
    let index = Index { version: VERSION, kind, name, classes, slices, training, test };
    let text = serde_json::to_string(&index).expect("an index is plain data");
    // Last, so that a folder with an index is whole.
    write_whole(&out.join(INDEX), text)?;
    Ok(packed)
}

struct Writer<'a> {
    out: &'a Path,
    slice_bytes: u64,
    content: Vec<u8>,
    images: usize,
    slices: Vec<Slice>,
}

impl Writer<'_> {
    fn add(&mut self, files: &[Labeled]) -> Result<Images, DataError> {
        let mut images = Images::default();
        for (path, label) in files {
            let content = read_bytes(path, self.slice_bytes)?;
            if self.content.len() as u64 + content.len() as u64 > self.slice_bytes {
                self.end_slice()?;
            }
            images.labels.push(*label);
            images.lengths.push(content.len() as u64);
            self.content.extend_from_slice(&content);
            self.images += 1;
        }
        Ok(images)
    }

    fn end_slice(&mut self) -> Result<(), DataError> {
        if self.images == 0 {
            return Ok(());
        }
        let file = format!("slice-{:03}", self.slices.len());
        write_whole(&self.out.join(&file), &self.content)?;
        self.slices.push(Slice {
            file,
            images: std::mem::take(&mut self.images),
            bytes: self.content.len() as u64,
            blake3: blake3::hash(&self.content).to_hex().to_string(),
        });
        self.content.clear();
        Ok(())
    }
}

/// Whether a folder holds a packed set.
pub(super) fn is_packed(directory: &Path) -> bool {
    directory.join(INDEX).is_file()
}

/// The kind of set that is packed in a folder, where one is.
pub(super) fn kind_in(directory: &Path) -> Option<DataKind> {
    is_packed(directory).then(|| read_index(directory).ok()).flatten().map(|index| index.kind)
}

fn read_index(directory: &Path) -> Result<Index, DataError> {
    let path = directory.join(INDEX);
    let text = read_text(&path, MAX_INDEX_BYTES)?;
    serde_json::from_str(&text).map_err(|error| {
        let reason = format!("it is no index of a packed set ({error})");
        DataError::Packed { path, reason }
    })
}

/// Opens a packed set of this kind.
pub(super) fn open(directory: &Path, kind: DataKind, side: usize) -> Result<DataPair, DataError> {
    let path = directory.join(INDEX);
    let refuse = |reason: String| DataError::Packed { path: path.clone(), reason };
    let index = read_index(directory)?;
    index.check(kind).map_err(refuse)?;
    let slices = index.read_slices(directory)?;
    // Where each image lies: its slice, its begin and its length.
    let mut places = Vec::with_capacity(index.training.lengths.len() + index.test.lengths.len());
    let mut lengths = index.training.lengths.iter().chain(&index.test.lengths);
    for (number, slice) in index.slices.iter().enumerate() {
        let mut begin = 0;
        for length in lengths.by_ref().take(slice.images) {
            places.push((number, begin as usize, *length as usize));
            begin += length;
        }
        if begin != slice.bytes {
            return Err(refuse(format!(
                "the images of {} have {begin} bytes, it has {}",
                slice.file, slice.bytes
            )));
        }
    }
    let empty = color_set(kind, &index.name, side, index.classes.clone());
    let load = |images: &Images, first: usize| {
        folder::load(empty.clone(), images.labels.clone(), |image, side, place| {
            let (slice, begin, length) = places[first + image];
            let bytes = &slices[slice][begin..begin + length];
            let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
            let reader = reader.map_err(FileError::on("read", directory))?;
            let path = || PathBuf::from(format!("image {} of {}", first + image, directory.display()));
            folder::decode(reader, side, place).map_err(|source| DataError::Image { path: path(), source })
        })
    };
    Ok(DataPair {
        training: load(&index.training, 0)?,
        test: load(&index.test, index.training.labels.len())?,
    })
}

impl Index {
    fn check(&self, kind: DataKind) -> Result<(), String> {
        if self.version != VERSION {
            return Err(format!("version {} is not {VERSION}; pack the set again", self.version));
        }
        if self.kind != kind {
            return Err(format!("it holds {}, expected {}", self.kind.name(), kind.name()));
        }
        let mut images = 0;
        for part in [&self.training, &self.test] {
            if part.labels.len() != part.lengths.len() {
                return Err(format!("{} classes for {} images", part.labels.len(), part.lengths.len()));
            }
            if let Some(label) = part.labels.iter().find(|label| usize::from(**label) >= self.classes.len()) {
                return Err(format!(
                    "an image is of class {label}, but there are {} classes",
                    self.classes.len()
                ));
            }
            if part.lengths.iter().any(|length| *length > MAX_SLICE_BYTES) {
                return Err(format!("an image is longer than {MAX_SLICE_BYTES} bytes"));
            }
            images += part.labels.len();
        }
        let in_slices = self.slices.iter().map(|slice| slice.images).fold(0, usize::saturating_add);
        if in_slices != images {
            return Err(format!("its slices have {in_slices} images, expected {images}"));
        }
        match self.slices.iter().find(|slice| slice.file.contains(['/', '\\'])) {
            Some(slice) => Err(format!("{:?} is no name of a file", slice.file)),
            None => Ok(()),
        }
    }

    fn read_slices(&self, directory: &Path) -> Result<Vec<Vec<u8>>, DataError> {
        let missing = |slice: &&Slice| !directory.join(&slice.file).is_file();
        let missing: Vec<&str> =
            self.slices.iter().filter(missing).map(|slice| slice.file.as_str()).collect();
        if !missing.is_empty() {
            let reason = format!("{} of its slices are missing: {}", missing.len(), missing.join(", "));
            return Err(DataError::Packed { path: directory.join(INDEX), reason });
        }
        let read = |slice: &Slice| {
            let path = directory.join(&slice.file);
            let content = read_bytes(&path, slice.bytes.min(MAX_SLICE_BYTES))?;
            if content.len() as u64 != slice.bytes || blake3::hash(&content).to_hex().as_str() != slice.blake3
            {
                let reason = "it is not the slice that was packed; copy it again".to_owned();
                return Err(DataError::Packed { path, reason });
            }
            Ok(content)
        };
        self.slices.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataRequest;

    fn class_folders() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        for (class, shade) in [("cat", 10), ("dog", 200)] {
            for number in 0..5_u8 {
                for part in ["train", "test"] {
                    let path = scratch.path().join(format!("{part}/{class}/{number}.png"));
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    let color = image::Rgb([shade, number, part.len() as u8]);
                    image::RgbImage::from_pixel(6, 4, color).save(path).unwrap();
                }
            }
        }
        scratch
    }

    #[test]
    fn a_packed_set_is_the_set() {
        let (set, out) = (class_folders(), tempfile::tempdir().unwrap());
        let packed = pack(DataKind::Folder, set.path(), out.path(), 400).unwrap();
        assert_eq!((packed.training, packed.test), (10, 10));
        assert!(packed.slices > 2, "{packed:?}");
        let request = DataRequest { side: Some(4), ..DataRequest::new(DataKind::Folder) };
        let whole = crate::data::open(&request, Some(set.path())).unwrap();
        let again = crate::data::open(&request, Some(out.path())).unwrap();
        assert_eq!(
            (&whole.training.images, &whole.training.labels),
            (&again.training.images, &again.training.labels)
        );
        assert_eq!((&whole.test.images, &whole.test.labels), (&again.test.images, &again.test.labels));
        assert_eq!(whole.training.classes, again.training.classes);
    }

    #[test]
    fn what_is_missing_or_damaged_is_named() {
        let (set, out) = (class_folders(), tempfile::tempdir().unwrap());
        pack(DataKind::Folder, set.path(), out.path(), 400).unwrap();
        let at = |name: &str| out.path().join(name);
        let refusal = |kind| open(out.path(), kind, 4).unwrap_err().to_string();
        assert!(
            refusal(DataKind::TinyImageNet).contains("it holds a folder of images, expected Tiny ImageNet")
        );
        let slice = std::fs::read(at("slice-001")).unwrap();
        let mut changed = slice.clone();
        changed[7] ^= 1;
        std::fs::write(at("slice-001"), &changed).unwrap();
        assert!(refusal(DataKind::Folder).contains("not the slice that was packed"));
        std::fs::remove_file(at("slice-001")).unwrap();
        let text = refusal(DataKind::Folder);
        assert!(text.contains("1 of its slices are missing: slice-001"), "{text}");
        std::fs::write(at("slice-001"), &slice).unwrap();
        let index = std::fs::read_to_string(at("set.json")).unwrap();
        for (from, to, expected) in [
            ("\"version\":1", "\"version\":2", "pack the set again"),
            ("\"labels\":[0,", "\"labels\":[", "9 classes for 10 images"),
            ("\"labels\":[0,", "\"labels\":[2,", "class 2, but there are 2 classes"),
            ("\"slice-001\"", "\"../001\"", "no name of a file"),
            ("\"images\":", "\"images\":1", "its slices have"),
            ("{", "[", "no index of a packed set"),
        ] {
            std::fs::write(at("set.json"), index.replacen(from, to, 1)).unwrap();
            let text = refusal(DataKind::Folder);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn only_folders_of_images_are_packed() {
        let out = tempfile::tempdir().unwrap();
        let error = pack(DataKind::Cifar100, Path::new("."), out.path(), 1 << 20).unwrap_err().to_string();
        assert!(error.contains("CIFAR-100 has few files already"), "{error}");
        let set = class_folders();
        let error =
            network::text::with_causes(&pack(DataKind::Folder, set.path(), out.path(), 10).unwrap_err());
        assert!(error.contains("more than 10 bytes"), "{error}");
        assert!(!is_packed(out.path()));
    }
}
