//! Files and folders that go away with the test.

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

/// A folder for a test, removed at its end.
pub(crate) struct ScratchFolder(pub(crate) PathBuf);

impl ScratchFolder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sordino-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.at(name)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
