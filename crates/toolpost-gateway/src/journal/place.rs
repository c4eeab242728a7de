//! Where the records of a chain are, for those who read it without the configuration of whoever writes.

use std::io;
use std::path::{Path, PathBuf};

use crate::data::durable;

/// What the names of the files end with.
pub(super) const ENDING: &str = ".place";

/// The folder that was written down; none where the records are beside the key.
pub(super) fn read(seals: &Path, gateway_id: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file(seals, gateway_id)).ok()?;
    Some(PathBuf::from(text.strip_suffix('\n')?))
}

/// Writes it down, unless it is known.
pub(super) fn write(seals: &Path, gateway_id: &str, records: &Path) -> io::Result<()> {
    let file = file(seals, gateway_id);
    if records == seals {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let records = std::path::absolute(records)?;
    if read(seals, gateway_id).as_ref() == Some(&records) {
        return Ok(());
    }
    durable::replace(&file, format!("{}\n", records.display()).as_bytes())
}

fn file(seals: &Path, gateway_id: &str) -> PathBuf {
    seals.join(format!("{gateway_id}{ENDING}"))
}
