//! Retention: removes whole segments by age and size, and writes a signed checkpoint so that the
//! remaining records still verify.

use std::fs::File;
use std::io;
use std::time::SystemTime;

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::key::SigningKey;
use super::layout::Chain;
use super::queue::Durability;
use super::record::{RecordKind, RecordSummary};
use super::segment::Segments;
use super::{JournalSettings, WriterShared};

pub(super) struct SegmentRemoval {
    /// The segments to remove, by the sequence number of their first record.
    files: Vec<u64>,
    pub(super) through: u64,
    hash: Hash,
}

/// Returns the removal that the retention settings require now. The segment being written is never
/// removed.
pub(super) fn plan_removal(
    key: &SigningKey,
    segments: &Segments,
    settings: &JournalSettings,
) -> io::Result<Option<SegmentRemoval>> {
    let list = segments.list()?;
    let sizes: Vec<u64> =
        list.iter().map(|&first| segments.size(first)).collect::<io::Result<_>>()?;
    let mut total: u64 = sizes.iter().sum();
    let mut count = 0_usize;
    for (&first, size) in list.iter().zip(sizes).take(list.len().saturating_sub(1)) {
        let is_too_much = settings.retain_size.is_some_and(|max| total > max);
        if !is_too_much && !is_expired(segments, settings, first)? {
            break;
        }
        total -= size;
        count += 1;
    }
    let Some(last) = count.checked_sub(1) else { return Ok(None) };
    let (through, hash) = segments.last_record(key, list[last]).map_err(io::Error::other)?;
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
    /// Queues the checkpoint record that documents the removal in the chain. Returns whether it was
    /// queued.
    pub(super) fn record(&self, shared: &WriterShared) -> bool {
        let (time, kind) = (epoch_ms(), RecordKind::Checkpoint);
        let summary = RecordSummary { time, kind, name: "", identity: "" };
        let queued = shared.record(&summary, Durability::Async, |members| {
            members.add("removedThrough", &self.through);
            members.add("hash", &self.hash.to_string());
        });
        queued.is_some()
    }

    /// Removes the segments. The head is synced first, because it must not be older than the
    /// checkpoint. The checkpoint is written next, because the remaining records start from it.
    /// Files that remain after a failure are removed later.
    pub(super) fn apply(&self, key: &SigningKey, chain: &Chain) -> io::Result<()> {
        File::options().write(true).open(&chain.head)?.sync_data()?;
        let kind = PositionKind::Checkpoint;
        SignedPosition::sign(key, kind, self.through, self.hash, epoch_ms())
            .write_durably(&chain.checkpoint)?;
        for &first in &self.files {
            std::fs::remove_file(chain.segments.path(first))?;
        }
        Ok(())
    }
}
