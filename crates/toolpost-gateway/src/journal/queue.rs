//! Queue of records not written yet: callers append to a buffer, and the writer takes it as a
//! whole.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::record::{MAX_MEMBER_BYTES, RecordKind, RecordSummary};

/// Queue size above which adding a record waits until it is written.
const BACKPRESSURE_BYTES: usize = 4 * 1024 * 1024;
/// Queue size above which records are rejected.
const MAX_QUEUED_BYTES: usize = 32 * 1024 * 1024;
/// Group size at which the writer stops waiting for more records.
pub(super) const GROUP_BYTES: usize = 512 * 1024;

/// Whether a record was written, or why not.
type WriteResult = Result<(), Arc<str>>;

/// Resolves when a record has the requested durability, or to the reason why it has not. A record
/// that could not be written may still be written later.
///
/// # Cancellation
///
/// Dropping the receipt does not affect what is written.
#[derive(Debug)]
pub(crate) struct WriteReceipt(oneshot::Receiver<WriteResult>);

impl Future for WriteReceipt {
    type Output = WriteResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WriteResult> {
        let result = Pin::new(&mut self.0).poll(context);
        result.map(|result| result.unwrap_or_else(|_| Err("the journal is closed".into())))
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
    /// Whether the writer is idle and must be woken by the next record.
    is_idle: bool,
    /// Whether the writer is collecting more records and must be woken by a record with a waiter.
    is_collecting: bool,
    is_closed: bool,
    write_error: Option<Arc<str>>,
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
    /// Resolves when the record has the requested durability; `None` if there is nothing to wait
    /// for.
    pub(super) receipt: Option<WriteReceipt>,
}

impl Queue {
    pub(super) fn new(next_seq: u64) -> Self {
        let state = QueueState { next_seq, ..QueueState::default() };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    /// Adds a record and assigns its number. Returns a receipt if `durability` requires one or if
    /// the queue is above the backpressure limit. Returns `None` if the queue is full or closed.
    pub(super) fn push(
        &self,
        summary: &RecordSummary<'_>,
        content: &[u8],
        durability: Durability,
    ) -> Option<QueuedRecord> {
        let mut pending = self.state.lock();
        if pending.is_closed || pending.group.size() > MAX_QUEUED_BYTES {
            return None;
        }
        let before = pending.group.size();
        pending.group.push(summary, content);
        let seq = pending.next_seq;
        pending.next_seq += 1;
        let write_receipt = pending.register_waiter(durability, before > BACKPRESSURE_BYTES);
        let is_enough = before < GROUP_BYTES && pending.group.size() >= GROUP_BYTES;
        let is_awaited = pending.is_collecting && durability == Durability::Written;
        let wakes = pending.is_idle || is_enough || is_awaited;
        pending.is_idle = false;
        pending.is_collecting &= !is_awaited;
        drop(pending);
        if wakes {
            self.wake.notify_one();
        }
        Some(QueuedRecord { seq, receipt: write_receipt })
    }

    pub(super) fn write_error(&self) -> Option<Arc<str>> {
        self.state.lock().write_error.clone()
    }

    /// Sets or clears the write error. Current waiters fail with it, and later ones fail at once.
    pub(super) fn set_write_error(&self, error: Option<Arc<str>>) {
        let mut pending = self.state.lock();
        if let Some(error) = &error {
            pending.group.notify_waiters(&Err(Arc::clone(error)));
        }
        pending.write_error = error;
    }

    /// Takes all queued records. Waits up to `timeout` for the first record, and then up to
    /// `gather` for more. Returns `None` when the queue is closed and empty.
    pub(super) fn take_group(
        &self,
        gather: Duration,
        timeout: Duration,
        spare: &mut Group,
    ) -> Option<()> {
        let mut pending = self.state.lock();
        if pending.group.is_empty() && !pending.is_closed {
            pending.is_idle = true;
            let is_empty = |pending: &mut QueueState| pending.is_idle && !pending.is_closed;
            self.wake.wait_while_for(&mut pending, is_empty, timeout);
            pending.is_idle = false;
        }
        if !gather.is_zero() && !pending.group.is_empty() {
            pending = self.wait_for_more(pending, gather);
        }
        let is_over = pending.is_closed && pending.group.is_empty();
        std::mem::swap(&mut pending.group, spare);
        (!is_over).then_some(())
    }

    /// Waits until `until` for more records and adds them to the group, or adds them at once if one
    /// has a waiter. Returns whether any were added. A group that is already large is not extended.
    pub(super) fn extend_group(&self, until: Instant, group: &mut Group) -> bool {
        let remaining = until.saturating_duration_since(Instant::now());
        if remaining.is_zero() || group.size() >= GROUP_BYTES {
            return false;
        }
        let mut pending = self.wait_for_more(self.state.lock(), remaining);
        group.append(&mut pending.group)
    }

    /// Waits for more records, unless one has a waiter or the group is large enough.
    fn wait_for_more<'a>(
        &self,
        mut pending: MutexGuard<'a, QueueState>,
        time: Duration,
    ) -> MutexGuard<'a, QueueState> {
        let may_grow = |pending: &mut QueueState| {
            !pending.is_closed && pending.group.size() < GROUP_BYTES && !pending.group.has_waiters()
        };
        pending.is_collecting = true;
        self.wake.wait_while_for(&mut pending, may_grow, time);
        pending.is_collecting = false;
        pending
    }

