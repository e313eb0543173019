//! Images in folders: Tiny ImageNet, ImageNet-style `train` and `val`, or class folders alone.
//!
//! ```text
//! DIR/train/CLASS/*      DIR/val/CLASS/* (or test, validation)     ImageNet style
//! DIR/CLASS/*                                                      a tenth of each class becomes the test set
//! DIR/train/CLASS/images/*.JPEG   DIR/val/images/*.JPEG   DIR/val/val_annotations.txt   DIR/words.txt     Tiny ImageNet
//! ```
//!
//! An image of another size loses what its longer side has too much on both ends and is resized.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::imageops::FilterType;
use image::{DynamicImage, ImageReader};

use super::split::{HELD_OUT_SEED, held_out_split};
use super::{BadImage, DataError, DataKind, DataPair, Dataset, color_set};
use crate::file::{FileError, read_bytes, read_text};

/// The most bytes of one set; it is held in memory.
const MAX_SET_BYTES: u64 = 64 << 30;
/// The longest list of names or annotations.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// The longest image file.
const MAX_IMAGE_BYTES: u64 = 64 << 20;
const EXTENSIONS: [&str; 9] = ["png", "jpg", "jpeg", "jfif", "webp", "gif", "bmp", "tif", "tiff"];
const TINY_IMAGENET_FOLDER: &str = "tiny-imagenet-200";
const TEST_FOLDERS: [&str; 3] = ["val", "test", "validation"];

/// A file and its class.
pub(super) type Labeled = (PathBuf, u16);

/// The files of a set, not read yet.
pub(super) struct Listing {
    pub(super) name: String,
    pub(super) classes: Vec<String>,
    pub(super) training: Vec<Labeled>,
    pub(super) test: Vec<Labeled>,
}

impl Listing {
    /// Decodes all of them.
    pub(super) fn load(&self, kind: DataKind, side: usize) -> Result<DataPair, DataError> {
        let empty = color_set(kind, &self.name, side, self.classes.clone());
        Ok(DataPair {
            training: load_files(empty.clone(), &self.training)?,
            test: load_files(empty, &self.test)?,
        })
    }
}

/// Finds the images of class folders.
pub(super) fn list_folder(directory: &Path) -> Result<Listing, DataError> {
    let name =
        directory.file_name().map_or_else(|| "images".to_owned(), |name| name.to_string_lossy().into_owned());
    let (classes, training, test) = find_parts(directory)?;
    let (training, test) = match test {
        Some(test) => (training, test),
        None => {
            let labels: Vec<u16> = training.iter().map(|(_, label)| *label).collect();
            let (kept, held_out) = held_out_split(&labels, labels.len() / 10, HELD_OUT_SEED);
            let pick =
                |indices: Vec<u32>| indices.iter().map(|index| training[*index as usize].clone()).collect();
            (pick(kept), pick(held_out))
        }
    };
    Ok(Listing { name, classes, training, test })
}

/// The classes, the training images and, where they have a folder of their own, the test images.
#[expect(clippy::type_complexity, reason = "used once, right here")]
pub(super) fn find_parts(
    directory: &Path,
) -> Result<(Vec<String>, Vec<Labeled>, Option<Vec<Labeled>>), DataError> {
    let train = directory.join("train");
    let (classes, training) = class_folders(if train.is_dir() { &train } else { directory })?;
    if !train.is_dir() {
        return Ok((classes, training, None));
    }
    let Some(place) = TEST_FOLDERS.map(|name| directory.join(name)).into_iter().find(|place| place.is_dir())
    else {
        return Ok((classes, training, None));
    };
    let (test_classes, test) = class_folders(&place)?;
    let mut numbers = Vec::new();
    for class in test_classes {
        let number = classes.iter().position(|known| *known == class);
        numbers.push(number.ok_or(DataError::UnknownClass { directory: place.clone(), class })? as u16);
    }
    let test = test.into_iter().map(|(path, label)| (path, numbers[usize::from(label)])).collect();
    Ok((classes, training, Some(test)))
}

