//! What was recorded and is not written yet: a buffer that callers add to and the writer takes whole.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::record::{Facts, MOST_MEMBER, What};

/// From here on whoever adds a record waits until it is written.
const SLOW: usize = 4 * 1024 * 1024;
/// From here on nothing is taken.
const FULL: usize = 32 * 1024 * 1024;
/// So much is written without waiting for more.
const ENOUGH: usize = 512 * 1024;
/// How many bytes stand before each record.
const HEADER: usize = 29;

/// Told when a record is where it was wanted, or why it is not.
pub(super) type Written = oneshot::Receiver<Result<(), Arc<str>>>;

pub(super) struct Queue {
    pending: Mutex<Pending>,
    wake: Condvar,
}

struct Pending {
    group: Group,
    next_seq: u64,
    /// Whether the writer sleeps and has to be woken for the first record.
    is_idle: bool,
    /// Whether the writer lets more come, and has to be woken by whoever waits.
    is_gathering: bool,
    is_closed: bool,
    /// Why the writer cannot write at the moment.
    trouble: Option<Arc<str>>,
}

/// The records that are written together.
#[derive(Default)]
pub(super) struct Group {
    bytes: Vec<u8>,
    /// Those who wait until it is on the disk.
    waiting: Vec<oneshot::Sender<Result<(), Arc<str>>>>,
    /// Those who wait until it is in the file.
    waiting_for_file: Vec<oneshot::Sender<Result<(), Arc<str>>>>,
}

/// What somebody waits for who adds a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing, unless much is waiting.
    Never,
    /// That it is in the file, and so outlives this process.
    ForFile,
    /// That it is on the disk, and so outlives the machine's running.
    ForDisk,
}

/// What became of a record.
pub(super) struct Taken {
    pub(super) seq: u64,
    /// To be waited for.
    pub(super) written: Option<Written>,
}

impl Queue {
    pub(super) fn new(next_seq: u64) -> Self {
        let pending = Pending {
            group: Group::default(),
            next_seq,
            is_idle: false,
            is_gathering: false,
            is_closed: false,
            trouble: None,
        };
        Self { pending: Mutex::new(pending), wake: Condvar::new() }
    }

    /// Takes a record and gives it its number. Whoever wants to, or comes when much is waiting, is
    /// told when it is written; when too much is waiting it is not taken.
    pub(super) fn add(&self, facts: &Facts<'_>, content: &[u8], wait: Wait) -> Option<Taken> {
        let mut pending = self.lock();
        if pending.is_closed || pending.group.bytes.len() > FULL {
            return None;
        }
        let before = pending.group.bytes.len();
        pending.group.push(facts, content);
        let seq = pending.next_seq;
        pending.next_seq += 1;
        let written = pending.wait(wait, before > SLOW);
        let is_enough = before < ENOUGH && pending.group.bytes.len() >= ENOUGH;
        let is_awaited = pending.is_gathering && wait == Wait::ForFile;
        let wakes = pending.is_idle || is_enough || is_awaited;
        pending.is_idle = false;
        pending.is_gathering &= !is_awaited;
        drop(pending);
        if wakes {
            self.wake.notify_one();
        }
        Some(Taken { seq, written })
    }

    /// Why nothing can be written at the moment.
    pub(super) fn trouble(&self) -> Option<Arc<str>> {
        self.lock().trouble.clone()
    }

    /// Those who wait are told; whoever comes later learns it at once.
    pub(super) fn set_trouble(&self, trouble: Option<Arc<str>>) {
        let mut pending = self.lock();
        if let Some(trouble) = &trouble {
            pending.group.tell(&Err(Arc::clone(trouble)));
        }
        pending.trouble = trouble;
    }

