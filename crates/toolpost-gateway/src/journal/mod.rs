//! The journal: every call as two records, and every message of a room as one, in a chain that shows
//! what was done to it.
//!
//! | file | holds |
//! |---|---|
//! | `record`, `chain` | the text of a record, and how each hash covers the one before |
//! | `key`, `head` | who signs, and what is signed: how far a chain goes, where it begins |
//! | `layout`, `records_path` | which chain is gone on with; where the records of each are |
//! | `mask`, `sink` | what is not written down; a call as it enters and leaves the pipeline |
//! | `room_records` | messages of rooms, before they are handed on |
//! | `queue`, `writer` | records gather in a buffer, one thread writes them in groups |
//! | `segment`, `index` | the files of records, and the database that finds calls in them again |
//! | `retention` | old files go, and leave a signed checkpoint |
//! | `reader`, `block_reader`, `query`, `call_view`, `messages` | reading: calls and messages by what they are |
//! | `verify`, `index_check` | whether all is as it was |
//! | `operations`, `tail`, `replay` | all of it as operations of the namespace `gateway` |

mod block_reader;
mod call_view;
mod chain;
mod head;
mod index;
mod index_check;
mod key;
mod layout;
mod mask;
mod messages;
mod operations;
mod query;
mod queue;
mod reader;
mod record;
mod records_path;
mod replay;
mod retention;
mod room_records;
mod segment;
mod sink;
mod tail;
mod verify;
mod writer;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use toolpost::epoch_ms;

use layout::{JournalLayout, OwnChain};
use queue::Queue;
use segment::ChainEnd;

pub(crate) use mask::{input as mask_input, output_value as mask_output};
pub use operations::operations;
pub use query::{CallFilter, QueryError};
pub use reader::JournalReader;
pub(crate) use room_records::{MessageReceipt, RoomMessageRecord, RoomRejectionRecord};
pub use verify::{Anchor, ChainReport};

/// The database beside the records.
const INDEX_FILE: &str = "index.sqlite";

/// When the answer to a call may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum JournalMode {
    /// When what it did is on the disk; and it does not begin before that it begins is.
    Sync,
    /// At once; records reach the disk a moment later.
    #[default]
    Batch,
    /// At once, and nothing is recorded.
    Off,
}

/// What holds for a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalSettings {
    /// When the answer to a call may be given.
    pub mode: JournalMode,
    /// How many bytes of an input or an output are kept; of larger ones there is the SHA-256.
    pub body_limit: usize,
    /// How long records are kept.
    pub retain_for: Option<Duration>,
    /// How many bytes of records are kept.
    pub retain_size: Option<u64>,
    /// Where records are written, if not in the data folder.
    pub path: Option<PathBuf>,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self {
            mode: JournalMode::default(),
            body_limit: 64 * 1024,
            retain_for: None,
            retain_size: Some(4 * 1024 * 1024 * 1024),
            path: None,
        }
    }
}

impl JournalSettings {
    /// Files are removed whole, so there are some of them in what is kept.
    fn segment_bytes(&self) -> u64 {
        const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
        self.retain_size
            .map_or(MAX_SEGMENT_BYTES, |size| (size / 8).clamp(64 * 1024, MAX_SEGMENT_BYTES))
    }

