//! CIFAR-10 and CIFAR-100: the binary release and the python release (Krizhevsky 2009).
//!
//! Binary: per image one label byte (two for CIFAR-100: coarse, fine), then 3072 bytes, red, green, blue, each by rows.
//! Python: pickles of a dictionary with a matrix of the same bytes and a list of labels.

use std::path::{Path, PathBuf};

use super::pickle::{self, Value};
use super::{DataError, DataKind, DataPair, Dataset, color_set};
use crate::file::read_bytes;

/// Rows and columns of an image.
pub(super) const SIDE: usize = 32;
const PIXELS: usize = 3 * SIDE * SIDE;
/// No file of the releases is longer.
const MAX_FILE_BYTES: u64 = 200_000_000;

/// Where the parts of a release lie.
#[derive(Clone, Copy)]
struct Layout {
    /// Folder that the archive unpacks to.
    folder: &'static str,
    training: &'static [&'static str],
    test: &'static str,
    /// File with the names of the classes.
    names: &'static str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Bytes before the pixels of an image; the last one is the label.
    Binary { labels: usize },
    /// The key of the labels.
    Python { labels: &'static str },
}

const CIFAR10_BINARY: Layout = Layout {
    folder: "cifar-10-batches-bin",
    training: &[
        "data_batch_1.bin",
        "data_batch_2.bin",
        "data_batch_3.bin",
        "data_batch_4.bin",
        "data_batch_5.bin",
    ],
    test: "test_batch.bin",
    names: "batches.meta.txt",
    form: Form::Binary { labels: 1 },
};
const CIFAR10_PYTHON: Layout = Layout {
    folder: "cifar-10-batches-py",
    training: &["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"],
    test: "test_batch",
    names: "batches.meta",
    form: Form::Python { labels: "labels" },
};
const CIFAR100_BINARY: Layout = Layout {
    folder: "cifar-100-binary",
    training: &["train.bin"],
    test: "test.bin",
    names: "fine_label_names.txt",
    form: Form::Binary { labels: 2 },
};
const CIFAR100_PYTHON: Layout = Layout {
    folder: "cifar-100-python",
    training: &["train"],
    test: "test",
    names: "meta",
    form: Form::Python { labels: "fine_labels" },
};

fn layouts(kind: DataKind) -> [Layout; 2] {
    match kind {
        DataKind::Cifar10 => [CIFAR10_BINARY, CIFAR10_PYTHON],
        _ => [CIFAR100_BINARY, CIFAR100_PYTHON],
    }
}

fn class_count(kind: DataKind) -> usize {
    if kind == DataKind::Cifar10 { 10 } else { 100 }
}

/// The folder and layout of a release at or right below a folder.
fn find(kind: DataKind, directory: &Path) -> Option<(PathBuf, Layout)> {
    let places = layouts(kind).into_iter().flat_map(|layout| {
        [directory.to_owned(), directory.join(layout.folder)].map(|place| (place, layout))
    });
    // The test file alone would do for `test.bin`, but not for `train`, which is also a usual name of a folder.
    places.into_iter().find(|(place, layout)| {
        place.join(layout.test).is_file() && layout.training.iter().any(|part| place.join(part).is_file())
    })
}

/// The folder of a release that seems to be at or right below a folder, and its form.
pub(super) fn is_there(kind: DataKind, directory: &Path) -> Option<(PathBuf, &'static str)> {
    let (place, layout) = find(kind, directory)?;
    let form = match layout.form {
        Form::Binary { .. } => "binary release",
        Form::Python { .. } => "python release",
    };
    Some((place, form))
}

/// Opens a release.
pub(super) fn open(kind: DataKind, directory: &Path) -> Result<DataPair, DataError> {
    let Some((place, layout)) = find(kind, directory) else {
        let [binary, python] = layouts(kind);
        let missing = format!(
            "there is neither {} nor {} in it",
            Path::new(binary.folder).join(binary.test).display(),
            Path::new(python.folder).join(python.test).display()
        );
        return Err(DataError::NotFound { kind, directory: directory.into(), missing });
    };
    let classes = class_names(kind, &place.join(layout.names), layout.form)?;
    let mut training = color_set(kind, kind.name(), SIDE, classes.clone());
    for part in layout.training {
        read_part(&mut training, &place.join(part), layout.form)?;
    }
    let mut test = color_set(kind, kind.name(), SIDE, classes);
    read_part(&mut test, &place.join(layout.test), layout.form)?;
    Ok(DataPair { training, test })
}

fn read_part(set: &mut Dataset, path: &Path, form: Form) -> Result<(), DataError> {
    let bytes = read_bytes(path, MAX_FILE_BYTES)?;
    match form {
        Form::Binary { labels } => read_binary(set, path, &bytes, labels),
        Form::Python { labels } => read_python(set, path, &bytes, labels),
    }
}

fn read_binary(set: &mut Dataset, path: &Path, bytes: &[u8], labels: usize) -> Result<(), DataError> {
    let record = labels + PIXELS;
    if bytes.is_empty() || !bytes.len().is_multiple_of(record) {
        let whole = (bytes.len() / record + 1) * record;
        return Err(DataError::Length {
            path: path.into(),
            expected: whole as u64,
            came: bytes.len() as u64,
        });
    }
    for (image, record) in bytes.chunks_exact(record).enumerate() {
        push_label(set, path, image, u64::from(record[labels - 1]))?;
        set.images.extend_from_slice(&record[labels..]);
    }
    Ok(())
}