    /// Takes everything. Sleeps until there is something, at most for `patience`, and then lets more
    /// come for `gather`. `None` is the end.
    pub(super) fn take(
        &self,
        gather: Duration,
        patience: Duration,
        spare: &mut Group,
    ) -> Option<()> {
        let mut pending = self.lock();
        if pending.group.bytes.is_empty() && !pending.is_closed {
            pending.is_idle = true;
            let is_empty = |pending: &mut Pending| pending.is_idle && !pending.is_closed;
            let waited = self.wake.wait_timeout_while(pending, patience, is_empty);
            pending = waited.unwrap_or_else(PoisonError::into_inner).0;
            pending.is_idle = false;
        }
        if !gather.is_zero() && !pending.group.bytes.is_empty() {
            pending = self.gather(pending, gather);
        }
        let is_over = pending.is_closed && pending.group.bytes.is_empty();
        std::mem::swap(&mut pending.group, spare);
        (!is_over).then_some(())
    }

    /// Takes what comes until then as well, at once where somebody waits for it; says whether something
    /// did. A group that is large already takes no more.
    pub(super) fn take_more(&self, until: Instant, group: &mut Group) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || group.bytes.len() >= ENOUGH {
            return false;
        }
        let mut pending = self.gather(self.lock(), left);
        group.append(&mut pending.group)
    }

    /// Lets more come for a time, unless somebody waits or there is enough.
    fn gather<'a>(
        &self,
        mut pending: MutexGuard<'a, Pending>,
        time: Duration,
    ) -> MutexGuard<'a, Pending> {
        let may_grow = |pending: &mut Pending| {
            !pending.is_closed && pending.group.bytes.len() < ENOUGH && !pending.group.is_awaited()
        };
        pending.is_gathering = true;
        let waited = self.wake.wait_timeout_while(pending, time, may_grow);
        pending = waited.unwrap_or_else(PoisonError::into_inner).0;
        pending.is_gathering = false;
        pending
    }

    /// Sleeps, unless it is closed meanwhile.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let pending = self.lock();
        let is_open = |pending: &mut Pending| !pending.is_closed;
        let waited = self.wake.wait_timeout_while(pending, time, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Takes no more; what was taken is written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// Nobody waits for a writer in trouble: whoever must know is told at once.
    fn wait(&mut self, wait: Wait, is_slow: bool) -> Option<Written> {
        match (wait, &self.trouble) {
            (Wait::Never, Some(_)) => None,
            (Wait::Never, None) => is_slow.then(|| self.group.wait(Wait::ForDisk)),
            (_, Some(trouble)) => Some(failed(Arc::clone(trouble))),
            (wait, None) => Some(self.group.wait(wait)),
        }
    }
}

impl Group {
    fn push(&mut self, facts: &Facts<'_>, content: &[u8]) {
        let (kind, enter) = match facts.what {
            What::Enter => (0, 0),
            What::Exit { enter, failed: false } => (1, enter),
            What::Exit { enter, failed: true } => (2, enter),
            What::Checkpoint => (3, 0),
            What::Message => (4, 0),
            What::Refusal => (5, 0),
        };
        // As it stands in the record, which does not hold what is too long.
        let [operation, who] = [facts.operation, facts.who].map(|text| match text.len() {
            ..=MOST_MEMBER => text.as_bytes(),
            _ => b"",
        });
        let length = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
        let out = &mut self.bytes;
        out.push(kind);
        out.extend_from_slice(&facts.time.to_le_bytes());
        out.extend_from_slice(&enter.to_le_bytes());
        for text in [operation, who, content] {
            out.extend_from_slice(&length(text));
        }
        for text in [operation, who, content] {
            out.extend_from_slice(text);
        }
    }

    fn wait(&mut self, wait: Wait) -> Written {
        let (written, waits) = oneshot::channel();
        match wait {
            Wait::ForFile => self.waiting_for_file.push(written),
            _ => self.waiting.push(written),
        }
        waits
    }

