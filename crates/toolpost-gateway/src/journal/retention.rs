//! Retention: removes whole segments by age and size, and writes a signed checkpoint so that the
//! remaining records still verify.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use toolpost::epoch_ms;

use super::JournalSettings;
use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::key::SigningKey;
use super::record::{RecordKind, RecordSummary, RecordWriter};
use super::segment::Segments;
use super::writer::SignedFiles;

/// A planned removal of segments.
pub(super) struct SegmentRemoval {
    /// The segments to remove, by the sequence number of their first record.
    files: Vec<u64>,
    /// Number of the last removed record.
    through: u64,
    hash: Hash,
}

/// Returns the removal that the retention settings require now. The segment being written is never
/// removed.
pub(super) fn plan_removal(
    segments: &Segments,
    settings: &JournalSettings,
) -> io::Result<Option<SegmentRemoval>> {
    let list = segments.list()?;
    let mut total = 0;
    let mut sizes = Vec::with_capacity(list.len());
    for &first in &list {
        let length = segments.size(first)?;
        total += length;
        sizes.push(length);
    }
    let mut count = 0_usize;
    for (&first, length) in list.iter().zip(sizes).take(list.len().saturating_sub(1)) {
        let is_too_much = settings.retain_size.is_some_and(|max| total > max);
        if !is_too_much && !is_expired(segments, settings, first)? {
            break;
        }
        total -= length;
        count += 1;
    }
    let Some(last) = count.checked_sub(1) else { return Ok(None) };
    let (through, hash) = segments.last_record(list[last]).map_err(io::Error::other)?;
    Ok(Some(SegmentRemoval { files: list[..count].to_vec(), through, hash }))
}

/// Whether the oldest segment of a chain is expired. Does not require the lock of the chain.
pub(super) fn has_expired_segment(segments: &Segments, settings: &JournalSettings) -> bool {
    let oldest = segments.list().ok().and_then(|list| list.first().copied());
    oldest.is_some_and(|first| is_expired(segments, settings, first).unwrap_or_default())
}

/// Whether a segment has expired. The modification time of the file is the time of its last record.
fn is_expired(segments: &Segments, settings: &JournalSettings, first: u64) -> io::Result<bool> {
    let Some(max) = settings.retain_for else { return Ok(false) };
    let written = std::fs::metadata(segments.path(first))?.modified()?;
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(written.saturating_add(max.as_millis()) < u128::from(epoch_ms().unsigned_abs()))
}

impl SegmentRemoval {
    pub(super) fn through(&self) -> u64 {
        self.through
    }

    /// Writes the checkpoint record that documents the removal in the chain.
    pub(super) fn write_checkpoint(
        &self,
        time: i64,
        content: &mut Vec<u8>,
    ) -> RecordSummary<'static> {
        let mut members = RecordWriter::start(content, "checkpoint", time);
        members.add("removedThrough", &self.through);
        members.add("hash", &self.hash.to_string());
        members.finish();
        RecordSummary { time, kind: RecordKind::Checkpoint, operation: "", identity: "" }
    }

    /// Removes the segments. The head is synced first, because it must not be older than the
    /// checkpoint. The checkpoint is written next, because the remaining records start from it.
    /// Files that remain after a failure are removed later.
    pub(super) fn apply(
        &self,
        key: &SigningKey,
        signed_files: &SignedFiles,
        segments: &Segments,
    ) -> io::Result<()> {
        File::options().write(true).open(&signed_files.head)?.sync_data()?;
        let seal = SignedPosition::sign(
            key,
            PositionKind::Checkpoint,
            self.through,
            self.hash,
            epoch_ms(),
        );
        seal.write_durably(&signed_files.checkpoint)?;
        for &first in &self.files {
            std::fs::remove_file(segments.path(first))?;
        }
        Ok(())
    }
}