/// Classes in the order of their names, and their images in the order of theirs.
fn class_folders(directory: &Path) -> Result<(Vec<String>, Vec<Labeled>), DataError> {
    let (mut classes, mut files) = (Vec::new(), Vec::new());
    for folder in entries(directory)?.into_iter().filter(|entry| entry.is_dir()) {
        // Tiny ImageNet has one more level.
        let inner = folder.join("images");
        let images = image_files(if inner.is_dir() { &inner } else { &folder })?;
        if images.is_empty() {
            continue;
        }
        let class = class_number(classes.len())?;
        classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        files.extend(images.into_iter().map(|path| (path, class)));
    }
    if classes.is_empty() {
        return Err(DataError::NoClasses { directory: directory.into() });
    }
    Ok((classes, files))
}

fn class_number(count: usize) -> Result<u16, DataError> {
    let limit = u64::from(u16::MAX);
    u16::try_from(count).map_err(|_| DataError::TooMany {
        what: "a number of classes",
        value: count as u64,
        limit,
    })
}

/// What a folder holds, sorted, hidden entries left out.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    let unreadable = FileError::on("read", directory);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if !entry.file_name().to_string_lossy().starts_with('.') {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn image_files(directory: &Path) -> Result<Vec<PathBuf>, DataError> {
    let is_image = |path: &PathBuf| {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
    };
    Ok(entries(directory)?.into_iter().filter(is_image).collect())
}

/// The folder of Tiny ImageNet at or right below a folder.
pub(super) fn find_tiny_imagenet(directory: &Path) -> Option<PathBuf> {
    let places = [directory.to_owned(), directory.join(TINY_IMAGENET_FOLDER)];
    places
        .into_iter()
        .find(|place| place.join("val/val_annotations.txt").is_file() && place.join("train").is_dir())
}

/// Finds the images of Tiny ImageNet; its validation images are the test set, since the test images have no public classes.
pub(super) fn list_tiny_imagenet(directory: &Path) -> Result<Listing, DataError> {
    let kind = DataKind::TinyImageNet;
    let Some(place) = find_tiny_imagenet(directory) else {
        let missing = "there is no train folder with val/val_annotations.txt beside it".to_owned();
        return Err(DataError::NotFound { kind, directory: directory.into(), missing });
    };
    let (codes, training) = class_folders(&place.join("train"))?;
    let test = annotated(&place.join("val"), &codes)?;
    let words = words(&place.join("words.txt"))?;
    let name = |code: &String| words.get(code).cloned().unwrap_or_else(|| code.clone());
    let classes = codes.iter().map(name).collect();
    Ok(Listing { name: kind.name().to_owned(), classes, training, test })
}

/// `val_annotations.txt`: file, class and a box per line, separated by tabs.
fn annotated(directory: &Path, codes: &[String]) -> Result<Vec<Labeled>, DataError> {
    let path = directory.join("val_annotations.txt");
    let numbers: BTreeMap<&str, u16> = codes.iter().map(String::as_str).zip(0..).collect();
    let mut files = Vec::new();
    for (line, text) in read_text(&path, MAX_LIST_BYTES)?.lines().enumerate() {
        let refuse = |reason: String| DataError::List { path: path.clone(), line: line + 1, reason };
        let mut columns = text.split('\t');
        let (Some(file), Some(code)) = (columns.next(), columns.next()) else {
            return Err(refuse("expected a file, a tab and a class".to_owned()));
        };
        if file.contains(['/', '\\']) {
            return Err(refuse(format!("{file:?} is no name of a file")));
        }
        let number =
            numbers.get(code).ok_or_else(|| refuse(format!("there is no class {code:?} in train")))?;
        files.push((directory.join("images").join(file), *number));
    }
    Ok(files)
}

/// `words.txt`: a class code and its names per line; the first name is kept.
fn words(path: &Path) -> Result<BTreeMap<String, String>, DataError> {
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let first = |names: &str| names.split(',').next().unwrap_or(names).trim().to_owned();
    let text = read_text(path, MAX_LIST_BYTES)?;
    Ok(text
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(code, names)| (code.to_owned(), first(names)))
        .collect())
}

fn load_files(set: Dataset, files: &[Labeled]) -> Result<Dataset, DataError> {
    let labels = files.iter().map(|(_, label)| *label).collect();
    load(set, labels, |index, side, place| {
        let path = &files[index].0;
        let bytes = read_bytes(path, MAX_IMAGE_BYTES)?;
        decode(&bytes, side, place).map_err(|source| DataError::Image { path: path.clone(), source })
    })
}

