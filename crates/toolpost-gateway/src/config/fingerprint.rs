//! File metadata for detecting changes, and reading of configuration files.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
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

/// Reads a text file of at most `max` bytes. A named pipe or a device, which could block forever, is
/// not read.
///
/// # Errors
///
/// The path is not a regular file, or the file is too large, not UTF-8 or not readable.
pub(crate) fn read_regular_file(path: &Path, max: u64) -> Result<String> {
    // Opening a named pipe without a writer would block.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Error::new(ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    if file.take(max + 1).read_to_string(&mut text)? as u64 > max {
        return Err(Error::new(ErrorKind::FileTooLarge, format!("larger than {max} bytes")));
    }
    Ok(text)
}
