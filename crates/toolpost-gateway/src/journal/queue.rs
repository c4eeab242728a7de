//! Queue of records not written yet: callers append to a buffer, which is taken as a whole by the
//! thread that writes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::record::{MAX_MEMBER_BYTES, RecordKind, RecordSummary};

/// Queue size above which adding a record waits until it is written.
const BACKPRESSURE_BYTES: usize = 4 * 1024 * 1024;
/// Queue size above which records are rejected.
const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;
/// Queue size at which the writer stops waiting for more records.
pub(super) const GROUP_BYTES: usize = 512 * 1024;

/// Whether a record was written, or why not.
pub(super) type WriteResult = Result<(), Arc<str>>;

/// Resolves when a record has the requested durability, or to the reason why it has not. A record
/// that could not be written may still be written later.
///
/// # Cancellation
///
/// Dropping the receipt does not affect what is written.
#[derive(Debug)]
pub(crate) enum WriteReceipt {
    Ready(WriteResult),
    Waiting(oneshot::Receiver<WriteResult>),
}

impl Future for WriteReceipt {
    type Output = WriteResult;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WriteResult> {
        match self.get_mut() {
            Self::Ready(result) => Poll::Ready(result.clone()),
            Self::Waiting(waits) => Pin::new(waits)
                .poll(context)
                .map(|result| result.unwrap_or_else(|_| Err("the journal is closed".into()))),
        }
    }
}

pub(super) struct Queue {
    state: Mutex<QueueState>,
    wake: Condvar,
}

#[derive(Default)]
struct QueueState {
    group: Group,
    next_seq: u64,
    thread: ThreadState,
    /// Whether records were queued since the writer thread began its last commit.
    has_work: bool,
    is_closed: bool,
    write_error: Option<Arc<str>>,
}

/// What the writer thread waits for.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    #[default]
    Busy,
    /// Woken by the next record.
    Idle,
    /// Waits for more records. Woken by a record with a waiter, and by many records.
    Gathering,
}

/// Records that are written together.
#[derive(Default)]
pub(super) struct Group {
    headers: Vec<RecordHeader>,
    names: String,
    contents: Vec<u8>,
    /// Waiters for the fsync of the group.
    sync_waiters: Vec<oneshot::Sender<WriteResult>>,
    /// Waiters for the write of the group to the file.
    write_waiters: Vec<oneshot::Sender<WriteResult>>,
}

/// The fixed-size part of a queued record.
struct RecordHeader {
    time: i64,
    kind: RecordKind,
    name_len: usize,
    identity_len: usize,
    content_len: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    /// Does not wait, unless the queue is large.
    Async,
    /// Waits until the record is in the file, so that it survives a crash of the process.
    Written,
    /// Waits until the record is synced, so that it survives a crash of the machine.
    Synced,
}

pub(super) struct QueuedRecord {
    pub(super) seq: u64,
    /// Resolves when the record has the requested durability.
    pub(super) receipt: WriteReceipt,
}

