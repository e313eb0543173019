//! What can be wrong with a file of prepared inferences.

use std::path::{Path, PathBuf};

use crypto::random::SystemRandomError;
use inference::stored::StoredError;

use sealed::secret_file::SecretFileError;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PreparedFileError {
    /// The system or the file's mode.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// Something else.
    #[error("{} is no file of prepared inferences; expected one that `sordino prepare` made", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// Another version.
    #[error("{} has format version {came}, this program reads version {expected}; prepare again", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Ours.
        expected: u32,
        /// Theirs.
        came: u32,
    },
    /// Cut off, or changed by someone without the key.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// The wrong key.
    #[error("the key does not open {}: it is another file's, or the file was changed", path.display())]
    Key {
        /// The file.
        path: PathBuf,
    },
    /// Another process has it.
    #[error(
        "another process uses {}, and did not end within {seconds} seconds; try again when it has, or wait longer (--timeout)",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Nothing left.
    #[error("no usable inference is left in {} ({expired} expired); prepare new ones", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// How many were too old.
        expired: u32,
    },
    /// More than the file was made for.
    #[error("all {slots} places of {} are filled", path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// How many.
        slots: u32,
    },
    /// What was read back cannot be used.
    #[error("a prepared inference cannot be used")]
    Stored(#[from] StoredError),
    /// No randomness.
    #[error(transparent)]
    Random(#[from] SystemRandomError),
}

pub(super) fn damaged(path: &Path, what: &'static str) -> PreparedFileError {
    PreparedFileError::Damaged { path: path.to_owned(), what }
}