/// Those files that are no usable images, by their numbers, with the reason; decoded several at a time.
pub(super) fn unusable(files: &[Labeled]) -> Vec<(usize, DataError)> {
    let chunk = files.len().div_ceil(cores()).max(1);
    let try_file = |path: &Path| {
        let bytes = read_bytes(path, MAX_IMAGE_BYTES)?;
        pixels(&bytes).map_err(|source| DataError::Image { path: path.into(), source })
    };
    std::thread::scope(|scope| {
        let parts = files.chunks(chunk).enumerate();
        let workers: Vec<_> = parts
            .map(|(part, files)| {
                scope.spawn(move || {
                    let tried = files.iter().enumerate();
                    let bad = |(index, (path, _)): (usize, &Labeled)| {
                        try_file(path).err().map(|error| (part * chunk + index, error))
                    };
                    tried.filter_map(bad).collect::<Vec<_>>()
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join().expect("a decoder returns its errors"));
        joined.flatten().collect()
    })
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Decodes images into a set, several at a time. `decode` is given a number, the wanted side, and the place.
pub(super) fn load(
    mut set: Dataset,
    labels: Vec<u16>,
    decode: impl Fn(usize, usize, &mut [u8]) -> Result<(), DataError> + Sync,
) -> Result<Dataset, DataError> {
    let stride = set.shape.scalars();
    if !set.shape.is_sane() {
        return Err(DataError::TooMany {
            what: "a side",
            value: set.shape.height as u64,
            limit: network::shape::MAX_SIDE as u64,
        });
    }
    let total = stride * labels.len() as u64;
    if total > MAX_SET_BYTES {
        return Err(DataError::TooMany { what: "a set's bytes", value: total, limit: MAX_SET_BYTES });
    }
    set.images = vec![0; total as usize];
    let chunk = labels.len().div_ceil(cores()).max(1);
    let (side, decode) = (set.shape.height, &decode);
    std::thread::scope(|scope| {
        let parts = set.images.chunks_mut(chunk * stride as usize).enumerate();
        let workers: Vec<_> = parts
            .map(|(part, space)| {
                scope.spawn(move || {
                    let mut places = space.chunks_exact_mut(stride as usize).enumerate();
                    places.try_for_each(|(index, place)| decode(part * chunk + index, side, place))
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a decoder returns its errors"))
    })?;
    set.labels = labels;
    Ok(set)
}

/// An image file's bytes as three maps of the wanted side.
pub(super) fn decode(bytes: &[u8], side: usize, place: &mut [u8]) -> Result<(), BadImage> {
    let image = fit(pixels(bytes)?, side as u32).into_rgb8();
    let pixels = side * side;
    for (index, color) in image.pixels().enumerate() {
        for channel in 0..3 {
            place[channel * pixels + index] = color.0[channel];
        }
    }
    Ok(())
}

fn pixels(bytes: &[u8]) -> Result<DynamicImage, BadImage> {
    if is_cut_jpeg(bytes) {
        return Err(BadImage::Cut);
    }
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    Ok(reader.map_err(image::ImageError::IoError)?.decode()?)
}

/// Whether a JPEG ends before its picture does, as clients test it: decoders fill the rest with gray. Between the last start
/// of a scan and the end of the picture neither marker occurs.
fn is_cut_jpeg(bytes: &[u8]) -> bool {
    const START_OF_SCAN: [u8; 2] = [0xff, 0xda];
    const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|pair| pair == marker);
    bytes.starts_with(&[0xff, 0xd8]) && last(END_OF_IMAGE) < last(START_OF_SCAN)
}

/// The middle square of an image at the wanted side.
fn fit(image: DynamicImage, side: u32) -> DynamicImage {
    let (width, height) = (image.width(), image.height());
    if (width, height) == (side, side) {
        return image;
    }
    let square = width.min(height);
    let middle = image.crop_imm((width - square) / 2, (height - square) / 2, square, square);
    middle.resize_exact(side, side, FilterType::Triangle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{DataRequest, open};

    fn paint(path: &Path, width: u32, height: u32, color: [u8; 3]) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::RgbImage::from_pixel(width, height, image::Rgb(color)).save(path).unwrap();
    }

    #[test]
    fn class_folders_become_classes_and_images_are_resized() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        paint(&at("train/cat/a.png"), 8, 8, [10, 20, 30]);
        paint(&at("train/dog/b.jpg"), 16, 9, [200, 100, 50]);
        paint(&at("train/.hidden/c.png"), 8, 8, [0; 3]);
        paint(&at("test/dog/d.webp"), 5, 7, [1, 2, 3]);
        let request = DataRequest { side: Some(4), ..DataRequest::new(DataKind::Folder) };
        let pair = open(&request, Some(scratch.path())).unwrap();
        assert_eq!(pair.training.classes, ["cat", "dog"]);
        assert_eq!(pair.training.labels, [0, 1]);
        assert_eq!(pair.test.labels, [1]);
        assert_eq!(pair.training.image(0).pixels()[..17], [&[10; 16][..], &[20]].concat());
        assert_eq!(pair.test.image(0).pixels(), [[1; 16], [2; 16], [3; 16]].concat());
    }

    #[test]
    fn class_folders_alone_give_a_tenth_of_each_class_to_the_test() {
        let scratch = tempfile::tempdir().unwrap();
        for class in ["a", "b"] {
            for number in 0..10 {
                paint(&scratch.path().join(format!("{class}/{number}.png")), 2, 2, [number, 0, 0]);
            }
        }
        let request = DataRequest { side: Some(2), ..DataRequest::new(DataKind::Folder) };
        let pair = open(&request, Some(scratch.path())).unwrap();
        assert_eq!((pair.training.len(), pair.test.labels), (18, vec![0, 1]));
    }

    #[test]
    fn tiny_imagenet_takes_the_classes_of_its_annotations() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("tiny-imagenet-200");
        paint(&root.join("train/n01/images/n01_0.JPEG").with_extension("jpeg"), 64, 64, [9; 3]);
        paint(&root.join("train/n02/images/n02_0.jpeg"), 64, 64, [8; 3]);
        paint(&root.join("val/images/val_0.jpeg"), 64, 64, [7; 3]);
        std::fs::write(root.join("val/val_annotations.txt"), "val_0.jpeg\tn02\t0\t0\t5\t5\n").unwrap();
        std::fs::write(root.join("words.txt"), "n02\tgoldfish, Carassius auratus\n").unwrap();
        let request = DataRequest::new(DataKind::TinyImageNet);
        let pair = open(&request, Some(scratch.path())).unwrap();
        assert_eq!(pair.test.classes, ["n01", "goldfish"]);
        assert_eq!(pair.test.labels, [1]);
        std::fs::write(root.join("val/val_annotations.txt"), "val_0.jpeg\tn03\t0\n").unwrap();
        let error = open(&request, Some(scratch.path())).unwrap_err().to_string();
        assert!(error.contains("line 1: there is no class \"n03\""), "{error}");
    }

    #[test]
    fn what_is_no_image_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let request = DataRequest::new(DataKind::Folder);
        let refusal = || open(&request, Some(scratch.path())).unwrap_err().to_string();
        assert!(refusal().contains("holds no images in class folders"), "{}", refusal());
        std::fs::create_dir_all(scratch.path().join("a")).unwrap();
        std::fs::write(scratch.path().join("a/x.png"), "text").unwrap();
        assert!(refusal().contains("a/x.png is no usable image"), "{}", refusal());
        std::fs::remove_file(scratch.path().join("a/x.png")).unwrap();
        let photograph = scratch.path().join("a/x.jpg");
        image::RgbImage::from_fn(40, 40, |x, y| image::Rgb([(x * y) as u8, x as u8, y as u8]))
            .save(&photograph)
            .unwrap();
        assert!(open(&request, Some(scratch.path())).is_ok());
        let whole = std::fs::read(&photograph).unwrap();
        std::fs::write(&photograph, &whole[..whole.len() - 100]).unwrap();
        let error = network::text::with_causes(&open(&request, Some(scratch.path())).unwrap_err());
        assert!(error.contains("ends before its picture does"), "{error}");
        std::fs::remove_file(photograph).unwrap();
        paint(&scratch.path().join("train/a/x.png"), 2, 2, [0; 3]);
        paint(&scratch.path().join("val/b/x.png"), 2, 2, [0; 3]);
        assert!(refusal().contains("class b, which the training images do not have"), "{}", refusal());
    }
}