impl Queue {
    pub(super) fn new(next_seq: u64) -> Self {
        let state = QueueState { next_seq, ..QueueState::default() };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Adds a record and assigns its number. The receipt waits if the record must be synced or if
    /// the queue is above the backpressure limit, and fails while writes fail. The caller writes a
    /// record that must be in the file. Returns `None` if the queue is full or closed.
    pub(super) fn push(
        &self,
        summary: &RecordSummary<'_>,
        content: &[u8],
        durability: Durability,
    ) -> Option<QueuedRecord> {
        let mut state = self.state.lock();
        if state.is_closed || state.group.size() > MAX_QUEUED_BYTES {
            return None;
        }
        let before = state.group.size();
        state.group.push(summary, content);
        let seq = state.next_seq;
        state.next_seq += 1;
        let receipt = match (durability, &state.write_error) {
            (Durability::Async, Some(_)) => WriteReceipt::Ready(Ok(())),
            (_, Some(error)) => WriteReceipt::Ready(Err(Arc::clone(error))),
            (Durability::Synced, None) => state.group.add_waiter(Durability::Synced),
            (Durability::Async, None) if before > BACKPRESSURE_BYTES => {
                state.group.add_waiter(Durability::Written)
            }
            (_, None) => WriteReceipt::Ready(Ok(())),
        };
        self.announce_work(state);
        Some(QueuedRecord { seq, receipt })
    }

    /// Returns a receipt that resolves when the writer thread has written all records up to now.
    pub(super) fn await_write(&self) -> WriteReceipt {
        let mut state = self.state.lock();
        if state.is_closed {
            return WriteReceipt::Ready(Err("the journal is closed".into()));
        }
        if let Some(error) = &state.write_error {
            return WriteReceipt::Ready(Err(Arc::clone(error)));
        }
        let receipt = state.group.add_waiter(Durability::Written);
        self.announce_work(state);
        receipt
    }

    /// Wakes the writer thread if it waits for what the queue contains.
    fn announce_work(&self, mut state: MutexGuard<'_, QueueState>) {
        state.has_work = true;
        let wakes = match state.thread {
            ThreadState::Busy => false,
            ThreadState::Idle => true,
            ThreadState::Gathering => state.is_urgent(),
        };
        if wakes {
            state.thread = ThreadState::Busy;
            drop(state);
            self.wake.notify_one();
        }
    }

    pub(super) fn write_error(&self) -> Option<Arc<str>> {
        self.state.lock().write_error.clone()
    }

    /// Sets the write error. Current waiters fail with it, and later ones fail at once.
    pub(super) fn set_write_error(&self, error: &Arc<str>) {
        let mut state = self.state.lock();
        state.group.notify_waiters(&Err(Arc::clone(error)));
        state.write_error = Some(Arc::clone(error));
    }

    /// Clears the write error. Returns whether there was one.
    pub(super) fn clear_write_error(&self) -> bool {
        self.state.lock().write_error.take().is_some()
    }

    /// Waits up to `timeout` for the first record, and then up to `gather` for more, unless one has
    /// a waiter. Returns `false` when the queue is closed.
    pub(super) fn wait_for_work(&self, gather: Duration, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        self.wait(&mut state, ThreadState::Idle, timeout, |state| state.has_work);
        if state.has_work && !gather.is_zero() {
            self.wait(&mut state, ThreadState::Gathering, gather, QueueState::is_urgent);
        }
        state.has_work = false;
        !state.is_closed
    }

    fn wait(
        &self,
        state: &mut MutexGuard<'_, QueueState>,
        thread: ThreadState,
        time: Duration,
        is_done: impl Fn(&QueueState) -> bool,
    ) {
        state.thread = thread;
        self.wake.wait_while_for(state, |state| !state.is_closed && !is_done(state), time);
        state.thread = ThreadState::Busy;
    }

    /// Moves the queued records to an empty group.
    pub(super) fn take(&self, group: &mut Group) {
        std::mem::swap(&mut self.state.lock().group, group);
    }

    /// Moves the queued records to an empty group, and reserves the number after them if there are
    /// any or if `is_needed`. Returns whether the number was reserved.
    pub(super) fn take_and_reserve(&self, group: &mut Group, is_needed: bool) -> bool {
        let mut state = self.state.lock();
        std::mem::swap(&mut state.group, group);
        let reserves = is_needed || !group.is_empty();
        state.next_seq += u64::from(reserves);
        reserves
    }

    /// Sleeps until the time has elapsed or the queue is closed. Returns whether it is still open.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        let is_open = |state: &mut QueueState| !state.is_closed;
        self.wake.wait_while_for(&mut state, is_open, time);
        !state.is_closed
    }

    /// Closes the queue. Queued records are still written.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }

    /// Returns the number of queued records.
    pub(super) fn len(&self) -> usize {
        self.state.lock().group.len()
    }
}

impl QueueState {
    /// Whether the queue should be written without waiting for more records.
    fn is_urgent(&self) -> bool {
        self.group.has_waiters() || self.group.size() >= GROUP_BYTES
    }
}

impl Group {
    pub(super) fn push(&mut self, summary: &RecordSummary<'_>, content: &[u8]) {
        // The record omits names that are too long, so the header does too.
        let [name, identity] = [summary.name, summary.identity]
            .map(|text| if text.len() <= MAX_MEMBER_BYTES { text } else { "" });
        self.names.extend([name, identity]);
        self.contents.extend_from_slice(content);
        self.headers.push(RecordHeader {
            time: summary.time,
            kind: summary.kind,
            name_len: name.len(),
            identity_len: identity.len(),
            content_len: content.len(),
        });
    }

