//! The entries by claim.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::log::{BodyLocation, Log};
use super::record::{Digest, RecordHead, RecordKind};

/// Maximum number of expired entries that one call removes.
const MAX_EXPIRED_PER_CALL: usize = 16;

/// What is known about a key.
pub(super) enum Entry {
    /// A call in this process holds the claim.
    Held(HeldClaim),
    /// The call has ended, or another process was killed while it ran.
    Ended(EndedCall),
}

/// The claim of a call in flight.
pub(super) struct HeldClaim {
    pub(super) input: Digest,
    /// Canceled when the claim ends.
    pub(super) ended: CancellationToken,
    /// The file with the record of the start.
    pub(super) started_in: Option<u64>,
}

/// A call that holds its claim no longer.
#[derive(Clone)]
pub(super) struct EndedCall {
    pub(super) input: Digest,
    pub(super) is_repeatable: bool,
    pub(super) time: i64,
    pub(super) journal_seq: u64,
    /// The encoded result; `None` if the call was interrupted.
    pub(super) result: Option<StoredBody>,
    /// The file with the record that the entry needs.
    pub(super) file: Option<u64>,
}

/// An encoded result.
#[derive(Clone)]
pub(super) enum StoredBody {
    File(BodyLocation),
    Memory(Arc<[u8]>),
}

/// The entries and the order in which they expire.
#[derive(Default)]
pub(super) struct Index {
    entries: HashMap<Digest, Entry, foldhash::fast::RandomState>,
    /// Time and claim of ended calls. A claim that was replaced has another time.
    expiry: VecDeque<(i64, Digest)>,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn get_mut(&mut self, claim: &Digest) -> Option<&mut Entry> {
        self.entries.get_mut(claim)
    }

    /// Adds or replaces an entry. Returns the one that it replaces.
    pub(super) fn insert(&mut self, claim: Digest, entry: Entry) -> Option<Entry> {
        if let Entry::Ended(ended) = &entry {
            self.expiry.push_back((ended.time, claim));
        }
        self.entries.insert(claim, entry)
    }

    pub(super) fn remove(&mut self, claim: &Digest) -> Option<Entry> {
        self.entries.remove(claim)
    }

    /// Applies a record that was read at the start.
    pub(super) fn restore(&mut self, head: &RecordHead, at: BodyLocation) {
        let result = match head.kind {
            RecordKind::Started => None,
            RecordKind::Finished => Some(StoredBody::File(at)),
            RecordKind::Released => {
                self.remove(&head.claim);
                return;
            }
        };
        let ended = EndedCall {
            input: head.input,
            is_repeatable: head.is_repeatable,
            time: head.time,
            journal_seq: head.journal_seq,
            result,
            file: Some(at.file),
        };
        self.insert(head.claim, Entry::Ended(ended));
    }

    /// Counts the files that the entries need.
    pub(super) fn count_files(&self, log: &mut Log) {
        for entry in self.entries.values() {
            if let Entry::Ended(EndedCall { file: Some(file), .. }) = entry {
                log.add_entry(*file);
            }
        }
    }

    /// Removes some of the entries that ended before `retain`, and passes them to `removed`. Returns
    /// whether there may be more.
    pub(super) fn expire(
        &mut self,
        now: i64,
        retain: Duration,
        mut removed: impl FnMut(EndedCall),
    ) -> bool {
        for _ in 0..MAX_EXPIRED_PER_CALL {
            let Some(&(time, claim)) = self.expiry.front() else { return false };
            if !is_expired(time, now, retain) {
                return false;
            }
            self.expiry.pop_front();
            let is_same =
                |entry: &Entry| matches!(entry, Entry::Ended(ended) if ended.time == time);
            if self.entries.get(&claim).is_some_and(is_same)
                && let Some(Entry::Ended(ended)) = self.entries.remove(&claim)
            {
                removed(ended);
            }
        }
        true
    }
}

/// Whether a call that ended at `time` is no longer kept.
pub(super) fn is_expired(time: i64, now: i64, retain: Duration) -> bool {
    let age = u64::try_from(now.saturating_sub(time)).unwrap_or(0);
    u128::from(age) >= retain.as_millis()
}
