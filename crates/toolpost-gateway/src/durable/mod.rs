//! The outcomes of calls with an idempotency key, kept beside the journal with their full bodies.
//!
//! The design is described in `docs/decisions/durable-calls.md`.
//!
//! | file | contains |
//! |---|---|
//! | `claim` | the idempotency stage of a call |
//! | `index` | the entries by claim, and their expiry |
//! | `record`, `seal`, `log` | the head of a record, encryption, files |
//! | `sync_thread` | syncs files and removes those that are not needed |

mod claim;
mod index;
mod log;
mod record;
mod seal;
mod settings;
mod sync_thread;

use std::io;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use ring::hmac;
use toolpost::{CallError, HookResult, epoch_ms};

use crate::input_digest::InputDigester;
use crate::journal::{Journal, JournalError, JournalMode};
use index::{EndedCall, Entry, Index, StoredBody};
use log::Log;
use record::{Digest, RecordHead};
pub use settings::IdempotencySettings;
use sync_thread::SyncThread;

/// The store of the outcomes of calls. Clones share it.
#[derive(Clone)]
pub(crate) struct DurableCalls(Arc<Shared>);

struct Shared {
    state: Arc<Mutex<State>>,
    settings: ArcSwap<IdempotencySettings>,
    /// Identifies identity, operation and key.
    claim_key: hmac::Key,
    inputs: InputDigester,
    /// Syncs the files; `None` if the store is in memory.
    thread: Option<SyncThread>,
    /// Whether records are synced before the call continues.
    is_sync: bool,
}

/// The entries and where their bodies are.
struct State {
    index: Index,
    storage: Storage,
}

enum Storage {
    Files(Log),
    /// Number of stored bytes.
    Memory(u64),
}

/// Where a record was stored.
struct Stored {
    body: StoredBody,
    file: Option<u64>,
}

impl DurableCalls {
    /// Creates a store that lasts as long as the process.
    pub(crate) fn in_memory(settings: IdempotencySettings) -> Self {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).expect("the system provides random numbers");
        let state = State { index: Index::default(), storage: Storage::Memory(0) };
        Self::new(&secret, settings, Arc::new(Mutex::new(state)), None, false)
    }

    /// Opens the store of the journal in the data folder.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub(crate) fn open(
        data: &Path,
        journal: &Journal,
        settings: IdempotencySettings,
    ) -> Result<Self, JournalError> {
        let folder = data.join("tasks").join(journal.gateway_id());
        let secret = journal.derive_key(b"durable calls");
        let is_sync = journal.mode() == JournalMode::Sync;
        let mut index = Index::default();
        let opened = Log::open(folder.clone(), secret, |head, at| index.restore(&head, at));
        let started = opened.and_then(|mut log| {
            index.count_files(&mut log);
            let state = Arc::new(Mutex::new(State { index, storage: Storage::Files(log) }));
            let thread = SyncThread::start(Arc::clone(&state), settings.retain, is_sync)?;
            Ok(Self::new(&secret, settings, state, Some(thread), is_sync))
        });
        started.map_err(|source| JournalError::new(&folder, source))
    }

    fn new(
        secret: &[u8; 32],
        settings: IdempotencySettings,
        state: Arc<Mutex<State>>,
        thread: Option<SyncThread>,
        is_sync: bool,
    ) -> Self {
        let derive = |purpose: &[u8]| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
            hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&secret, purpose).as_ref())
        };
        Self(Arc::new(Shared {
            state,
            settings: ArcSwap::from_pointee(settings),
            claim_key: derive(b"claim"),
            inputs: InputDigester::with_key(derive(b"input")),
            thread,
            is_sync,
        }))
    }

    /// Replaces the settings.
    pub(crate) fn configure(&self, settings: IdempotencySettings) {
        if let Some(thread) = &self.0.thread {
            thread.set_retain(settings.retain);
        }
        self.0.settings.store(Arc::new(settings));
    }

    /// Syncs all files and stops the thread. Blocks.
    pub(crate) fn close(&self) {
        if let Some(thread) = &self.0.thread {
            thread.close();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    /// Returns what a call waits for after a record was written.
    fn await_durable(&self) -> HookResult<()> {
        match &self.0.thread {
            Some(thread) if self.0.is_sync => {
                let synced = thread.await_sync();
                HookResult::Pending(Box::pin(async move {
                    synced.await.unwrap_or(Err(())).map_err(|()| write_failed())
                }))
            }
            Some(thread) => {
                thread.announce();
                HookResult::Ready(Ok(()))
            }
            None => HookResult::Ready(Ok(())),
        }
    }
}

toolpost::debug_fields!(calls: DurableCalls, entries = calls.state().index.len());

impl State {
    /// Writes a record.
    fn append(&mut self, head: &RecordHead, body: &[u8]) -> io::Result<Stored> {
        match &mut self.storage {
            Storage::Files(log) => {
                let at = log.append(head, body)?;
                log.add_entry(at.file);
                Ok(Stored { body: StoredBody::File(at), file: Some(at.file) })
            }
            Storage::Memory(bytes) => {
                *bytes += body.len() as u64;
                Ok(Stored { body: StoredBody::Memory(body.into()), file: None })
            }
        }
    }

    /// No longer counts a record.
    fn forget_record(&mut self, file: Option<u64>) {
        if let (Storage::Files(log), Some(file)) = (&mut self.storage, file) {
            log.remove_entry(file);
        }
    }

    fn stored_bytes(&self) -> u64 {
        match &self.storage {
            Storage::Files(log) => log.total_bytes(),
            Storage::Memory(bytes) => *bytes,
        }
    }

    /// Replaces an entry, and no longer counts the records that only the old one needs.
    fn replace(&mut self, claim: Digest, entry: Entry) {
        let old = self.index.insert(claim, entry);
        self.storage.discard(old);
    }

    fn remove(&mut self, claim: &Digest) {
        let old = self.index.remove(claim);
        self.storage.discard(old);
    }

    /// Removes some expired entries. Returns whether there may be more.
    fn expire(&mut self, retain: std::time::Duration) -> bool {
        let Self { index, storage } = self;
        index.expire(epoch_ms(), retain, |ended| storage.discard(Some(Entry::Ended(ended))))
    }
}

impl Storage {
    /// Counts the records of an entry as not needed.
    fn discard(&mut self, entry: Option<Entry>) {
        let (file, body) = match entry {
            Some(Entry::Ended(EndedCall { file, result, .. })) => (file, result),
            Some(Entry::Held(held)) => (held.started_in, None),
            None => return,
        };
        match (self, file, body) {
            (Self::Files(log), Some(file), _) => log.remove_entry(file),
            (Self::Memory(bytes), _, Some(StoredBody::Memory(body))) => *bytes -= body.len() as u64,
            _ => {}
        }
    }
}

fn write_failed() -> CallError {
    CallError::unavailable("the record of the call cannot be written; see the log of the gateway")
}
