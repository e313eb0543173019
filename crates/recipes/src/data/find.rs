//! Which set of images lies in a folder, or right below it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{DataError, DataKind, cifar, folder, packed};

/// A set that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSet {
    /// Which set.
    pub kind: DataKind,
    /// Its form, in words.
    pub form: &'static str,
    /// Its own folder: the one that was looked at, or one right below.
    pub folder: PathBuf,
}

impl fmt::Display for FoundSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, {}, in {}", self.kind.name(), self.form, self.folder.display())
    }
}

/// The one set that a folder holds; no image is read.
///
/// # Errors
/// When there is no such folder, or it holds none or several.
pub fn find(directory: &Path) -> Result<FoundSet, DataError> {
    let named = || directory.to_owned();
    if !directory.exists() {
        return Err(DataError::Missing { directory: named() });
    }
    if !directory.is_dir() {
        return Err(DataError::NoFolder { directory: named() });
    }
    match &named_sets(directory)[..] {
        [] => class_folders(directory).ok_or_else(|| DataError::Unknown { directory: named() }),
        [only] => Ok(only.clone()),
        several => Err(DataError::Several { directory: named(), found: several.to_vec() }),
    }
}

/// All that are known by their files' names.
fn named_sets(directory: &Path) -> Vec<FoundSet> {
    let released = |kind| {
        let (folder, form) = cifar::is_there(kind, directory)?;
        Some(FoundSet { kind, form, folder })
    };
    let mut found: Vec<_> =
        [DataKind::Cifar10, DataKind::Cifar100].into_iter().filter_map(released).collect();
    if let Some(kind) = packed::kind_in(directory) {
        found.push(FoundSet { kind, form: packed::FORM, folder: directory.to_owned() });
    }
    if let Some(folder) = folder::find_tiny_imagenet(directory) {
        found.push(FoundSet { kind: DataKind::TinyImageNet, form: "as released", folder });
    }
    found
}

fn class_folders(directory: &Path) -> Option<FoundSet> {
    let form = match folder::find_parts(directory) {
        Ok((_, _, Some(_))) | Err(DataError::UnknownClass { .. }) => {
            "training and test images in class folders"
        }
        Ok((_, _, None)) => "class folders; a tenth of each class is the test set",
        Err(_) => return None,
    };
    Some(FoundSet { kind: DataKind::Folder, form, folder: directory.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_two_sets_is_neither() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |path: &str| scratch.path().join(path);
        assert!(matches!(find(&at("nowhere")), Err(DataError::Missing { .. })));
        assert!(matches!(find(scratch.path()), Err(DataError::Unknown { .. })));
        std::fs::create_dir_all(at("cifar-100-binary")).unwrap();
        for file in ["cifar-100-binary/train.bin", "cifar-100-binary/test.bin"] {
            std::fs::write(at(file), "").unwrap();
        }
        assert!(matches!(find(&at("cifar-100-binary/test.bin")), Err(DataError::NoFolder { .. })));
        let found = find(scratch.path()).unwrap();
        assert_eq!((found.kind, found.folder), (DataKind::Cifar100, at("cifar-100-binary")));
        for folder in ["tiny-imagenet-200/train", "tiny-imagenet-200/val"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("tiny-imagenet-200/val/val_annotations.txt"), "").unwrap();
        let error = find(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("holds 2 sets") && error.contains("name the folder of one"), "{error}");
        assert!(
            error.contains("CIFAR-100, binary release, in") && error.contains("tiny-imagenet-200"),
            "{error}"
        );
        assert_eq!(find(&at("tiny-imagenet-200")).unwrap().kind, DataKind::TinyImageNet);
    }
}
