//! File metadata for detecting changes.

use std::path::Path;
use std::time::SystemTime;

/// Metadata of a file at one point in time. Symlinks are followed, since editors replace files and
/// mounted secrets are symlinks that change their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFingerprint {
    modified: Option<SystemTime>,
    len: u64,
    /// The inode number; 0 on platforms without one.
    inode: u64,
}

impl FileFingerprint {
    /// Reads the current metadata; `None` if it is not accessible.
    pub fn read(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let number = 0;
        Some(Self { modified: metadata.modified().ok(), len: metadata.len(), inode: number })
    }
}
