//! Retention: removes whole segments by age and size, and writes a signed checkpoint so that the
//! remaining records still verify.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant, SystemTime};

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::key::SigningKey;
use super::layout::Chain;
use super::queue::Durability;
use super::record::{RecordKind, RecordSummary};
use super::segment::Segments;
use super::{JournalSettings, WriterShared};

/// How far the wall clock can run ahead of the steady clock before it is considered to have jumped.
const MAX_CLOCK_DRIFT_MS: i64 = 60 * 60 * 1_000;

/// How long a jump of the wall clock must last before retention by age follows it.
const CLOCK_JUMP_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time for retention by age. When the wall clock jumps forward, the time continues without the
/// jump, so that a wrong clock does not remove records before an operator can correct it.
#[derive(Debug)]
pub(super) struct RetentionClock {
    /// A steady time and the wall clock at that time.
    anchor: (Instant, i64),
    jumped_at: Option<Instant>,
}

impl RetentionClock {
    pub(super) fn new(steady: Instant, wall: i64) -> Self {
        Self { anchor: (steady, wall), jumped_at: None }
    }

    /// Returns the time in milliseconds since the Unix epoch.
    pub(super) fn now(&mut self, steady: Instant, wall: i64) -> i64 {
        let elapsed = steady.saturating_duration_since(self.anchor.0).as_millis();
        let expected = self.anchor.1.saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX));
        if wall.saturating_sub(expected) > MAX_CLOCK_DRIFT_MS {
            let jumped_at = *self.jumped_at.get_or_insert_with(|| {
                tracing::warn!("the clock has jumped; journal retention by age waits for a day");
                steady
            });
            if steady.saturating_duration_since(jumped_at) < CLOCK_JUMP_GRACE {
                return expected;
            }
        }
        *self = Self::new(steady, wall);
        wall
    }
}

pub(super) struct SegmentRemoval {
    /// The segments to remove, by the sequence number of their first record.
    files: Vec<u64>,
    pub(super) through: u64,
    hash: Hash,
}

/// Returns the removal that the retention settings require at a time in milliseconds since the Unix
/// epoch. The segment being written is never removed.
pub(super) fn plan_removal(
    key: &SigningKey,
    segments: &Segments,
    settings: &JournalSettings,
    now: i64,
) -> io::Result<Option<SegmentRemoval>> {
    let list = segments.list()?;
    let sizes: Vec<u64> =
        list.iter().map(|&first| segments.size(first)).collect::<io::Result<_>>()?;
    let mut total: u64 = sizes.iter().sum();
    let mut count = 0_usize;
    for (&first, size) in list.iter().zip(sizes).take(list.len().saturating_sub(1)) {
        let is_too_much = settings.retain_size.is_some_and(|max| total > max);
        if !is_too_much && !is_expired(segments, settings, first, now)? {
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
    oldest
        .is_some_and(|first| is_expired(segments, settings, first, epoch_ms()).unwrap_or_default())
}

/// Whether a segment has expired. The modification time of the file is the time of its last record.
fn is_expired(
    segments: &Segments,
    settings: &JournalSettings,
    first: u64,
    now: i64,
) -> io::Result<bool> {
    let Some(max) = settings.retain_for else { return Ok(false) };
    let written = std::fs::metadata(segments.path(first))?.modified()?;
    let written = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    Ok(written.saturating_add(max.as_millis()) < u128::from(now.unsigned_abs()))
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * 60 * 1_000;

    #[test]
    fn clock_jump_does_not_expire_records_at_once() {
        let begin = Instant::now();
        let after = |hours: u64| begin + Duration::from_secs(hours * 60 * 60);
        let mut clock = RetentionClock::new(begin, 0);
        let year = 365 * 24 * HOUR;
        // Each row: hours since the start, the wall clock, and the time for retention.
        for (hours, wall, expected) in [
            (1, HOUR, HOUR),
            (2, 2 * HOUR + HOUR / 2, 2 * HOUR + HOUR / 2),
            (3, year, 3 * HOUR + HOUR / 2),
            (4, year, 4 * HOUR + HOUR / 2),
            // The clock was corrected.
            (5, 5 * HOUR, 5 * HOUR),
            // The clock jumps and stays.
            (6, year, 6 * HOUR),
            (29, year + 23 * HOUR, 29 * HOUR),
            (30, year + 24 * HOUR, year + 24 * HOUR),
            (31, year + 25 * HOUR, year + 25 * HOUR),
            (32, HOUR, HOUR),
        ] {
            assert_eq!(clock.now(after(hours), wall), expected, "{hours} {wall}");
        }
    }
}