    fn segment_age(&self) -> Option<Duration> {
        self.retain_for.map(|time| (time / 8).max(Duration::from_secs(1)))
    }
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
#[error("the journal in {} cannot be opened: {source}; name another folder with --data, or set mode = \"off\" in [journal]", folder.display())]
pub struct JournalError {
    folder: PathBuf,
    source: io::Error,
}

impl JournalError {
    pub(crate) fn new(folder: &Path, source: io::Error) -> Self {
        Self { folder: folder.to_owned(), source }
    }
}

/// A journal that is written. Cloning it shares everything.
#[derive(Clone)]
pub struct Journal(Arc<JournalInner>);

struct JournalInner {
    shared: Arc<WriterShared>,
    gateway_id: String,
    settings: JournalSettings,
    /// Where this chain is, and the others of the folder.
    layout: JournalLayout,
    /// When this process began to write, in milliseconds since 1970.
    opened_at: i64,
    /// Taken by whoever closes it.
    writer_thread: Mutex<Option<JoinHandle<()>>>,
    /// The last record that was there when this process began to write.
    last_seq_at_open: u64,
    /// How many chains of the folder do not hold, and cannot be gone on with.
    damaged_chains: usize,
    /// Held, so that nobody else writes the same chain.
    _lock: File,
}

/// What the thread and everybody else have in common.
struct WriterShared {
    queue: Queue,
    committed: watch::Sender<Committed>,
    /// Records that were not taken, or not written.
    lost_records: AtomicU64,
}

impl WriterShared {
    fn new(end: ChainEnd) -> Self {
        Self {
            queue: Queue::new(end.seq + 1),
            committed: watch::Sender::new(Committed { end }),
            lost_records: AtomicU64::new(0),
        }
    }

    /// A record could not be taken.
    fn count_lost_record(&self) {
        let lost = self.lost_records.fetch_add(1, Ordering::Relaxed) + 1;
        if lost.is_power_of_two() {
            tracing::error!(lost, "record dropped: the journal cannot be written");
        }
    }
}

/// How far the records are on the disk.
#[derive(Debug, Clone, Copy)]
struct Committed {
    end: ChainEnd,
}

impl Journal {
    /// Takes up a chain that nobody else is writing, or begins one.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn open(data: &Path, settings: &JournalSettings) -> Result<Self, JournalError> {
        let layout = JournalLayout::new(data, settings);
        let began = layout.open(settings).and_then(|own| Self::start(&layout, own, settings));
        began.map_err(|source| JournalError { folder: layout.journal_dir, source })
    }

    fn start(
        layout: &JournalLayout,
        mut own: OwnChain,
        settings: &JournalSettings,
    ) -> io::Result<Self> {
        let end = own.writer.end();
        let shared = Arc::new(WriterShared::new(end));
        // Before anybody can close it, so that what is too old goes however short it is open.
        own.writer.maintain(&shared);
        let (writer, of_thread) = (own.writer, Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&of_thread))?;
        Ok(Self(Arc::new(JournalInner {
            shared,
            gateway_id: own.gateway_id,
            settings: settings.clone(),
            layout: layout.clone(),
            opened_at: epoch_ms(),
            writer_thread: Mutex::new(Some(thread)),
            last_seq_at_open: end.seq,
            damaged_chains: own.damaged_chains,
            _lock: own.lock,
        })))
    }

    /// Whose chain it is.
    pub fn gateway_id(&self) -> &str {
        &self.0.gateway_id
    }

    /// Waits until everything that was recorded is written, and takes no more.
    pub fn close(&self) {
        self.0.close();
    }

    /// How it is, for those who watch over the gateway.
    pub fn health(&self) -> Value {
        let shared = &self.0.shared;
        let write_error = shared.queue.write_error();
        let mut health = json!({
            "status": if write_error.is_some() { "failing" } else { "ok" },
            "gatewayId": self.0.gateway_id,
            "seq": shared.committed.borrow().end.seq,
            "lost": shared.lost_records.load(Ordering::Relaxed),
        });
        if let Some(write_error) = write_error {
            health["reason"] = (&*write_error).into();
        }
        if self.0.damaged_chains > 0 {
            health["damaged"] = self.0.damaged_chains.into();
        }
        health
    }

    fn committed(&self) -> watch::Receiver<Committed> {
        self.0.shared.committed.subscribe()
    }

    /// All that is in its folder, to be read.
    fn reader(&self) -> JournalReader {
        JournalReader::with_layout(self.0.layout.clone())
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("gateway_id", &self.0.gateway_id).finish_non_exhaustive()
    }
}

impl JournalInner {
    fn close(&self) {
        self.shared.queue.close();
        let thread = self.writer_thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("journal writer thread panicked");
        }
    }
}

impl Drop for JournalInner {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
