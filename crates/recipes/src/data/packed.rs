//! A set of images in a few large files, to carry it from machine to machine (`sordino data pack`).
//!
//! ```text
//! DIR/set.json       kind, classes, and for each image its class and its length
//! DIR/slice-000 ...  image files as they were, one after the other; none lies across two slices
//! ```
//!
//! Pixels would take nine times the room of their JPEGs, and decoding 110,000 small JPEGs takes seconds. So the files stay as they
//! are. Slices have digests, and a set whose slices are not all there says which are missing.

use std::path::{Path, PathBuf};

use network::text::with_causes;
use serde::{Deserialize, Serialize};

use super::folder::{self, Labeled, Listing};
use super::{DataError, DataKind, DataPair, FoundSet, color_set};
use crate::file::{FileError, read_bytes, read_text, write_whole};

/// What this form of a set is called.
pub(super) const FORM: &str = "packed";
const INDEX: &str = "set.json";
const VERSION: u32 = 1;
/// The longest index.
const MAX_INDEX_BYTES: u64 = 1 << 30;
/// The longest slice, and so the longest image file.
const MAX_SLICE_BYTES: u64 = 4 << 30;
/// How many unusable images are named.
const NAMED: usize = 10;

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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Packed {
    /// Which set it is.
    pub set: DataKind,
    /// Where it came from.
    pub source: String,
    /// Images to learn from.
    pub training: usize,
    /// Images to be tried on.
    pub test: usize,
    /// Files beside the index.
    pub slices: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Files that are no usable images and were left out: the first of them, each with its reason.
    pub bad: Vec<String>,
    /// How many there are of those.
    pub left_out: usize,
}

/// How to pack.
#[derive(Clone, Copy, Debug)]
pub struct PackOptions {
    /// The longest slice.
    pub slice_bytes: u64,
    /// Leave out files that are no usable images, instead of refusing the set.
    pub skips_bad: bool,
    /// Replace a packed set that is there.
    pub replaces: bool,
}

/// Packs Tiny ImageNet or class folders into slices of at most so many bytes.
///
/// # Errors
/// When the set cannot be packed, images of it cannot be used, another one is packed there, an image file is longer than a
/// slice, or something cannot be written.
pub fn pack(set: &FoundSet, out: &Path, options: PackOptions) -> Result<Packed, DataError> {
    let FoundSet { kind, folder: directory, form } = set;
    let mut listing = match kind {
        DataKind::TinyImageNet if *form != FORM => folder::list_tiny_imagenet(directory)?,
        DataKind::Folder if *form != FORM => folder::list_folder(directory)?,
        _ => return Err(DataError::NothingToPack { set: set.clone() }),
    };
    expect_room(directory, out, options.replaces)?;
    let (left_out, bad) = drop_bad(&mut listing, options.skips_bad)?;
    std::fs::create_dir_all(out).map_err(FileError::on("make", out))?;
    remove_old(out)?;
    let slice_bytes = options.slice_bytes;
    let mut writer = Writer { out, slice_bytes, content: Vec::new(), images: 0, slices: Vec::new() };
    let training = writer.add(&listing.training)?;
    let test = writer.add(&listing.test)?;
    writer.end_slice()?;
    let slices = writer.slices;
    let packed = Packed {
        set: *kind,
        source: directory.display().to_string(),
        bad,
        left_out,
        training: training.labels.len(),
        test: test.labels.len(),
        slices: slices.len(),
        bytes: slices.iter().map(|slice| slice.bytes).sum(),
    };
    let Listing { name, classes, .. } = listing;
    let index = Index { version: VERSION, kind: *kind, name, classes, slices, training, test };
    let text = serde_json::to_string(&index).expect("an index is plain data");
    // Last, so that a folder with an index is whole.
    write_whole(&out.join(INDEX), text)?;
    Ok(packed)
}

/// Refuses to write over what is read, and over another set unless that was asked for.
fn expect_room(directory: &Path, out: &Path, replaces: bool) -> Result<(), DataError> {
    let place = |path: &Path| path.canonicalize().ok();
    if place(out).is_some_and(|out| place(directory) == Some(out)) {
        return Err(DataError::IntoItself { directory: out.into() });
    }
    if is_packed(out) && !replaces {
        return Err(DataError::AlreadyPacked { directory: out.into() });
    }
    Ok(())
}

/// Takes what is no usable image out of a listing, or refuses it; how many that are, and the first of them.
fn drop_bad(listing: &mut Listing, skips: bool) -> Result<(usize, Vec<String>), DataError> {
    let parts = [&mut listing.training, &mut listing.test];
    let all = parts.iter().map(|files| files.len()).sum();
    let (mut count, mut bad) = (0, Vec::new());
    for files in parts {
        let unusable = folder::unusable(files);
        count += unusable.len();
        bad.extend(unusable.iter().take(NAMED - bad.len()).map(|(_, error)| with_causes(error)));
        for (number, _) in unusable.iter().rev() {
            files.remove(*number);
        }
    }
    if count > bad.len() {
        bad.push(format!("and {} more", count - bad.len()));
    }
    match count {
        0 => Ok((0, bad)),
        _ if count == all => Err(DataError::NoGoodImage { all, bad }),
        _ if !skips => Err(DataError::BadImages { count, all, bad }),
        _ => Ok((count, bad)),
    }
}

