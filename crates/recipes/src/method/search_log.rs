//! What happened in a search, one JSON object a line.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::file::{FileError, read_text, write_whole};

/// The longest log.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The number of a line's epoch.
pub trait Numbered {
    /// Epochs done.
    fn number(&self) -> u32;
}

/// A log that is being written.
pub struct SearchLog {
    path: PathBuf,
    file: File,
}

impl SearchLog {
    /// Opens a log and keeps the lines of the epochs that are done.
    ///
    /// # Errors
    /// When it cannot be written, or there is one that cannot be read: it stays as it is then.
    pub fn open<T: Numbered + DeserializeOwned>(path: &Path, done: u32) -> Result<Self, FileError> {
        let earlier = match read_text(path, MAX_FILE_BYTES) {
            Err(error) if error.source.kind() == ErrorKind::NotFound => String::new(),
            earlier => earlier?,
        };
        let is_kept = |line: &&str| serde_json::from_str::<T>(line).is_ok_and(|epoch| epoch.number() <= done);
        let kept: String = earlier.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
        write_whole(path, kept)?;
        let file = File::options().append(true).open(path).map_err(FileError::on("write", path))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn add<T: Serialize>(&mut self, epoch: &T) -> Result<(), FileError> {
        let line = serde_json::to_string(epoch).expect("an epoch holds only names and numbers");
        writeln!(self.file, "{line}").map_err(FileError::on("write", &self.path))
    }
}

/// Reads a log; a last line without an end, as an interrupted search leaves it, and anything else that is no epoch is
/// left out.
///
/// # Errors
/// When it cannot be read.
pub fn read_epochs<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, FileError> {
    let text = read_text(path, MAX_FILE_BYTES)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Line {
        epoch: u32,
    }

    impl Numbered for Line {
        fn number(&self) -> u32 {
            self.epoch
        }
    }

    fn line(epoch: u32) -> Line {
        Line { epoch }
    }

    #[test]
    fn a_resumed_search_forgets_the_epochs_that_it_repeats() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("search.jsonl");
        let mut log = SearchLog::open::<Line>(&path, 0).unwrap();
        (1..=3).for_each(|number| log.add(&line(number)).unwrap());
        let mut log = SearchLog::open::<Line>(&path, 1).unwrap();
        log.add(&line(2)).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"epoch\":3").unwrap();
        assert_eq!(read_epochs::<Line>(&path).unwrap(), [line(1), line(2)]);
    }

    #[test]
    fn a_log_that_cannot_be_read_is_not_erased() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("search.jsonl");
        std::fs::write(&path, [0xff, 0xfe]).unwrap();
        assert!(SearchLog::open::<Line>(&path, 1).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), [0xff, 0xfe]);
    }
}
