//! Folders for tests.

use std::path::PathBuf;

use crypto::random::Seed;

/// A folder that goes away with the test.
pub(crate) struct TestFolder(PathBuf);

impl TestFolder {
    pub(crate) fn new(name: &str) -> Self {
        let seed = Seed::from_system().unwrap();
        let mark = u64::from_le_bytes(*seed.expose().first_chunk().unwrap());
        let path = std::env::temp_dir().join(format!("sordino-{name}-{mark:016x}"));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