    /// Sleeps until the time has elapsed or the queue is closed. Returns whether it is still open.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let mut pending = self.state.lock();
        let is_open = |pending: &mut QueueState| !pending.is_closed;
        self.wake.wait_while_for(&mut pending, is_open, time);
        !pending.is_closed
    }

    /// Closes the queue. Queued records are still written.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }
}

impl QueueState {
    /// Registers a waiter. While writes fail, the receipt fails at once, and `Async` records get
    /// none.
    fn register_waiter(&mut self, durability: Durability, is_slow: bool) -> Option<WriteReceipt> {
        match (durability, &self.write_error) {
            (Durability::Async, Some(_)) => None,
            (Durability::Async, None) => is_slow.then(|| self.group.add_waiter(Durability::Synced)),
            (_, Some(error)) => Some(failed_receipt(Arc::clone(error))),
            (durability, None) => Some(self.group.add_waiter(durability)),
        }
    }
}

impl Group {
    fn push(&mut self, summary: &RecordSummary<'_>, content: &[u8]) {
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
        WriteReceipt(waits)
    }

    fn has_waiters(&self) -> bool {
        !self.sync_waiters.is_empty() || !self.write_waiters.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.headers.len()
    }

    fn size(&self) -> usize {
        self.names.len() + self.contents.len()
    }

    /// Appends another group. Returns whether it had any records.
    fn append(&mut self, more: &mut Self) -> bool {
        let is_more = !more.is_empty();
        self.headers.append(&mut more.headers);
        self.names.push_str(&std::mem::take(&mut more.names));
        self.contents.append(&mut more.contents);
        self.sync_waiters.append(&mut more.sync_waiters);
        self.write_waiters.append(&mut more.write_waiters);
        is_more
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (RecordSummary<'_>, &[u8])> {
        let (mut names, mut contents) = (&*self.names, &*self.contents);
        self.headers.iter().map(move |header| {
            let (name, identity, content);
            (name, names) = names.split_at(header.name_len);
            (identity, names) = names.split_at(header.identity_len);
            (content, contents) = contents.split_at(header.content_len);
            (RecordSummary { time: header.time, kind: header.kind, name, identity }, content)
        })
    }

    /// Notifies the waiters and clears the group for reuse. A buffer that is larger than a usual
    /// group is freed.
    pub(super) fn complete(&mut self, result: &WriteResult) {
        self.headers.clear();
        self.headers.shrink_to(GROUP_BYTES / size_of::<RecordHeader>());
        self.names.clear();
        self.names.shrink_to(GROUP_BYTES);
        self.contents.clear();
        self.contents.shrink_to(GROUP_BYTES);
        self.notify_waiters(result);
    }

    pub(super) fn notify_waiters(&mut self, result: &WriteResult) {
        for waiting in self.sync_waiters.drain(..).chain(self.write_waiters.drain(..)) {
            // Fails only if the waiter was dropped.
            let _ = waiting.send(result.clone());
        }
    }

    /// Notifies the waiters for the file write. Returns whether there were any.
    pub(super) fn notify_written(&mut self) -> bool {
        let is_awaited = !self.write_waiters.is_empty();
        for waiting in self.write_waiters.drain(..) {
            let _ = waiting.send(Ok(()));
        }
        is_awaited
    }
}

fn failed_receipt(error: Arc<str>) -> WriteReceipt {
    let (written, waits) = oneshot::channel();
    // The receiver still exists, so sending cannot fail.
    let _ = written.send(Err(error));
    WriteReceipt(waits)
}

#[cfg(test)]
mod tests {
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
            assert_eq!((taken.seq, taken.receipt.is_none()), (7 + at as u64, true));
        }
        let mut group = Group::default();
        queue.take_group(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
        let found: Vec<_> = group.records().collect();
        let expected: Vec<_> =
            rows.iter().map(|(summary, text)| (*summary, text.as_bytes())).collect();
        assert_eq!(found, expected);
    }