    fn add_waiter(&mut self, durability: Durability) -> WriteReceipt {
        let (written, waits) = oneshot::channel();
        match durability {
            Durability::Written => self.write_waiters.push(written),
            _ => self.sync_waiters.push(written),
        }
        WriteReceipt::Waiting(waits)
    }

    fn has_waiters(&self) -> bool {
        !self.sync_waiters.is_empty() || !self.write_waiters.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    fn size(&self) -> usize {
        self.names.len() + self.contents.len()
    }

    /// Moves the records of another group, without their contents, to the end of this one.
    pub(super) fn append(&mut self, more: &mut Self) {
        self.headers.append(&mut more.headers);
        self.names.push_str(&more.names);
        self.sync_waiters.append(&mut more.sync_waiters);
        self.write_waiters.append(&mut more.write_waiters);
        more.clear();
    }

    pub(super) fn summaries(&self) -> impl Iterator<Item = RecordSummary<'_>> {
        let mut names = &*self.names;
        self.headers.iter().map(move |header| {
            let (name, identity);
            (name, names) = names.split_at(header.name_len);
            (identity, names) = names.split_at(header.identity_len);
            RecordSummary { time: header.time, kind: header.kind, name, identity }
        })
    }

    pub(super) fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let mut contents = &*self.contents;
        self.headers.iter().map(move |header| {
            let content;
            (content, contents) = contents.split_at(header.content_len);
            content
        })
    }

    /// Removes the records. The waiters remain. A buffer that is larger than a usual group is freed.
    pub(super) fn clear(&mut self) {
        self.headers.clear();
        self.headers.shrink_to(GROUP_BYTES / size_of::<RecordHeader>());
        self.names.clear();
        self.names.shrink_to(GROUP_BYTES);
        self.contents.clear();
        self.contents.shrink_to(GROUP_BYTES);
    }

    pub(super) fn notify_waiters(&mut self, result: &WriteResult) {
        for waiting in self.sync_waiters.drain(..).chain(self.write_waiters.drain(..)) {
            // Fails only if the waiter was dropped.
            let _ = waiting.send(result.clone());
        }
    }

    /// Notifies the waiters for the file write.
    pub(super) fn notify_written(&mut self) {
        for waiting in self.write_waiters.drain(..) {
            let _ = waiting.send(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn queue_returns_records_in_order_with_seq() {
        let queue = Queue::new(7);
        let rows = [
            (RecordSummary { time: 1, kind: RecordKind::Enter, name: "a.b", identity: "" }, "x"),
            (
                RecordSummary {
                    time: -2,
                    kind: RecordKind::Exit { enter: 7, failed: true },
                    name: "a.b",
                    identity: "ö",
                },
                "",
            ),
            (
                RecordSummary {
                    time: 3,
                    kind: RecordKind::Exit { enter: 8, failed: false },
                    name: "",
                    identity: "w",
                },
                "yy",
            ),
            (RecordSummary { time: 4, kind: RecordKind::Checkpoint, name: "", identity: "" }, "z"),
            (
                RecordSummary { time: 5, kind: RecordKind::Message, name: "lobby", identity: "w" },
                "m",
            ),
            (
                RecordSummary {
                    time: 6,
                    kind: RecordKind::Rejection,
                    name: "lobby",
                    identity: "w",
                },
                "r",
            ),
        ];
        for (at, (summary, content)) in rows.iter().enumerate() {
            let taken = queue.push(summary, content.as_bytes(), Durability::Async).unwrap();
            assert_eq!(taken.seq, 7 + at as u64);
            assert!(matches!(taken.receipt, WriteReceipt::Ready(Ok(()))));
        }
        let mut group = Group::default();
        queue.take(&mut group);
        let found: Vec<_> = group.summaries().zip(group.contents()).collect();
        let expected: Vec<_> =
            rows.iter().map(|(summary, text)| (*summary, text.as_bytes())).collect();
        assert_eq!(found, expected);
        let mut all = Group::default();
        all.append(&mut group);
        assert!(group.is_empty());
        queue.push(&rows[0].0, b"", Durability::Async).unwrap();
        queue.take(&mut group);
        all.append(&mut group);
        let found: Vec<_> = all.summaries().collect();
        let expected: Vec<_> = rows.iter().chain(&rows[..1]).map(|(summary, _)| *summary).collect();
        assert_eq!(found, expected);
    }

    const SUMMARY: RecordSummary<'_> =
        RecordSummary { time: 1, kind: RecordKind::Message, name: "lobby", identity: "" };

    /// Each row: the number of records, whether a signature is needed anyway, and whether its number
    /// is reserved.
    #[test]
    fn queue_reserves_seq_for_signature() {
        for (count, is_needed, reserves) in [(0, false, false), (0, true, true), (2, false, true)] {
            let (queue, mut group) = (Queue::new(1), Group::default());
            for _ in 0..count {
                queue.push(&SUMMARY, b"", Durability::Async).unwrap();
            }
            assert_eq!(queue.take_and_reserve(&mut group, is_needed), reserves);
            let next = queue.push(&SUMMARY, b"", Durability::Async).unwrap().seq;
            assert_eq!((group.len(), next), (count, 1 + count as u64 + u64::from(reserves)));
        }
    }

    /// Without a waiter, and below the size of a group, records are collected for an hour.
    #[test]
    fn queue_wakes_writer_for_waiters_and_large_groups() {
        const HOUR: Duration = Duration::from_secs(3_600);
        type Act = fn(&Queue);
        let acts: [Act; 4] = [
            |queue| drop(queue.push(&SUMMARY, b"", Durability::Synced)),
            |queue| drop(queue.await_write()),
            |queue| drop(queue.push(&SUMMARY, &vec![b'x'; GROUP_BYTES], Durability::Async)),
            Queue::close,
        ];
        for (n, act) in acts.into_iter().enumerate() {
            for is_first in [true, false] {
                let queue = Queue::new(1);
                let is_open = std::thread::scope(|scope| {
                    let writer = scope.spawn(|| queue.wait_for_work(HOUR, HOUR));
                    if !is_first {
                        queue.push(&SUMMARY, b"", Durability::Async).unwrap();
                    }
                    act(&queue);
                    writer.join().unwrap()
                });
                assert_eq!(is_open, n < 3, "{n}");
            }
        }
    }

    #[test]
    fn group_notifies_waiters_at_requested_durability() {
        let queue = Queue::new(1);
        let mut file = queue.await_write();
        let mut disk = queue.push(&SUMMARY, b"", Durability::Synced).unwrap().receipt;
        let mut group = Group::default();
        queue.take(&mut group);
        group.notify_written();
        assert_eq!((&mut file).now_or_never(), Some(Ok(())));
        assert_eq!((&mut disk).now_or_never(), None);
        group.notify_waiters(&Ok(()));
        assert_eq!(disk.now_or_never(), Some(Ok(())));
    }

    #[test]
    fn queue_applies_backpressure_then_rejects_records() {
        let queue = Queue::new(1);
        let push = |content: &[u8], durability| {
            queue.push(&SUMMARY, content, durability).map(|queued| queued.receipt)
        };
        let large = vec![b' '; BACKPRESSURE_BYTES];
        let waits: Vec<Option<bool>> = (0..12)
            .map(|_| {
                let receipt = push(&large, Durability::Async)?;
                Some(matches!(receipt, WriteReceipt::Waiting(_)))
            })
            .collect();
        assert_eq!(waits[..3], [Some(false), Some(true), Some(true)]);
        assert_eq!(waits[10..], [None, None]);
        let error: Arc<str> = "no room".into();
        queue.set_write_error(&error);
        queue.take(&mut Group::default());
        // Only callers that must wait fail, and no caller waits for a failing writer.
        for (durability, expected) in [
            (Durability::Async, Ok(())),
            (Durability::Async, Ok(())),
            (Durability::Written, Err(Arc::clone(&error))),
            (Durability::Synced, Err(Arc::clone(&error))),
        ] {
            let receipt = push(&large, durability).unwrap();
            assert_eq!(receipt.now_or_never(), Some(expected), "{durability:?}");
        }
        assert_eq!(queue.await_write().now_or_never(), Some(Err(Arc::clone(&error))));
        assert!(queue.clear_write_error() && !queue.clear_write_error());
        let mut waits = [push(b"", Durability::Synced).unwrap(), queue.await_write()];
        assert!(waits.iter_mut().all(|wait| wait.now_or_never().is_none()));
        queue.set_write_error(&error);
        assert!(waits.into_iter().all(|wait| wait.now_or_never() == Some(Err(error.clone()))));
        queue.close();
        assert!(push(b"", Durability::Async).is_none());
        assert!(queue.await_write().now_or_never().unwrap().is_err());
    }
}
