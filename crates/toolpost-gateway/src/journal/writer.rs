//! The one thread that writes: records in groups, each group on the disk before its head is.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{About, Seal};
use super::index::{Index, OpenBlock};
use super::key::Key;
use super::queue::{Group, Queue, Wait};
use super::record::Stored;
use super::retention;
use super::segment::{Broken, End, Segments};
use super::{Committed, Mode, Settings, Shared};
use crate::data::{durable, make_private};

/// How long records gather before they are written, where nobody waits for them.
const GATHER: Duration = Duration::from_millis(20);
/// How often it is looked whether something is too old, and how long the thread sleeps at most.
const UPKEEP: Duration = Duration::from_secs(30);
/// How long it waits before it tries again to write what could not be written.
const AGAIN: Duration = Duration::from_millis(250);

/// The files that say something about a chain and are not part of it.
#[derive(Debug, Clone)]
pub(super) struct SealFiles {
    pub(super) head: PathBuf,
    pub(super) checkpoint: PathBuf,
}

pub(super) struct Writer {
    key: Key,
    seals: SealFiles,
    segments: Segments,
    settings: Settings,
    file: File,
    end: End,
    /// Whether the file may hold something behind its end.
    is_torn: bool,
    /// The time of the first record in the file.
    began: Option<i64>,
    index: Option<Index>,
    block: OpenBlock,
    /// The lines of a group; kept, so that its memory is.
    out: Vec<u8>,
    content: Vec<u8>,
    /// The lengths of those lines.
    lengths: Vec<usize>,
    looked: Instant,
    removal: Option<retention::Removal>,
}

impl Writer {
    /// Takes a chain up where it ended.
    pub(super) fn open(
        key: Key,
        seals: SealFiles,
        segments: Segments,
        settings: Settings,
    ) -> Result<Self, Broken> {
        let (end, unfinished) = Self::end_of(&key, &seals, &segments)?;
        segments.forget_behind(&end, unfinished)?;
        make_private(segments.folder())?;
        let file = open_at(&segments, &end)?;
        let (index, block) = match indexed(&segments, &end).or_else(|error| {
            tracing::warn!(%error, "the index of the journal is damaged and made again");
            forget_index(&segments);
            indexed(&segments, &end)
        }) {
            Ok((index, block)) => (Some(index), block),
            Err(error) => {
                tracing::error!(%error, "the index of the journal cannot be used; searching is slow");
                (None, OpenBlock::at(end.segment, end.bytes, end.seq + 1))
            }
        };
        let began = segments.began(end.segment)?;
        let writer = Self {
            key,
            seals,
            segments,
            settings,
            file,
            end,
            is_torn: false,
            began,
            index,
            block,
            out: Vec::new(),
            content: Vec::new(),
            lengths: Vec::new(),
            looked: Instant::now(),
            removal: None,
        };
        writer.write_head()?;
        Ok(writer)
    }

    /// Where a chain ends, and how many bytes that are no record stand behind that. It is only looked.
    pub(super) fn end_of(
        key: &Key,
        seals: &SealFiles,
        segments: &Segments,
    ) -> Result<(End, u64), Broken> {
        let head = Seal::read_live(&seals.head)?;
        let start = start_of(seals, key.gateway_id())?;
        if !head.is_genuine() || head.gateway_id != key.gateway_id() {
            return Err(io::Error::other("the head was not signed by this gateway").into());
        }
        segments.recover(&head, start)
    }

    pub(super) fn end(&self) -> End {
        self.end
    }

    /// Removes what is too old or too much, of a chain that nobody goes on with.
    pub(super) fn clear(mut self) {
        let shared = Shared::new(self.end);
        self.keep_up(&shared);
        shared.queue.close();
        self.run(&shared);
    }

    pub(super) fn run(mut self, shared: &Shared) {
        let _guard = Guard(shared);
        let gather = if self.settings.mode == Mode::Sync { Duration::ZERO } else { GATHER };
        let upkeep = self.settings.segment_age().map_or(UPKEEP, |age| age.min(UPKEEP));
        let mut group = Group::default();
        while shared.queue.take(gather, upkeep, &mut group).is_some() {
            if !group.is_empty() && !self.write(&mut group, shared) {
                break;
            }
            if self.is_due() || self.looked.elapsed() >= upkeep {
                self.keep_up(shared);
            }
        }
        self.close_block(self.end.segment);
        tracing::debug!(seq = self.end.seq, "the journal is closed");
    }

