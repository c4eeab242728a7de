//! The writer thread. It signs and syncs the records in groups, and then overwrites the head.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toolpost::epoch_ms;

use super::appender::{Appender, UnsyncedRecords};
use super::chain::LINE_PREFIX_LEN;
use super::head::{PositionKind, SignedPosition};
use super::index::{Index, OpenBlock};
use super::key::SigningKey;
use super::layout::Chain;
use super::record::StoredRecord;
use super::retention::{self, RetentionClock};
use super::segment::{ChainEnd, ChainError, Recovery, Seal, Segments};
use super::{JournalMode, JournalSettings, WriterShared};
use crate::data::{atomic_file, create_private_dir, private_file_options};

/// How long records without waiters are collected before they are synced.
const GROUP_DELAY: Duration = Duration::from_millis(20);
/// Maximum interval between checks for expired segments, and maximum sleep of the thread.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(super) struct JournalWriter {
    key: Arc<SigningKey>,
    shared: Arc<WriterShared>,
    /// Held to prevent other processes from writing the same chain.
    _lock: File,
    chain: Chain,
    settings: JournalSettings,
    /// Sequence number of the head.
    head_seq: u64,
    segment_started: Option<i64>,
    index: Option<Index>,
    block: OpenBlock,
    /// Buffer for the records being synced; reused to avoid allocations.
    unsynced: UnsyncedRecords,
    last_maintenance: Instant,
    retention_clock: RetentionClock,
    removal: Option<retention::SegmentRemoval>,
}

impl JournalWriter {
    /// Opens a chain and signs the records of a process that crashed.
    pub(super) fn open(
        key: SigningKey,
        lock: File,
        chain: Chain,
        settings: &JournalSettings,
    ) -> Result<Self, ChainError> {
        let Recovery { end, seal, torn } = Self::find_end(&key, &chain)?;
        chain.segments.truncate_after(&end, torn)?;
        create_private_dir(&chain.segments.folder)?;
        let file = open_segment(&chain.segments, &end)?;
        let index = open_index(&chain, &end).or_else(|error| {
            tracing::warn!(%error, "journal index is damaged; rebuilding it");
            remove_index(&chain);
            open_index(&chain, &end)
        });
        let (index, block) = match index {
            Ok((index, block)) => (Some(index), block),
            Err(error) => {
                tracing::error!(%error, "journal index is not available; searches read every record");
                (None, OpenBlock::at(end.segment, end.bytes, end.seq + 1))
            }
        };
        let segment_started = chain.segments.first_record_time(end.segment)?;
        let head_seq = SignedPosition::read(&chain.head)?.seq;
        if seal == Seal::Unsigned {
            let (first, last) = (head_seq + 1, end.seq);
            tracing::warn!(first, last, "journal was not closed; signing its last records");
        }
        let key = Arc::new(key);
        let max_bytes = settings.segment_bytes();
        let appender = Appender::new(Arc::clone(&key), file, (end, seal), max_bytes);
        let mut writer = Self {
            key,
            shared: Arc::new(WriterShared::new(appender)),
            _lock: lock,
            chain,
            settings: settings.clone(),
            head_seq,
            segment_started,
            index,
            block,
            unsynced: UnsyncedRecords::default(),
            last_maintenance: Instant::now(),
            retention_clock: RetentionClock::new(Instant::now(), epoch_ms()),
            removal: None,
        };
        writer.commit(PositionKind::Group)?;
        Ok(writer)
    }

    /// Finds the end of a chain. Does not modify any file.
    pub(super) fn find_end(key: &SigningKey, chain: &Chain) -> Result<Recovery, ChainError> {
        let head = SignedPosition::read_concurrently_written(&chain.head)?;
        let start = chain.start()?;
        if !head.is_signed_by(key.gateway_id(), PositionKind::Head) {
            return Err(io::Error::other("the head was not signed by this gateway").into());
        }
        chain.segments.recover(key, &head, start)
    }

    pub(super) fn gateway_id(&self) -> &str {
        &self.chain.gateway_id
    }

    pub(super) fn key(&self) -> Arc<SigningKey> {
        Arc::clone(&self.key)
    }

    pub(super) fn shared(&self) -> Arc<WriterShared> {
        Arc::clone(&self.shared)
    }

    /// Applies retention to a chain that this process does not continue.
    pub(super) fn apply_retention(mut self) {
        self.maintain();
        self.shared.queue.close();
        self.run();
    }

