//! Atomic replacement of a file by one writer at a time.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::EditError;

/// The new content of a file in a temporary file beside it. The temporary name is fixed, so a
/// second concurrent writer fails instead of overwriting a change.
pub(super) struct AtomicWrite<'a> {
    target: &'a Path,
    temp_path: PathBuf,
    file: File,
    is_committed: bool,
}

impl<'a> AtomicWrite<'a> {
    pub(super) fn begin(target: &'a Path) -> Result<Self, EditError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(target.file_name().unwrap_or_default());
        name.push(".new");
        let beside = target.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&beside) {
            Ok(file) => Ok(Self { target, temp_path: beside, file, is_committed: false }),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(EditError::Locked(beside))
            }
            Err(source) => Err(EditError::Io { file: target.to_owned(), source }),
        }
    }

    pub(super) fn commit(mut self, text: &str) -> Result<(), EditError> {
        let written = self.write(text);
        self.is_committed = written.is_ok();
        written.map_err(|source| EditError::Io { file: self.target.to_owned(), source })
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.file.write_all(text.as_bytes())?;
        if let Ok(old) = std::fs::metadata(self.target) {
            self.file.set_permissions(old.permissions())?;
        }
        self.file.sync_all()?;
        std::fs::rename(&self.temp_path, self.target)
    }
}

/// Removes the temporary file if the write was not committed.
impl Drop for AtomicWrite<'_> {
    fn drop(&mut self) {
        if !self.is_committed {
            let _ = std::fs::remove_file(&self.temp_path);
        }
    }
}
