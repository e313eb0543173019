//! Files that go away with the test.

use std::path::PathBuf;

/// A name for a file that is made by the test, or by what it tests.
pub(crate) struct ScratchFile(pub(crate) PathBuf);

impl ScratchFile {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("sordino-{}-{name}", std::process::id())))
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