    /// Writes records until the queue is closed. The last record is the signature of a closed
    /// journal.
    pub(super) fn run(mut self) {
        let shared = self.shared();
        let _guard = PanicGuard(&shared);
        let gather =
            if self.settings.mode == JournalMode::Sync { Duration::ZERO } else { GROUP_DELAY };
        let maintenance_interval = self
            .settings
            .segment_age()
            .map_or(MAINTENANCE_INTERVAL, |age| age.min(MAINTENANCE_INTERVAL));
        while shared.queue.wait_for_work(gather, maintenance_interval) {
            let segment = self.block.range.segment;
            self.commit_with_retry(true);
            let is_rotated = segment != self.block.range.segment;
            if is_rotated || self.last_maintenance.elapsed() >= maintenance_interval {
                self.maintain();
            }
        }
        self.commit_with_retry(false);
        self.close_block(self.block.range.segment);
        tracing::debug!(seq = self.head_seq, "journal closed");
    }

    /// Commits until it succeeds or the queue is closed. The last commit closes the chain.
    fn commit_with_retry(&mut self, mut is_open: bool) {
        let shared = self.shared();
        let mut was_failing = false;
        loop {
            let about = if is_open { PositionKind::Group } else { PositionKind::Close };
            let Err(error) = self.commit(about) else { break };
            if !is_open {
                let lost = shared.appender.lock().unsynced_count() + shared.queue.len();
                shared.lost_records.fetch_add(lost as u64, Ordering::Relaxed);
                tracing::error!(%error, lost, "journal closed with unwritten records");
                return;
            }
            if !was_failing {
                tracing::error!(%error, "journal write failed");
            }
            was_failing = true;
            shared.fail_waiters(&error.to_string().into());
            is_open = shared.queue.sleep(RETRY_DELAY);
        }
        if shared.queue.clear_write_error() {
            let lost = shared.lost_records.load(Ordering::Relaxed);
            tracing::info!(lost, "journal writes recovered");
        }
        self.finish_removal();
    }

    /// Signs and syncs all records and then updates the head. If the segment is full, also starts the
    /// next one. Records can be written to the same segment meanwhile, unless it is full.
    fn commit(&mut self, about: PositionKind) -> io::Result<()> {
        let shared = self.shared();
        let mut appender = shared.appender.lock();
        appender.write_signed(&shared.queue, about)?;
        appender.take_unsynced(&mut self.unsynced);
        self.unsynced.group.notify_written();
        let (file, end) = (appender.file(), appender.end());
        let first = self.unsynced.group.summaries().next().map(|summary| summary.time);
        let segment_started = self.segment_started.or(first);
        let rotates = appender.is_full() || self.is_old(segment_started);
        let held = rotates.then_some(appender);
        if let Err(error) = self.sync(&file, end) {
            let mut appender = held.unwrap_or_else(|| shared.appender.lock());
            appender.restore_unsynced(&mut self.unsynced);
            return Err(error);
        }
        self.segment_started = segment_started;
        self.index_records();
        if let Some(mut appender) = held {
            self.rotate_segment(&mut appender);
        }
        shared.committed.send_replace(end);
        self.unsynced.group.notify_waiters(&Ok(()));
        self.unsynced.clear();
        Ok(())
    }

    /// Syncs the records before the head that covers them.
    fn sync(&mut self, file: &File, end: ChainEnd) -> io::Result<()> {
        if end.seq == self.head_seq {
            return Ok(());
        }
        file.sync_data()?;
        SignedPosition::sign(&self.key, PositionKind::Head, end.seq, end.hash, epoch_ms())
            .overwrite(&self.chain.head)?;
        self.head_seq = end.seq;
        Ok(())
    }

    fn index_records(&mut self) {
        for (summary, &length) in self.unsynced.group.summaries().zip(&self.unsynced.lengths) {
            self.block.add(&summary, length as u64);
        }
        if self.block.is_full() {
            self.close_block(self.block.range.segment);
        }
    }

    fn close_block(&mut self, segment: u64) {
        let next = self.block.next(segment);
        let block = std::mem::replace(&mut self.block, next);
        let Some(index) = &mut self.index else { return };
        if !block.is_empty()
            && let Err(error) = index.write(&block)
        {
            tracing::error!(%error, "journal index write failed; searches read every record");
            self.index = None;
        }
    }

    /// Whether a segment that was started at this time is old enough to be finished.
    fn is_old(&self, segment_started: Option<i64>) -> bool {
        let age =
            segment_started.map_or(0, |segment_started| epoch_ms().saturating_sub(segment_started));
        let max = self.settings.segment_age();
        max.is_some_and(|max| i128::from(age) > max.as_millis().cast_signed())
    }

    /// Starts a new segment. On failure, writing continues in the current one.
    fn rotate_segment(&mut self, appender: &mut Appender) {
        let end = appender.end();
        let end = ChainEnd { segment: end.seq + 1, bytes: 0, ..end };
        match open_segment(&self.chain.segments, &end) {
            Ok(file) => {
                appender.start_segment(file, end);
                self.segment_started = None;
                self.close_block(end.segment);
            }
            Err(error) => {
                tracing::warn!(%error, "journal segment rotation failed; continuing in the current file");
            }
        }
    }