    /// Writes a group, however often that takes; says whether the thread should go on.
    fn write(&mut self, group: &mut Group, shared: &Shared) -> bool {
        let mut was_in_trouble = false;
        loop {
            match self.commit(group, &shared.queue) {
                Ok(()) => break,
                Err(error) => {
                    let said: Arc<str> = error.to_string().into();
                    if !was_in_trouble {
                        tracing::error!(%error, "the journal cannot be written");
                    }
                    was_in_trouble = true;
                    shared.queue.set_trouble(Some(Arc::clone(&said)));
                    group.tell(&Err(said));
                    if shared.queue.pause(AGAIN) {
                        continue;
                    }
                    if self.commit(group, &shared.queue).is_ok() {
                        break;
                    }
                    let lost = self.lengths.len() as u64;
                    shared.lost.fetch_add(lost, Ordering::Relaxed);
                    tracing::error!(lost, "the journal was closed before it could be written");
                    return false;
                }
            }
        }
        if was_in_trouble {
            let lost = shared.lost.load(Ordering::Relaxed);
            tracing::info!(lost, "the journal is written again");
            shared.queue.set_trouble(None);
        }
        self.note(group);
        shared.committed.send_replace(Committed { end: self.end });
        group.settle(&Ok(()));
        self.finish_removal();
        true
    }

    /// Puts a group on the disk, and then says so in the head. Nothing has happened if it fails.
    ///
    /// A process that dies loses nothing that is in its file, so whoever wants no more than that is told
    /// before the disk is waited for.
    fn commit(&mut self, group: &mut Group, queue: &Queue) -> io::Result<()> {
        let end = self.put(group, queue)?;
        self.file.sync_data()?;
        self.is_torn = false;
        let before = std::mem::replace(&mut self.end, end);
        self.write_head().inspect_err(|_| {
            self.end = before;
            self.is_torn = true;
        })
    }

    /// Puts a group into the file, and what comes in the moment after that: whoever is told of one
    /// message answers it, and should not have to wait for the disk before that is told on.
    ///
    /// Another try writes the same over what is there already. That is not taken away before, because
    /// somebody may have been told of it.
    fn put(&mut self, group: &mut Group, queue: &Queue) -> io::Result<End> {
        if self.is_torn {
            self.file.seek(SeekFrom::Start(self.end.bytes))?;
        }
        self.is_torn = true;
        self.out.clear();
        self.lengths.clear();
        let (mut end, mut taken, until) = (self.end, 0, Instant::now() + GATHER);
        loop {
            let written = self.out.len();
            self.lay(group, taken, &mut end)?;
            taken = group.length();
            self.file.write_all(&self.out[written..])?;
            // A file that is full is finished first: retention removes whole files.
            let bytes = end.bytes + self.out.len() as u64;
            let is_full = bytes >= self.settings.segment_bytes();
            if !group.tell_in_file() || is_full || !queue.take_more(until, group) {
                return Ok(End { bytes, ..end });
            }
        }
    }

    /// Makes lines of the records of a group that come behind so many bytes of it.
    fn lay(&mut self, group: &Group, taken: usize, end: &mut End) -> io::Result<()> {
        for (_, rest) in group.records_behind(taken) {
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
        let End { seq, hash, .. } = self.end;
        Seal::sign(&self.key, About::Head, seq, hash, epoch_ms()).write_over(&self.seals.head)
    }

    /// Tells the index of what was written.
    fn note(&mut self, group: &Group) {
        for ((facts, _), &length) in group.records().zip(&self.lengths) {
            self.began.get_or_insert(facts.time);
            self.block.add(&facts, length as u64);
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
            tracing::error!(%error, "the index of the journal cannot be written; searching is slow");
            self.index = None;
        }
    }

    /// Whether the file is large or old enough to be finished.
    fn is_due(&self) -> bool {
        let age = self.began.map_or(0, |began| epoch_ms().saturating_sub(began));
        let most = self.settings.segment_age();
        let is_old = most.is_some_and(|most| i128::from(age) > most.as_millis().cast_signed());
        self.end.bytes >= self.settings.segment_bytes() || is_old
    }

    /// Begins a new file. Where that does not work, the old one goes on.
    fn roll(&mut self) {
        let end = End { segment: self.end.seq + 1, bytes: 0, ..self.end };
        match open_at(&self.segments, &end) {
            Ok(file) => {
                self.file = file;
                self.end = end;
                self.began = None;
                self.close_block(end.segment);
            }
            Err(error) => tracing::warn!(%error, "the journal goes on in the same file"),
        }
    }

    /// Finishes a file that is large or old enough, looks for what may be removed, and says so in the
    /// chain; the removal follows when that is written.
    pub(super) fn keep_up(&mut self, shared: &Shared) {
        self.looked = Instant::now();
        if self.is_due() {
            self.roll();
        }
        if self.removal.is_some() {
            return;
        }
        match retention::due(&self.segments, &self.settings) {
            Ok(Some(removal)) => {
                let mut content = Vec::new();
                let facts = removal.record(epoch_ms(), &mut content);
                if shared.queue.add(&facts, &content, Wait::Never).is_some() {
                    self.removal = Some(removal);
                }
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "old records cannot be removed"),
        }
    }

    fn finish_removal(&mut self) {
        let Some(removal) = self.removal.take() else { return };
        let done = removal.carry_out(&self.key, &self.seals, &self.segments);
        if let Err(error) = done {
            tracing::warn!(%error, "old records cannot be removed");
            return;
        }
        tracing::info!(through = removal.through(), "old records of the journal were removed");
        if let Some(index) = &mut self.index
            && let Err(error) = index.forget_before(removal.through() + 1)
        {
            tracing::warn!(%error, "the index of the journal still knows what was removed");
        }
    }
}

/// A thread that ends in the middle of something takes no more, and leaves nobody waiting.
struct Guard<'a>(&'a Shared);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.close();
            let reason = "the thread that writes it has ended; its error is in the log";
            self.0.queue.set_trouble(Some(reason.into()));
        }
    }
}

