//! What a file looks like from outside, to see that it has become another one.

use std::path::Path;
use std::time::SystemTime;

/// A file at one moment. Editors replace files and mounted secrets are links that move, so it is the
/// file at the end of all links that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFingerprint {
    modified: Option<SystemTime>,
    len: u64,
    /// Which file of its disk it is, where that can be told.
    inode: u64,
}

impl FileFingerprint {
    /// The file as it is now; `None` if it cannot be seen.
    pub fn read(file: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(file).ok()?;
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(&metadata);
        #[cfg(not(unix))]
        let number = 0;
        Some(Self { modified: metadata.modified().ok(), len: metadata.len(), inode: number })
    }
}
