//! The writer thread. It writes records in groups, and syncs each group before it writes the head.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toolpost::epoch_ms;

use super::chain::LINE_PREFIX_LEN;
use super::head::{PositionKind, SignedPosition};
use super::index::{Index, OpenBlock};
use super::key::SigningKey;
use super::layout::Chain;
use super::queue::{GROUP_BYTES, Group, Queue};
use super::record::StoredRecord;
use super::retention;
use super::segment::{ChainEnd, ChainError, Segments};
use super::{JournalMode, JournalSettings, WriterShared};
use crate::data::{atomic_file, create_private_dir, private_file_options};

/// How long records without waiters are collected before they are written.
const GROUP_DELAY: Duration = Duration::from_millis(20);
/// Maximum interval between checks for expired segments, and maximum sleep of the thread.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(250);

pub(super) struct JournalWriter {
    key: SigningKey,
    /// Held to prevent other processes from writing the same chain.
    _lock: File,
    chain: Chain,
    settings: JournalSettings,
    file: File,
    end: ChainEnd,
    /// Whether the segment may contain bytes after its end.
    has_partial_write: bool,
    segment_started: Option<i64>,
    index: Option<Index>,
    block: OpenBlock,
    /// Encoded lines of a group; reused to avoid allocations.
    out: Vec<u8>,
    content: Vec<u8>,
    lengths: Vec<usize>,
    last_maintenance: Instant,
    removal: Option<retention::SegmentRemoval>,
}

impl JournalWriter {
    pub(super) fn open(
        key: SigningKey,
        lock: File,
        chain: Chain,
        settings: &JournalSettings,
    ) -> Result<Self, ChainError> {
        let (end, unfinished) = Self::find_end(&key, &chain)?;
        chain.segments.truncate_after(&end, unfinished)?;
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
        let writer = Self {
            key,
            _lock: lock,
            chain,
            settings: settings.clone(),
            file,
            end,
            has_partial_write: false,
            segment_started,
            index,
            block,
            out: Vec::new(),
            content: Vec::new(),
            lengths: Vec::new(),
            last_maintenance: Instant::now(),
            removal: None,
        };
        writer.write_head()?;
        Ok(writer)
    }

    /// Returns the end of a chain and the number of bytes after it that are not a complete record.
    /// Does not modify any file.
    pub(super) fn find_end(key: &SigningKey, chain: &Chain) -> Result<(ChainEnd, u64), ChainError> {
        let head = SignedPosition::read_concurrently_written(&chain.head)?;
        let start = chain.start()?;
        if !head.is_signed_by(key.gateway_id(), PositionKind::Head) {
            return Err(io::Error::other("the head was not signed by this gateway").into());
        }
        chain.segments.recover(&head, start)
    }

    pub(super) fn gateway_id(&self) -> &str {
        &self.chain.gateway_id
    }

    pub(super) fn end(&self) -> ChainEnd {
        self.end
    }

    /// Applies retention to a chain that this process does not continue.
    pub(super) fn apply_retention(mut self) {
        let shared = WriterShared::new(self.end);
        self.maintain(&shared);
        shared.queue.close();
        self.run(&shared);
    }

    pub(super) fn run(mut self, shared: &WriterShared) {
        let _guard = PanicGuard(shared);
        let gather =
            if self.settings.mode == JournalMode::Sync { Duration::ZERO } else { GROUP_DELAY };
        let maintenance_interval = self
            .settings
            .segment_age()
            .map_or(MAINTENANCE_INTERVAL, |age| age.min(MAINTENANCE_INTERVAL));
        let mut group = Group::default();
        while shared.queue.take_group(gather, maintenance_interval, &mut group).is_some() {
            if !group.is_empty() && !self.write_group(&mut group, shared) {
                break;
            }
            if self.should_rotate() || self.last_maintenance.elapsed() >= maintenance_interval {
                self.maintain(shared);
            }
        }
        self.close_block(self.end.segment);
        tracing::debug!(seq = self.end.seq, "journal closed");
    }

    /// Writes a group, with retries until it succeeds or the queue is closed. Returns whether the
    /// thread should continue.
    fn write_group(&mut self, group: &mut Group, shared: &WriterShared) -> bool {
        let (mut was_failing, mut is_open) = (false, true);
        while let Err(error) = self.commit(group, &shared.queue) {
            if !is_open {
                let lost = group.len() as u64;
                shared.lost_records.fetch_add(lost, Ordering::Relaxed);
                tracing::error!(lost, "journal closed with unwritten records");
                return false;
            }
            if !was_failing {
                tracing::error!(%error, "journal write failed");
            }
            was_failing = true;
            let reason: Arc<str> = error.to_string().into();
            shared.queue.set_write_error(Some(Arc::clone(&reason)));
            group.notify_waiters(&Err(reason));
            is_open = shared.queue.sleep(RETRY_DELAY);
        }
        if was_failing {
            let lost = shared.lost_records.load(Ordering::Relaxed);
            tracing::info!(lost, "journal writes recovered");
            shared.queue.set_write_error(None);
        }
        self.index_group(group);
        shared.committed.send_replace(self.end);
        group.complete(&Ok(()));
        self.out.clear();
        self.out.shrink_to(GROUP_BYTES);
        self.finish_removal();
        true
    }