/// Where what is there of a chain begins: after its checkpoint, else at its genesis.
pub(super) fn start_of(seals: &SealFiles, gateway_id: &str) -> io::Result<(u64, Hash)> {
    let checkpoint = match Seal::read(&seals.checkpoint) {
        Ok(checkpoint) => checkpoint,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((0, Hash::genesis(gateway_id)));
        }
        Err(error) => return Err(error),
    };
    let is_own = checkpoint.about == About::Checkpoint && checkpoint.gateway_id == gateway_id;
    match checkpoint.hash() {
        Some(hash) if is_own && checkpoint.is_genuine() => Ok((checkpoint.seq, hash)),
        _ => Err(io::Error::other("the checkpoint was not signed by this gateway")),
    }
}

fn open_at(segments: &Segments, end: &End) -> io::Result<File> {
    let path = segments.path(end.segment);
    let is_new = !path.exists();
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.seek(SeekFrom::Start(end.bytes))?;
    if is_new {
        durable::sync_folder(segments.folder())?;
    }
    Ok(file)
}

/// What the database keeps beside its file belongs to it.
fn forget_index(segments: &Segments) {
    for ending in ["", "-wal", "-shm"] {
        // What cannot be removed is told when it is opened.
        let _ = std::fs::remove_file(segments.folder().join(format!("{}{ending}", super::INDEX)));
    }
}

/// The index, made up for what it does not know yet, and the stretch that goes on.
fn indexed(segments: &Segments, end: &End) -> rusqlite::Result<(Index, OpenBlock)> {
    let file = segments.folder().join(super::INDEX);
    let mut index = Index::open(&file)?;
    let mut last = index.last()?;
    if last.is_some_and(|last| last.last_seq > end.seq) {
        // It knows what is not there: it belongs to something else.
        drop(index);
        forget_index(segments);
        index = Index::open(&file)?;
        last = None;
    }
    let known = last.map(|last| (last.segment, last.offset + last.bytes));
    let mut block = None;
    for first in segments.list().unwrap_or_default() {
        let from = match known {
            Some((segment, _)) if first < segment => continue,
            Some((segment, offset)) if first == segment => offset,
            _ => 0,
        };
        let text = segments.read(first, from, u64::MAX).unwrap_or_default();
        let mut open = OpenBlock::at(first, from, 0);
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let content =
                line.strip_suffix(b"\n").and_then(|line| line.get(super::chain::PREFIX..));
            let Some(stored) = content.and_then(Stored::parse) else { break };
            if open.is_empty() {
                open = OpenBlock::at(first, open.end(), stored.seq);
            }
            open.add(&stored.facts(), line.len() as u64);
            if open.is_full() {
                index.write(&open)?;
                open = open.next(first);
            }
        }
        if first != end.segment && !open.is_empty() {
            index.write(&open)?;
        }
        block = Some(open);
    }
    let block = block.filter(|block| !block.is_empty());
    Ok((index, block.unwrap_or_else(|| OpenBlock::at(end.segment, end.bytes, end.seq + 1))))
}

#[cfg(test)]
mod tests {
    use super::super::record::{Facts, What};
    use super::*;

    #[test]
    fn a_thread_that_panics_leaves_nobody_waiting() {
        let end = End { segment: 1, bytes: 0, seq: 0, hash: Hash::genesis("x") };
        let shared = Shared::new(end);
        let facts = Facts { time: 1, what: What::Enter, operation: "a.b", who: "" };
        let mut waits = shared.queue.add(&facts, b"", Wait::ForDisk).unwrap().written.unwrap();
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _guard = Guard(&shared);
                panic!("in the middle of something");
            });
            thread.join()
        });
        assert!(ended.is_err());
        assert!(waits.try_recv().unwrap().unwrap_err().contains("has ended"));
        assert!(shared.queue.trouble().is_some());
        assert!(shared.queue.add(&facts, b"", Wait::ForDisk).is_none());
    }
}
