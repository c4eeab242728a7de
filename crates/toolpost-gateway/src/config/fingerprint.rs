//! File metadata for detecting changes.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Metadata of a file at one point in time. Symlinks are followed, since editors replace files and
/// mounted secrets are symlinks that change their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFingerprint {
    modified: Option<SystemTime>,
    len: u64,
    inode: u64,
}

impl FileFingerprint {
    /// Reads the current metadata; `None` if it is not accessible.
    pub fn read(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        let (modified, len) = (metadata.modified().ok(), metadata.len());
        Some(Self { modified, len, inode: metadata.ino() })
    }
}