    /// Writes a group to disk and then updates the head. If either fails, the end of the chain is
    /// unchanged.
    ///
    /// Data in the file survives a process crash, so waiters that need no more than that are
    /// notified before the fsync.
    fn commit(&mut self, group: &mut Group, queue: &Queue) -> io::Result<()> {
        let end = self.append_group(group, queue)?;
        self.file.sync_data()?;
        self.has_partial_write = false;
        let before = std::mem::replace(&mut self.end, end);
        self.write_head().inspect_err(|_| {
            self.end = before;
            self.has_partial_write = true;
        })
    }

    /// Appends a group to the file, along with records that arrive shortly after. A participant
    /// that receives a message often replies at once, and the reply should not wait for the fsync
    /// of the first message.
    ///
    /// A retry overwrites the data of the failed attempt with the same data. That data is not
    /// truncated first, because its waiters may already be notified.
    fn append_group(&mut self, group: &mut Group, queue: &Queue) -> io::Result<ChainEnd> {
        if self.has_partial_write {
            self.file.seek(SeekFrom::Start(self.end.bytes))?;
        }
        self.has_partial_write = true;
        self.out.clear();
        self.lengths.clear();
        let (mut end, mut taken, until) = (self.end, 0, Instant::now() + GROUP_DELAY);
        loop {
            let written = self.out.len();
            self.encode_lines(group, taken, &mut end)?;
            taken = group.len();
            self.file.write_all(&self.out[written..])?;
            // A full segment is completed first, because retention removes whole segments.
            let bytes = end.bytes + self.out.len() as u64;
            let is_full = bytes >= self.settings.segment_bytes();
            if !group.notify_written() || is_full || !queue.extend_group(until, group) {
                return Ok(ChainEnd { bytes, ..end });
            }
        }
    }

    /// Encodes the records of a group after the first `taken` ones as lines.
    fn encode_lines(&mut self, group: &Group, taken: usize, end: &mut ChainEnd) -> io::Result<()> {
        for (_, rest) in group.records().skip(taken) {
            end.seq += 1;
            self.content.clear();
            write!(self.content, "{{\"seq\":{},", end.seq)?;
            self.content.extend_from_slice(rest);
            end.hash = end.hash.next(&self.content);
            let before = self.out.len();
            end.hash.write_line(&self.content, &mut self.out);
            self.lengths.push(self.out.len() - before);
        }
        Ok(())
    }

    fn write_head(&self) -> io::Result<()> {
        let ChainEnd { seq, hash, .. } = self.end;
        SignedPosition::sign(&self.key, PositionKind::Head, seq, hash, epoch_ms())
            .overwrite(&self.chain.head)
    }

    fn index_group(&mut self, group: &Group) {
        for ((summary, _), &length) in group.records().zip(&self.lengths) {
            self.segment_started.get_or_insert(summary.time);
            self.block.add(&summary, length as u64);
        }
        if self.block.is_full() {
            self.close_block(self.end.segment);
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

    /// Whether the segment is large or old enough to be finished.
    fn should_rotate(&self) -> bool {
        let age = self
            .segment_started
            .map_or(0, |segment_started| epoch_ms().saturating_sub(segment_started));
        let max = self.settings.segment_age();
        let is_old = max.is_some_and(|max| i128::from(age) > max.as_millis().cast_signed());
        self.end.bytes >= self.settings.segment_bytes() || is_old
    }

    /// Starts a new segment. On failure, writing continues in the current one.
    fn rotate_segment(&mut self) {
        let end = ChainEnd { segment: self.end.seq + 1, bytes: 0, ..self.end };
        match open_segment(&self.chain.segments, &end) {
            Ok(file) => {
                self.file = file;
                self.end = end;
                self.segment_started = None;
                self.close_block(end.segment);
            }
            Err(error) => {
                tracing::warn!(%error, "journal segment rotation failed; continuing in the current file");
            }
        }
    }

    /// Rotates a segment that is large or old enough, and plans the removal of old segments. The
    /// removal is recorded in the chain and performed after that record is written.
    pub(super) fn maintain(&mut self, shared: &WriterShared) {
        self.last_maintenance = Instant::now();
        if self.should_rotate() {
            self.rotate_segment();
        }
        if self.removal.is_some() {
            return;
        }
        match retention::plan_removal(&self.chain.segments, &self.settings) {
            Ok(removal) => self.removal = removal.filter(|removal| removal.record(shared)),
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
            let reason = "the journal writer thread has ended; see the log";
            self.0.queue.set_write_error(Some(reason.into()));
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
        let shared = WriterShared::new(end);
        let summary = RecordSummary { time: 1, kind: RecordKind::Enter, name: "a.b", identity: "" };
        let receipt =
            shared.queue.push(&summary, b"", Durability::Synced).unwrap().receipt.unwrap();
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = PanicGuard(&shared);
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
