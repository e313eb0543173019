//! Why a recipe cannot be used.

use std::path::PathBuf;

use network::zoo::ZooError;

use crate::file::FileError;

/// Keys less alike than this are no typing mistakes of one another.
const MIN_SIMILARITY: f64 = 0.7;

/// A recipe that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// A file that could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A network where a recipe was expected.
    #[error(transparent)]
    Network(#[from] ZooError),
    /// What is wrong in a file.
    #[error("{} is no usable recipe", path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Box<RecipeError>,
    },
    /// It is no TOML, or TOML of another kind.
    #[error("{message}{}", suggestion.as_ref().map(|known| format!("\ndid you mean `{known}`?")).unwrap_or_default())]
    Syntax {
        /// What was expected and what came, with the line.
        message: String,
        /// The known key that is most like an unknown one.
        suggestion: Option<String>,
    },
    /// A value out of its range.
    #[error("{key} is {value}; expected {expected}")]
    Value {
        /// Which.
        key: &'static str,
        /// What came.
        value: String,
        /// What can be used.
        expected: &'static str,
    },
    /// `nan` or `inf`.
    #[error("{key} is NaN or infinite; expected a finite number")]
    NotFinite {
        /// Which.
        key: String,
    },
    /// Values that do not go together.
    #[error("{reason}")]
    Together {
        /// What to do.
        reason: &'static str,
    },
}

impl RecipeError {
    /// What the reader said, with the nearest known key where one is unknown.
    pub(super) fn syntax(error: &toml::de::Error) -> Self {
        Self::Syntax {
            message: error.to_string().trim_end().to_owned(),
            suggestion: nearest(error.message()),
        }
    }
}

/// The known key nearest to the unknown one; both stand in backquotes in serde's message.
fn nearest(message: &str) -> Option<String> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let alike = quoted.map(|known| (known, strsim::jaro_winkler(known, unknown)));
    let (known, similarity) = alike.max_by(|a, b| a.1.total_cmp(&b.1))?;
    (similarity >= MIN_SIMILARITY).then(|| known.to_owned())
}