fn read_python(set: &mut Dataset, path: &Path, bytes: &[u8], key: &str) -> Result<(), DataError> {
    let refuse = |reason: String| DataError::Pickle { path: path.into(), reason };
    let Value::Dictionary(mut batch) = pickle::read(bytes).map_err(refuse)? else {
        return Err(refuse("it is no dictionary".to_owned()));
    };
    let (Some(Value::Matrix { rows, columns: PIXELS, bytes }), Some(Value::List(labels))) =
        (batch.remove("data"), batch.remove(key))
    else {
        return Err(refuse(format!("it has no matrix \"data\" with {PIXELS} columns and list {key:?}")));
    };
    if rows != labels.len() {
        return Err(refuse(format!("it has {rows} images and {} labels", labels.len())));
    }
    for (image, label) in labels.iter().enumerate() {
        let Value::Integer(label) = label else { return Err(refuse("a label is no number".to_owned())) };
        push_label(set, path, image, u64::try_from(*label).unwrap_or(u64::MAX))?;
    }
    set.images.extend_from_slice(&bytes);
    Ok(())
}

fn push_label(set: &mut Dataset, path: &Path, image: usize, class: u64) -> Result<(), DataError> {
    let classes = set.classes.len();
    if class >= classes as u64 {
        return Err(DataError::Class { path: path.into(), image, class, classes });
    }
    set.labels.push(class as u16);
    Ok(())
}

/// The names of the classes; numbers where the release was unpacked without them.
fn class_names(kind: DataKind, path: &Path, form: Form) -> Result<Vec<String>, DataError> {
    let count = class_count(kind);
    if !path.is_file() {
        return Ok((0..count).map(|class| format!("class {class}")).collect());
    }
    let bytes = read_bytes(path, MAX_FILE_BYTES)?;
    let names = match form {
        Form::Binary { .. } => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
        Form::Python { labels } => {
            let key = if labels == "labels" { "label_names" } else { "fine_label_names" };
            let refuse = |reason: String| DataError::Pickle { path: path.into(), reason };
            let Value::Dictionary(mut meta) = pickle::read(&bytes).map_err(refuse)? else {
                return Err(refuse("it is no dictionary".to_owned()));
            };
            let Some(Value::List(names)) = meta.remove(key) else {
                return Err(refuse(format!("it has no list {key:?}")));
            };
            let name = |value| match value {
                Value::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                other => format!("{other:?}"),
            };
            names.into_iter().map(name).collect::<Vec<_>>()
        }
    };
    if names.len() != count {
        let reason = format!("expected the names of {count} classes, {} came", names.len());
        return Err(DataError::List { path: path.into(), line: names.len(), reason });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::pickle::tests::batch;
    use crate::data::{DataRequest, open};

    fn pixels(first: u8) -> Vec<u8> {
        (0..PIXELS).map(|index| first.wrapping_add(index as u8)).collect()
    }

    #[test]
    fn the_binary_and_the_python_release_give_the_same_images() {
        let scratch = tempfile::tempdir().unwrap();
        let binary = scratch.path().join("one/cifar-100-binary");
        std::fs::create_dir_all(&binary).unwrap();
        let record = |label: u8, first: u8| [vec![0, label], pixels(first)].concat();
        std::fs::write(binary.join("train.bin"), [record(3, 9), record(99, 4)].concat()).unwrap();
        std::fs::write(binary.join("test.bin"), record(7, 1)).unwrap();
        let python = scratch.path().join("two/cifar-100-python");
        std::fs::create_dir_all(&python).unwrap();
        let both = [pixels(9), pixels(4)].concat();
        std::fs::write(python.join("train"), batch("fine_labels", &[3, 99], PIXELS as u16, &both)).unwrap();
        std::fs::write(python.join("test"), batch("fine_labels", &[7], PIXELS as u16, &pixels(1))).unwrap();
        let request = DataRequest::new(DataKind::Cifar100);
        let one = open(&request, Some(&scratch.path().join("one"))).unwrap();
        assert_eq!(one, open(&request, Some(&python)).unwrap());
        assert_eq!(one.training.labels, [3, 99]);
        assert_eq!(one.training.image(1).pixels(), pixels(4));
        assert_eq!(one.training.mean, [0.5071, 0.4867, 0.4408]);
    }

    #[test]
    fn damaged_and_missing_files_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let request = DataRequest::new(DataKind::Cifar100);
        let refusal = || open(&request, Some(scratch.path())).unwrap_err().to_string();
        assert!(refusal().contains("cifar-100-binary/test.bin"), "{}", refusal());
        assert!(refusal().contains("https://www.cs.toronto.edu/~kriz/cifar.html"));
        std::fs::write(scratch.path().join("test.bin"), [0; 10]).unwrap();
        std::fs::write(scratch.path().join("train.bin"), [vec![0, 100], pixels(0)].concat()).unwrap();
        assert!(refusal().contains("class 100, but there are 100"), "{}", refusal());
        std::fs::write(scratch.path().join("train.bin"), [vec![0, 1], pixels(0)].concat()).unwrap();
        assert!(refusal().contains("test.bin has 10 bytes, expected 3074"), "{}", refusal());
        std::fs::write(scratch.path().join("fine_label_names.txt"), "apple\n").unwrap();
        assert!(refusal().contains("100 classes, 1 came"), "{}", refusal());
    }

    #[test]
    fn cifar_10_is_read_from_five_batches() {
        let scratch = tempfile::tempdir().unwrap();
        for part in 1..=5_u8 {
            let bytes = [vec![part], pixels(part)].concat();
            std::fs::write(scratch.path().join(format!("data_batch_{part}.bin")), bytes).unwrap();
        }
        std::fs::write(scratch.path().join("test_batch.bin"), [vec![9], pixels(0)].concat()).unwrap();
        let pair = open(&DataRequest::new(DataKind::Cifar10), Some(scratch.path())).unwrap();
        assert_eq!(pair.training.labels, [1, 2, 3, 4, 5]);
        assert_eq!(pair.test.labels, [9]);
    }
}
