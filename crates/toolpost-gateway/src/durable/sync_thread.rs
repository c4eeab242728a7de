//! The thread that syncs the files of durable calls, and removes those that are not needed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::log::Unsynced;
use super::{State, Storage};

/// How long records are collected before they are synced, unless a call waits.
const GATHER: Duration = Duration::from_millis(20);
/// Interval between removals of expired entries.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(30);
/// Delay after a failed sync.
const RETRY_DELAY: Duration = Duration::from_millis(250);

type SyncResult = Result<(), ()>;

pub(super) struct SyncThread {
    work: Arc<Work>,
    /// Taken when the thread is stopped.
    handle: Mutex<Option<JoinHandle<()>>>,
}

struct Work {
    state: Mutex<WorkState>,
    wake: Condvar,
}

struct WorkState {
    has_records: bool,
    waiters: Vec<oneshot::Sender<SyncResult>>,
    is_closed: bool,
    retain: Duration,
}

impl SyncThread {
    pub(super) fn start(
        state: Arc<Mutex<State>>,
        retain: Duration,
        is_sync: bool,
    ) -> io::Result<Self> {
        let work = Arc::new(Work {
            state: Mutex::new(WorkState {
                has_records: false,
                waiters: Vec::new(),
                is_closed: false,
                retain,
            }),
            wake: Condvar::new(),
        });
        let shared = Arc::clone(&work);
        let gather = if is_sync { Duration::ZERO } else { GATHER };
        let thread = std::thread::Builder::new()
            .name("durable".to_owned())
            .spawn(move || run(&shared, &state, gather))?;
        Ok(Self { work, handle: Mutex::new(Some(thread)) })
    }

    /// Notifies the thread that a record was written.
    pub(super) fn announce(&self) {
        let mut state = self.work.state.lock();
        if !std::mem::replace(&mut state.has_records, true) {
            self.work.wake.notify_one();
        }
    }

    /// Returns a receiver that resolves when the records up to now are synced.
    pub(super) fn await_sync(&self) -> oneshot::Receiver<SyncResult> {
        let (synced, receiver) = oneshot::channel();
        let mut state = self.work.state.lock();
        // A closed thread drops the sender, which fails the receiver.
        if !state.is_closed {
            state.waiters.push(synced);
            state.has_records = true;
            self.work.wake.notify_one();
        }
        receiver
    }

    pub(super) fn set_retain(&self, retain: Duration) {
        self.work.state.lock().retain = retain;
    }

    /// Syncs what was written and stops the thread.
    pub(super) fn close(&self) {
        self.work.state.lock().is_closed = true;
        self.work.wake.notify_one();
        let thread = self.handle.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of durable calls panicked");
        }
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.close();
    }
}

fn run(work: &Work, state: &Mutex<State>, gather: Duration) {
    loop {
        let mut pending = work.state.lock();
        let is_idle = |pending: &mut WorkState| !pending.has_records && !pending.is_closed;
        work.wake.wait_while_for(&mut pending, is_idle, MAINTENANCE_INTERVAL);
        if pending.has_records && !gather.is_zero() {
            let is_open = |pending: &mut WorkState| !pending.is_closed;
            work.wake.wait_while_for(&mut pending, is_open, gather);
        }
        pending.has_records = false;
        let (is_closed, retain) = (pending.is_closed, pending.retain);
        let waiters = std::mem::take(&mut pending.waiters);
        drop(pending);
        let synced = sync(state);
        for waiter in waiters {
            // Fails only if the call was canceled.
            let _ = waiter.send(synced);
        }
        while state.lock().expire(retain) {}
        remove_unused(state);
        if is_closed {
            return;
        }
        if synced.is_err() {
            std::thread::sleep(RETRY_DELAY);
        }
    }
}

fn sync(state: &Mutex<State>) -> SyncResult {
    let unsynced = state.lock().log_mut().and_then(super::log::Log::take_unsynced);
    let Some(unsynced): Option<Unsynced> = unsynced else { return Ok(()) };
    unsynced.sync().map_err(|error| {
        tracing::error!(%error, "sync of durable calls failed");
        if let Some(log) = state.lock().log_mut() {
            log.restore_unsynced(unsynced);
        }
    })
}

fn remove_unused(state: &Mutex<State>) {
    let unused: Vec<PathBuf> =
        state.lock().log_mut().map(super::log::Log::take_unused).unwrap_or_default();
    for path in unused {
        if let Err(error) = std::fs::remove_file(&path) {
            let path = path.display();
            tracing::warn!(%path, %error, "removal of a file of durable calls failed");
        }
    }
}

impl State {
    fn log_mut(&mut self) -> Option<&mut super::log::Log> {
        match &mut self.storage {
            Storage::Files(log) => Some(log),
            Storage::Memory(_) => None,
        }
    }
}
