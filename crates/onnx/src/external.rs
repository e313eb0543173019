//! Weights beside the file: `model.onnx` may name other files of its folder.
//!
//! A name is a relative path without `..`. What it leads to, through whatever links, must lie in the folder of the model, so
//! that a stranger's model cannot make anybody read other files. Only as many bytes are read as the tensor has.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

/// Where files beside the model may be read from.
#[derive(Clone, Debug)]
pub struct ExternalFiles {
    folder: Option<PathBuf>,
}

impl ExternalFiles {
    /// Files of this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: Some(folder.to_owned()) }
    }

    /// None at all.
    pub const fn none() -> Self {
        Self { folder: None }
    }

    /// The bytes that these keys name, exactly as many as are expected.
    pub(crate) fn read(&self, keys: &[(&str, &str)], expected: usize) -> Result<Vec<u8>, ExternalError> {
        let find = |wanted: &str| keys.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);
        let number = |key: &str| match find(key) {
            None => Ok(None),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| ExternalError::Number { text: text.to_owned() })
            }
        };
        let name = find("location").ok_or(ExternalError::NoLocation)?;
        let (offset, length) = (number("offset")?.unwrap_or(0), number("length")?);
        let unreadable = |source| ExternalError::Unreadable { name: name.to_owned(), source };
        let mut file = File::open(self.path(name)?).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(ExternalError::Path { name: name.to_owned() });
        }
        let available = metadata.len().saturating_sub(offset);
        let came = length.unwrap_or(available).min(available);
        if came != expected as u64 {
            return Err(ExternalError::Length { name: name.to_owned(), expected: expected as u64, came });
        }
        let mut bytes = vec![0; expected];
        file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_exact(&mut bytes)).map_err(unreadable)?;
        Ok(bytes)
    }

    /// Where a name leads, if that is inside the folder.
    fn path(&self, name: &str) -> Result<PathBuf, ExternalError> {
        let refused = || ExternalError::Path { name: name.to_owned() };
        let folder = self.folder.as_ref().ok_or_else(refused)?;
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let relative = Path::new(name);
        if name.is_empty() || !relative.components().all(is_plain) {
            return Err(refused());
        }
        let unreadable = |source| ExternalError::Unreadable { name: name.to_owned(), source };
        let folder = folder.canonicalize().map_err(unreadable)?;
        let path = folder.join(relative).canonicalize().map_err(unreadable)?;
        if path.starts_with(&folder) { Ok(path) } else { Err(refused()) }
    }
}

/// Weights beside the file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// No file is named.
    #[error("its weights lie outside the file, and no file is named")]
    NoLocation,
    /// An offset or length that is no number.
    #[error("its weights lie outside the file, at {text:?}; expected a number of bytes")]
    Number {
        /// What came.
        text: String,
    },
    /// A path out of the folder.
    #[error("its weights lie in {name:?}; expected a file in the folder of the model, named without `..`")]
    Path {
        /// What the file names.
        name: String,
    },
    /// No such file.
    #[error("its weights lie in {name:?} beside the model, which cannot be read; copy it there")]
    Unreadable {
        /// What the file names.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// Fewer or more bytes than the tensor has.
    #[error("its weights take {expected} bytes, {name:?} has {came} for them; export the model again")]
    Length {
        /// What the file names.
        name: String,
        /// What the tensor takes.
        expected: u64,
        /// What is there.
        came: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_folder_are_read_and_no_others() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("models");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(outer.path().join("secret"), [9; 4]).unwrap();
        std::fs::write(folder.join("w.data"), [0, 1, 2, 3, 4, 5]).unwrap();
        let files = ExternalFiles::in_folder(&folder);
        let read = |location: &str, offset: &str, length: &str, expected| {
            files.read(&[("location", location), ("offset", offset), ("length", length)], expected)
        };
        assert_eq!(read("w.data", "2", "3", 3).unwrap(), [2, 3, 4]);
        assert_eq!(read("./w.data", "0", "6", 6).unwrap(), [0, 1, 2, 3, 4, 5]);
        assert!(matches!(read("w.data", "4", "3", 3), Err(ExternalError::Length { came: 2, .. })));
        assert!(matches!(read("w.data", "9", "3", 3), Err(ExternalError::Length { came: 0, .. })));
        assert!(matches!(read("w.data", "-1", "3", 3), Err(ExternalError::Number { .. })));
        assert!(matches!(read("../secret", "0", "4", 4), Err(ExternalError::Path { .. })));
        let absolute = outer.path().join("secret");
        assert!(matches!(read(absolute.to_str().unwrap(), "0", "4", 4), Err(ExternalError::Path { .. })));
        assert!(matches!(read("", "0", "4", 4), Err(ExternalError::Path { .. })));
        assert!(matches!(read("none", "0", "4", 4), Err(ExternalError::Unreadable { .. })));
        assert!(matches!(files.read(&[], 4), Err(ExternalError::NoLocation)));
        assert!(matches!(
            ExternalFiles::none().read(&[("location", "w.data")], 6),
            Err(ExternalError::Path { .. })
        ));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&absolute, folder.join("link")).unwrap();
            assert!(matches!(read("link", "0", "4", 4), Err(ExternalError::Path { .. })));
            std::fs::create_dir(folder.join("sub")).unwrap();
            assert!(matches!(
                read("sub", "0", "4", 4),
                Err(ExternalError::Path { .. } | ExternalError::Unreadable { .. })
            ));
        }
    }
}
