//! File with the location of the records of a chain, for readers without the writer's
//! configuration.

use std::io;
use std::path::{Path, PathBuf};

use crate::data::atomic_file;

/// File name suffix.
pub(super) const FILE_SUFFIX: &str = ".path";

/// Returns the recorded folder, or `None` if the records are next to the key.
pub(super) fn read(journal_dir: &Path, gateway_id: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(path_file(journal_dir, gateway_id)).ok()?;
    Some(PathBuf::from(text.strip_suffix('\n')?))
}

/// Writes the location if it has changed. Removes the file if the records are in the journal
/// folder.
pub(super) fn write(journal_dir: &Path, gateway_id: &str, records: &Path) -> io::Result<()> {
    let file = path_file(journal_dir, gateway_id);
    if records == journal_dir {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let records = std::path::absolute(records)?;
    if read(journal_dir, gateway_id).as_ref() == Some(&records) {
        return Ok(());
    }
    atomic_file::write_atomic(&file, format!("{}\n", records.display()).as_bytes())
}

fn path_file(journal_dir: &Path, gateway_id: &str) -> PathBuf {
    journal_dir.join(format!("{gateway_id}{FILE_SUFFIX}"))
}