    /// Without a waiter, records are collected for an hour.
    #[test]
    fn queue_flushes_at_once_for_write_waiters() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let summary =
            RecordSummary { time: 1, kind: RecordKind::Message, name: "lobby", identity: "" };
        for first in [Durability::Written, Durability::Async] {
            let queue = Queue::new(1);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut group = Group::default();
                    queue.take_group(HOUR, HOUR, &mut group).map(|()| group)
                });
                for durability in [first, Durability::Written] {
                    queue.push(&summary, b"", durability).unwrap();
                }
                assert!(writer.join().unwrap().is_some());
            });
        }
    }

    #[test]
    fn group_extends_until_deadline_or_size_limit() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let summary =
            RecordSummary { time: 1, kind: RecordKind::Message, name: "lobby", identity: "" };
        for (bytes, durability, time, is_taken) in [
            (1, Durability::Written, HOUR, true),
            (1, Durability::Async, Duration::from_millis(1), true),
            (1, Durability::Written, Duration::ZERO, false),
            (GROUP_BYTES, Durability::Written, HOUR, false),
        ] {
            let queue = Queue::new(1);
            queue.push(&summary, &vec![b'x'; bytes], Durability::Async).unwrap();
            let mut group = Group::default();
            queue.take_group(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
            queue.push(&summary, b"more", durability).unwrap();
            assert_eq!(queue.extend_group(Instant::now() + time, &mut group), is_taken, "{bytes}");
            let more: Vec<_> = group.records().skip(1).map(|(_, content)| content).collect();
            assert_eq!(more, if is_taken { vec![&b"more"[..]] } else { Vec::new() });
            assert_eq!(group.records().count(), 1 + more.len());
        }
        let queue = Queue::new(1);
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(!queue.extend_group(soon, &mut Group::default()), "no record arrived");
    }

    #[test]
    fn group_notifies_waiters_at_requested_durability() {
        let queue = Queue::new(1);
        let summary =
            RecordSummary { time: 1, kind: RecordKind::Message, name: "lobby", identity: "" };
        let waits = [Durability::Written, Durability::Synced];
        let [mut file, mut disk] =
            waits.map(|durability| queue.push(&summary, b"", durability).unwrap().receipt.unwrap());
        let mut group = Group::default();
        queue.take_group(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
        group.notify_written();
        assert_eq!(file.0.try_recv().unwrap(), Ok(()));
        assert!(disk.0.try_recv().is_err());
        group.complete(&Ok(()));
        assert_eq!(disk.0.try_recv().unwrap(), Ok(()));
    }

    #[test]
    fn queue_applies_backpressure_then_rejects_records() {
        let queue = Queue::new(1);
        let summary = RecordSummary { time: 1, kind: RecordKind::Enter, name: "a.b", identity: "" };
        let large = vec![b' '; BACKPRESSURE_BYTES];
        let waits: Vec<Option<bool>> = (0..12)
            .map(|_| {
                queue.push(&summary, &large, Durability::Async).map(|taken| taken.receipt.is_some())
            })
            .collect();
        assert_eq!(waits[..3], [Some(false), Some(true), Some(true)]);
        assert_eq!(waits[10..], [None, None]);
        queue.set_write_error(Some("no room".into()));
        queue.take_group(Duration::ZERO, Duration::ZERO, &mut Group::default()).unwrap();
        queue.push(&summary, &large, Durability::Async).unwrap();
        let taken = queue.push(&summary, &large, Durability::Async).unwrap();
        assert!(taken.receipt.is_none(), "only callers that must wait for a failing writer");
        let mut synced_receipt =
            queue.push(&summary, b"", Durability::Synced).unwrap().receipt.unwrap();
        assert_eq!(synced_receipt.0.try_recv().unwrap().unwrap_err().as_ref(), "no room");
        queue.set_write_error(None);
        let mut waits = queue.push(&summary, b"", Durability::Synced).unwrap().receipt.unwrap();
        assert!(waits.0.try_recv().is_err(), "nothing is written yet");
        queue.set_write_error(Some("no room".into()));
        assert!(waits.0.try_recv().unwrap().is_err());
        queue.close();
        assert!(queue.push(&summary, b"", Durability::Async).is_none());
    }
}
