//! Files of people and of runs: read up to a limit, written whole, refused with their path.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use network::bytes::read_at_most;

/// A file or folder that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}{advice}", path.display())]
pub struct FileError {
    /// What was tried, such as `read` or `make the folder`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// What was expected there or what to do, with its separator; empty where the action says it all.
    pub advice: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: something was tried with a path.
    pub fn on<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + Copy + use<'a> {
        move |source| Self { action, path: path.into(), advice: "", source }
    }

    /// The same with advice for the reader.
    #[must_use]
    pub fn advise(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }
}

/// Reads a file of at most so many bytes; a device never ends.
///
/// # Errors
/// When it cannot be read or is longer.
pub fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    read_at_most(path, limit).map_err(FileError::on("read", path))
}

/// Reads a text of at most so many bytes.
///
/// # Errors
/// When it cannot be read, is longer, or is no text.
pub fn read_text(path: &Path, limit: u64) -> Result<String, FileError> {
    let no_text =
        |_| FileError::on("read", path)(io::Error::new(io::ErrorKind::InvalidData, "it is no text"));
    String::from_utf8(read_bytes(path, limit)?).map_err(no_text)
}

/// Writes a file under another name first, so that a file of this name is always whole. Makes its folder too.
///
/// # Errors
/// When it cannot be written.
pub fn write_whole(path: &Path, content: impl AsRef<[u8]>) -> Result<(), FileError> {
    let hidden = unfinished(path);
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&hidden, content)).and_then(|()| fs::rename(&hidden, path));
    written.map_err(FileError::on("write", path))
}

/// The same for a file that several processes write, on one machine or on several: each under a name of its own.
///
/// # Errors
/// When it cannot be written.
pub fn write_shared(path: &Path, content: impl AsRef<[u8]>) -> Result<(), FileError> {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let mut hidden = unfinished(path).into_os_string();
    hidden.push(format!(".{}.{}.{number}", host.trim(), std::process::id()));
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(&hidden, content)).and_then(|()| fs::rename(&hidden, path));
    if written.is_err() {
        // What is left of it is of no use, and the first error tells more.
        let _ = fs::remove_file(&hidden);
    }
    written.map_err(FileError::on("write", path))
}

/// What a file is called while [`write_whole`] writes it.
pub fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".writing");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_several_write_is_always_one_of_theirs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inside/shared");
        std::thread::scope(|scope| {
            for letter in ["a", "b", "c", "d"] {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| write_shared(path, letter.repeat(50_000)).unwrap()));
            }
        });
        let text = read_text(&path, 50_000).unwrap();
        assert_eq!(text, text[..1].repeat(50_000));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_is_read_up_to_its_limit_and_refused_with_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inside/text");
        write_whole(&path, "four").unwrap();
        assert!(!unfinished(&path).exists());
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        let error = read_text(&path, 3).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot read {}", path.display()));
        assert_eq!(error.source.to_string(), "it has more than 3 bytes, too many for its kind");
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text(&path, 3).unwrap_err().source.to_string(), "it is no text");
        let missing = read_bytes(Path::new("/nowhere"), 1).unwrap_err().advise("; look elsewhere");
        assert_eq!(missing.to_string(), "cannot read /nowhere; look elsewhere");
    }
}
