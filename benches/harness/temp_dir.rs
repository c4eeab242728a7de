//! A temporary folder.

use std::path::PathBuf;

/// A folder that is removed on drop.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("toolpost-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    #[allow(dead_code, reason = "not every benchmark writes files")]
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // A leftover temporary folder is not an error.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