    /// Plans the removal of old segments. It is recorded in the chain and performed after that record
    /// is written.
    pub(super) fn maintain(&mut self) {
        self.last_maintenance = Instant::now();
        if self.removal.is_some() {
            return;
        }
        let now = self.retention_clock.now(self.last_maintenance, epoch_ms());
        match retention::plan_removal(&self.key, &self.chain.segments, &self.settings, now) {
            Ok(removal) => self.removal = removal.filter(|removal| removal.record(&self.shared)),
            Err(error) => tracing::warn!(%error, "removal of old journal segments failed"),
        }
    }

    fn finish_removal(&mut self) {
        let Some(removal) = self.removal.take() else { return };
        if let Err(error) = removal.apply(&self.key, &self.chain) {
            tracing::warn!(%error, "removal of old journal segments failed");
            return;
        }
        tracing::info!(through = removal.through, "old journal segments removed");
        if let Some(index) = &mut self.index
            && let Err(error) = index.remove_before(removal.through + 1)
        {
            tracing::warn!(%error, "removal of old journal index entries failed");
        }
    }
}

/// Closes the queue and fails all waiters if the writer thread panics.
struct PanicGuard<'a>(&'a WriterShared);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.close();
            self.0.fail_waiters(&"the journal writer thread has ended; see the log".into());
        }
    }
}

fn open_segment(segments: &Segments, end: &ChainEnd) -> io::Result<File> {
    let path = segments.path(end.segment);
    let is_new = !path.exists();
    let mut file = private_file_options().create(true).truncate(false).open(path)?;
    file.seek(SeekFrom::Start(end.bytes))?;
    if is_new {
        atomic_file::sync_dir(&segments.folder)?;
    }
    Ok(file)
}

/// Removes the index, including the WAL files of the database.
fn remove_index(chain: &Chain) {
    let file = chain.index_file();
    for suffix in ["", "-wal", "-shm"] {
        // A file that cannot be removed is reported when it is opened.
        let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
    }
}

/// Opens the index and adds the records it lacks. Returns the index and the open block.
fn open_index(chain: &Chain, end: &ChainEnd) -> rusqlite::Result<(Index, OpenBlock)> {
    let mut index = Index::open(&chain.index_file())?;
    let mut last = index.last()?;
    if last.is_some_and(|last| last.last_seq > end.seq) {
        // The index covers records that do not exist, so it belongs to another chain.
        drop(index);
        remove_index(chain);
        index = Index::open(&chain.index_file())?;
        last = None;
    }
    let last = last.unwrap_or_default();
    let mut block = OpenBlock::at(end.segment, end.bytes, end.seq + 1);
    let segments = chain.segments.list().unwrap_or_default();
    for segment in segments.into_iter().filter(|&segment| segment >= last.segment) {
        block = match segment == last.segment {
            true => OpenBlock::at(segment, last.end(), last.last_seq + 1),
            false => OpenBlock::at(segment, 0, segment),
        };
        let Ok(mut lines) = chain.segments.lines(segment, block.range.offset) else { continue };
        while let Ok(Some(line)) = lines.next() {
            let content = line.get(LINE_PREFIX_LEN..);
            let Some(stored) = content.and_then(StoredRecord::parse) else { break };
            block.add(&stored.summary(), line.len() as u64 + 1);
            if block.is_full() {
                index.write(&block)?;
                block = block.next(segment);
            }
        }
        if segment != end.segment && !block.is_empty() {
            index.write(&block)?;
        }
    }
    Ok((index, block))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::chain::Hash;
    use super::super::queue::Durability;
    use super::super::record::{RecordKind, RecordSummary};
    use super::*;

    #[test]
    fn panicked_writer_thread_fails_waiters() {
        let end = ChainEnd { segment: 1, bytes: 0, seq: 0, hash: Hash::genesis("x") };
        let (key, _) = SigningKey::generate().unwrap();
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let appender = Appender::new(Arc::new(key), file, (end, Seal::Signed), u64::MAX);
        let shared = WriterShared::new(appender);
        let summary = RecordSummary { time: 1, kind: RecordKind::Enter, name: "a.b", identity: "" };
        let receipt = shared.queue.push(&summary, b"", Durability::Synced).unwrap().receipt;
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = PanicGuard(&shared);
                // The receipt also fails if the thread has already taken the record.
                let _failed_write = shared.appender.lock().write_queued(&shared.queue);
                panic!("in the middle of something");
            });
            thread.join()
        });
        assert!(ended.is_err());
        assert!(receipt.now_or_never().unwrap().unwrap_err().contains("has ended"));
        assert!(shared.queue.write_error().is_some());
        assert!(shared.queue.push(&summary, b"", Durability::Synced).is_none());
    }
}
