//! Small files that are there whole or not at all, also after the machine has died.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Puts a file into its place, or in the place of an older one, in one step: whoever looks finds
/// nothing, the old or the new. What is there when this returns stays there. Nobody else reads it.
pub(crate) fn write_atomic(file: &Path, content: &[u8]) -> io::Result<()> {
    let mut new = OsString::from(file);
    new.push(".new");
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut written = options.open(&new)?;
    written.write_all(content)?;
    written.sync_all()?;
    std::fs::rename(&new, file)?;
    sync_dir(file.parent().unwrap_or(Path::new(".")))
}

/// Names of files last no longer than the machine runs, unless their folder is synced.
#[cfg(unix)]
pub(crate) fn sync_dir(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Other systems do this on their own, and cannot open a folder.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it is the same function everywhere")]
pub(crate) fn sync_dir(_: &Path) -> io::Result<()> {
    Ok(())
}
