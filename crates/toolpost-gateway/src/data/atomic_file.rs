//! Small files that are written atomically and survive a crash.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Creates or replaces a file atomically: a reader sees no file, the old content or the new
/// content. The content is durable when this returns. Only the owner can read the file.
pub(crate) fn write_atomic(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = OsString::from(file);
    new.push(".new");
    let mut written = super::private_file_options().create(true).truncate(true).open(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    sync_dir(file.parent().unwrap_or(Path::new(".")))
}

/// Syncs a folder, so that created and renamed files survive a crash of the machine.
#[cfg(unix)]
pub(crate) fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Does nothing: other systems sync folders on their own and cannot open them as files.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it is the same function everywhere")]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}