/// Removes the set that was packed in a folder: its index first, so that half a set is none.
fn remove_old(out: &Path) -> Result<(), DataError> {
    if !is_packed(out) {
        return Ok(());
    }
    let slices = read_index(out).map(|index| index.slices).unwrap_or_default();
    let index = out.join(INDEX);
    std::fs::remove_file(&index).map_err(FileError::on("remove", &index))?;
    for slice in slices.iter().filter(|slice| !slice.file.contains(['/', '\\'])) {
        // One that is gone already is no fault.
        let _ = std::fs::remove_file(out.join(&slice.file));
    }
    Ok(())
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
            let path = || PathBuf::from(format!("image {} of {}", first + image, directory.display()));
            folder::decode(bytes, side, place).map_err(|source| DataError::Image { path: path(), source })
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
    use crate::data::{DataRequest, find};

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

    fn options(slice_bytes: u64) -> PackOptions {
        PackOptions { slice_bytes, skips_bad: false, replaces: false }
    }

    #[test]
    fn a_packed_set_is_the_set() {
        let (set, out) = (class_folders(), tempfile::tempdir().unwrap());
        let packed = pack(&find(set.path()).unwrap(), out.path(), options(400)).unwrap();
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
        pack(&find(set.path()).unwrap(), out.path(), options(400)).unwrap();
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
    fn what_is_no_image_is_not_packed() {
        let (set, out) = (class_folders(), tempfile::tempdir().unwrap());
        std::fs::write(set.path().join("train/cat/0.png"), "text").unwrap();
        let found = find(set.path()).unwrap();
        let error = pack(&found, out.path(), options(400)).unwrap_err().to_string();
        assert!(error.contains("1 of 20 images cannot be used; --skip-bad"), "{error}");
        assert!(error.contains("0.png is no usable image"), "{error}");
        assert!(!is_packed(out.path()));
        let packed = pack(&found, out.path(), PackOptions { skips_bad: true, ..options(400) }).unwrap();
        assert_eq!((packed.training, packed.test, packed.left_out, packed.bad.len()), (9, 10, 1, 1));
        let request = DataRequest { side: Some(4), ..DataRequest::new(DataKind::Folder) };
        assert_eq!(
            crate::data::open(&request, Some(out.path())).unwrap().training.labels,
            [0, 0, 0, 0, 1, 1, 1, 1, 1]
        );
        let bad = tempfile::tempdir().unwrap();
        std::fs::create_dir(bad.path().join("a")).unwrap();
        std::fs::write(bad.path().join("a/x.jpg"), "text").unwrap();
        let skipping = PackOptions { skips_bad: true, replaces: true, ..options(400) };
        let error = pack(&find(bad.path()).unwrap(), out.path(), skipping).unwrap_err().to_string();
        assert!(error.contains("none of 1 images can be used"), "{error}");
        assert!(is_packed(out.path()), "what was there stays");
    }

    #[test]
    fn a_packed_set_is_replaced_only_where_it_may_be() {
        let (set, out) = (class_folders(), tempfile::tempdir().unwrap());
        let found = find(set.path()).unwrap();
        let many = pack(&found, out.path(), options(200)).unwrap();
        let error = pack(&found, out.path(), options(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("holds a packed set") && error.contains("--force"), "{error}");
        let one = pack(&found, out.path(), PackOptions { replaces: true, ..options(1 << 20) }).unwrap();
        assert!(many.slices > 2 && one.slices == 1);
        assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 2, "no old slice is left");
        let error = pack(&found, set.path(), options(400)).unwrap_err().to_string();
        assert!(error.contains("is what is read"), "{error}");
        let error = pack(&find(out.path()).unwrap(), set.path(), options(400)).unwrap_err().to_string();
        assert!(error.contains("has few files already"), "{error}");
    }

    #[test]
    fn only_folders_of_images_are_packed() {
        let out = tempfile::tempdir().unwrap();
        let cifar = FoundSet { kind: DataKind::Cifar100, form: "binary release", folder: "there".into() };
        let error = pack(&cifar, out.path(), options(1 << 20)).unwrap_err().to_string();
        assert!(error.contains("CIFAR-100, binary release, in there, has few files already"), "{error}");
        let set = class_folders();
        let error = with_causes(&pack(&find(set.path()).unwrap(), out.path(), options(10)).unwrap_err());
        assert!(error.contains("more than 10 bytes"), "{error}");
        assert!(!is_packed(out.path()));
    }
}