    fn is_awaited(&self) -> bool {
        !self.waiting.is_empty() || !self.waiting_for_file.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes it has here.
    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Says whether there was anything.
    fn append(&mut self, more: &mut Self) -> bool {
        let is_more = !more.is_empty();
        self.bytes.append(&mut more.bytes);
        self.waiting.append(&mut more.waiting);
        self.waiting_for_file.append(&mut more.waiting_for_file);
        is_more
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (Facts<'_>, &[u8])> {
        self.records_behind(0)
    }

    /// The records behind so many bytes, which are a length that it had before.
    pub(super) fn records_behind(&self, length: usize) -> impl Iterator<Item = (Facts<'_>, &[u8])> {
        let mut rest = self.bytes.get(length..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (header, after) = rest.split_at_checked(HEADER)?;
            let number = |at: usize| u64::from_le_bytes(eight(&header[at..]));
            let length = |at: usize| u32::from_le_bytes(four(&header[at..])) as usize;
            let (operation, after) = after.split_at(length(17));
            let (who, after) = after.split_at(length(21));
            let (content, after) = after.split_at(length(25));
            rest = after;
            let what = match header[0] {
                0 => What::Enter,
                kind @ (1 | 2) => What::Exit { enter: number(9), failed: kind == 2 },
                4 => What::Message,
                5 => What::Refusal,
                _ => What::Checkpoint,
            };
            let time = number(1).cast_signed();
            let [operation, who] =
                [operation, who].map(|text| std::str::from_utf8(text).unwrap_or(""));
            Some((Facts { time, what, operation, who }, content))
        })
    }

    /// Tells those who wait, and is as good as new.
    pub(super) fn settle(&mut self, result: &Result<(), Arc<str>>) {
        self.bytes.clear();
        self.tell(result);
    }

    pub(super) fn tell(&mut self, result: &Result<(), Arc<str>>) {
        for waiting in self.waiting.drain(..).chain(self.waiting_for_file.drain(..)) {
            // One that does not wait any more needs no answer.
            let _ = waiting.send(result.clone());
        }
    }

    /// Tells those for whom the file is enough; says whether there are any.
    pub(super) fn tell_in_file(&mut self) -> bool {
        let is_awaited = !self.waiting_for_file.is_empty();
        for waiting in self.waiting_for_file.drain(..) {
            let _ = waiting.send(Ok(()));
        }
        is_awaited
    }
}

fn failed(trouble: Arc<str>) -> Written {
    let (written, waits) = oneshot::channel();
    // The other end is in this function.
    let _ = written.send(Err(trouble));
    waits
}

fn eight(bytes: &[u8]) -> [u8; 8] {
    bytes[..8].try_into().expect("a header is long enough")
}

fn four(bytes: &[u8]) -> [u8; 4] {
    bytes[..4].try_into().expect("a header is long enough")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_out_in_order_with_its_number() {
        let queue = Queue::new(7);
        let rows = [
            (Facts { time: 1, what: What::Enter, operation: "a.b", who: "" }, "x"),
            (
                Facts {
                    time: -2,
                    what: What::Exit { enter: 7, failed: true },
                    operation: "a.b",
                    who: "ö",
                },
                "",
            ),
            (
                Facts {
                    time: 3,
                    what: What::Exit { enter: 8, failed: false },
                    operation: "",
                    who: "w",
                },
                "yy",
            ),
            (Facts { time: 4, what: What::Checkpoint, operation: "", who: "" }, "z"),
            (Facts { time: 5, what: What::Message, operation: "lobby", who: "w" }, "m"),
            (Facts { time: 6, what: What::Refusal, operation: "lobby", who: "w" }, "r"),
        ];
        for (at, (facts, content)) in rows.iter().enumerate() {
            let taken = queue.add(facts, content.as_bytes(), Wait::Never).unwrap();
            assert_eq!((taken.seq, taken.written.is_none()), (7 + at as u64, true));
        }
        let mut group = Group::default();
        queue.take(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
        let found: Vec<_> = group.records().collect();
        let expected: Vec<_> = rows.iter().map(|(facts, text)| (*facts, text.as_bytes())).collect();
        assert_eq!(found, expected);
    }

    /// What nobody waits for would gather for an hour.
    #[test]
    fn whoever_waits_for_the_file_waits_for_nobody_else() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let facts = Facts { time: 1, what: What::Message, operation: "lobby", who: "" };
        for first in [Wait::ForFile, Wait::Never] {
            let queue = Queue::new(1);
            std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut group = Group::default();
                    queue.take(HOUR, HOUR, &mut group).map(|()| group)
                });
                for wait in [first, Wait::ForFile] {
                    queue.add(&facts, b"", wait).unwrap();
                }
                assert!(writer.join().unwrap().is_some());
            });
        }
    }

    #[test]
    fn a_group_takes_more_until_its_time_is_over_or_it_is_large() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let facts = Facts { time: 1, what: What::Message, operation: "lobby", who: "" };
        for (bytes, wait, time, is_taken) in [
            (1, Wait::ForFile, HOUR, true),
            (1, Wait::Never, Duration::from_millis(1), true),
            (1, Wait::ForFile, Duration::ZERO, false),
            (ENOUGH, Wait::ForFile, HOUR, false),
        ] {
            let queue = Queue::new(1);
            queue.add(&facts, &vec![b'x'; bytes], Wait::Never).unwrap();
            let mut group = Group::default();
            queue.take(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
            let before = group.length();
            queue.add(&facts, b"more", wait).unwrap();
            assert_eq!(queue.take_more(Instant::now() + time, &mut group), is_taken, "{bytes}");
            let more: Vec<_> = group.records_behind(before).map(|(_, content)| content).collect();
            assert_eq!(more, if is_taken { vec![&b"more"[..]] } else { Vec::new() });
            assert_eq!(group.records().count(), 1 + more.len());
        }
        let queue = Queue::new(1);
        let soon = Instant::now() + Duration::from_millis(1);
        assert!(!queue.take_more(soon, &mut Group::default()), "nothing came");
    }

    #[test]
    fn those_who_wait_are_told_when_it_is_where_they_want_it() {
        let queue = Queue::new(1);
        let facts = Facts { time: 1, what: What::Message, operation: "lobby", who: "" };
        let waits = [Wait::ForFile, Wait::ForDisk];
        let [mut file, mut disk] =
            waits.map(|wait| queue.add(&facts, b"", wait).unwrap().written.unwrap());
        let mut group = Group::default();
        queue.take(Duration::ZERO, Duration::ZERO, &mut group).unwrap();
        group.tell_in_file();
        assert_eq!(file.try_recv().unwrap(), Ok(()));
        assert!(disk.try_recv().is_err());
        group.settle(&Ok(()));
        assert_eq!(disk.try_recv().unwrap(), Ok(()));
    }

    #[test]
    fn a_full_queue_slows_down_and_then_takes_nothing() {
        let queue = Queue::new(1);
        let facts = Facts { time: 1, what: What::Enter, operation: "a.b", who: "" };
        let large = vec![b' '; SLOW];
        let waits: Vec<Option<bool>> = (0..12)
            .map(|_| queue.add(&facts, &large, Wait::Never).map(|taken| taken.written.is_some()))
            .collect();
        assert_eq!(waits[..3], [Some(false), Some(true), Some(true)]);
        assert_eq!(waits[10..], [None, None]);
        queue.set_trouble(Some("no room".into()));
        queue.take(Duration::ZERO, Duration::ZERO, &mut Group::default()).unwrap();
        queue.add(&facts, &large, Wait::Never).unwrap();
        let taken = queue.add(&facts, &large, Wait::Never).unwrap();
        assert!(taken.written.is_none(), "nobody waits for a writer in trouble unless he must");
        let mut told = queue.add(&facts, b"", Wait::ForDisk).unwrap().written.unwrap();
        assert_eq!(told.try_recv().unwrap().unwrap_err().as_ref(), "no room");
        queue.set_trouble(None);
        let mut waits = queue.add(&facts, b"", Wait::ForDisk).unwrap().written.unwrap();
        assert!(waits.try_recv().is_err(), "nothing is written yet");
        queue.set_trouble(Some("no room".into()));
        assert!(waits.try_recv().unwrap().is_err());
        queue.close();
        assert!(queue.add(&facts, b"", Wait::Never).is_none());
    }
}
