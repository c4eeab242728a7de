//! The journal: an audit log with two records per call and one per room message, in a
//! tamper-evident hash chain.
//!
//! | file | contains |
//! |---|---|
//! | `record`, `chain` | the text of a record and the hash chain |
//! | `key`, `head` | the signing key and the signed positions: head and checkpoint |
//! | `layout` | location of the files of each chain; selection of the chain to continue |
//! | `mask`, `sink` | masking of secrets; recording of calls by the pipeline |
//! | `room_records` | room messages, recorded before delivery |
//! | `queue`, `appender`, `writer` | buffer of pending records; end of the chain, where they are written; thread that signs and syncs them in groups |
//! | `segment`, `index` | record files; database for finding calls in them |
//! | `retention` | removal of old segments with a signed checkpoint |
//! | `reader`, `search`, `call_view` | search for calls and messages |
//! | `verify`, `index_check` | verification of the chain and the index |
//! | `operations`, `tail`, `replay` | the operations in the namespace `gateway` |

mod appender;
mod call_view;
mod chain;
mod head;
mod index;
mod index_check;
mod key;
mod layout;
mod mask;
mod operations;
mod queue;
mod reader;
mod record;
mod replay;
mod retention;
mod room_records;
mod search;
mod segment;
mod sink;
mod tail;
mod verify;
mod writer;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use toolpost::epoch_ms;

use crate::shorthand::Shorthand;
use crate::units::{DurationText, Size};
use appender::Appender;
use key::SigningKey;
use layout::JournalLayout;
use queue::{Durability, Queue, QueuedRecord, WriteReceipt};
use record::{RecordSummary, RecordWriter};
use segment::ChainEnd;
use writer::JournalWriter;

pub(crate) use mask::message as mask_message;
pub use operations::operations;
pub use reader::JournalReader;
pub(crate) use record::mask_tokens;
pub(crate) use room_records::{RoomMessageRecord, RoomRejectionRecord};
pub use verify::{Anchor, ChainReport};

/// Durability of the journal relative to the response of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JournalMode {
    /// The enter record is fsynced before the call runs, the exit record before the response is
    /// sent.
    Sync,
    /// The records are written to the file before the response is sent, and synced shortly
    /// afterward.
    #[default]
    Batch,
    /// Nothing is recorded.
    Off,
}

/// Settings of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Journal")]
#[non_exhaustive]
pub struct JournalSettings {
    /// Durability of the records.
    pub mode: JournalMode,
    /// Maximum number of bytes recorded of an input or an output. A larger body is replaced by its
    /// SHA-256 hash and its length.
    #[serde(with = "Size::<0>")]
    pub body_limit: usize,
    /// Maximum age of records, such as `"30d"`; unlimited if absent.
    #[serde(with = "DurationText")]
    pub retain_for: Option<Duration>,
    /// Maximum total size of records.
    #[serde(with = "Size::<0>")]
    pub retain_size: Option<u64>,
    /// Folder of the records, relative to the folder of this file; the data folder if absent. The
    /// key and the signed head stay in the data folder.
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

/// `journal = "sync"` sets the mode.
impl Shorthand for JournalSettings {
    const NAME: &'static str = "JournalOrMode";
    const EXPECTED: &'static str =
        "\"sync\", \"batch\", \"off\" or a table such as { mode = \"sync\" }";
    const WORDS: &'static [&'static str] = &["sync", "batch", "off"];
    type Long = Self;

    fn from_text(text: &str) -> Result<Self, String> {
        let mode = serde_json::from_value(text.into()).map_err(|_| Self::unexpected())?;
        Ok(Self { mode, ..Self::default() })
    }

    fn from_long(settings: Self) -> Result<Self, String> {
        Ok(settings)
    }
}

impl JournalSettings {
    /// Maximum segment size. Segments are removed whole, so the retained size spans several of
    /// them.
    fn segment_bytes(&self) -> u64 {
        const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
        self.retain_size
            .map_or(MAX_SEGMENT_BYTES, |size| (size / 8).clamp(64 * 1024, MAX_SEGMENT_BYTES))
    }

    fn segment_age(&self) -> Option<Duration> {
        self.retain_for.map(|time| (time / 8).max(Duration::from_secs(1)))
    }
}

/// The journal cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the journal in {}: {source}; choose another folder with --data, or set mode = \"off\" in [journal]", folder.display())]
pub struct JournalError {
    folder: PathBuf,
    source: io::Error,
}

impl JournalError {
    pub(crate) fn new(folder: &Path, source: io::Error) -> Self {
        Self { folder: folder.to_owned(), source }
    }
}

/// A journal open for writing. Clones share the same state.
#[derive(Clone)]
pub struct Journal(Arc<JournalInner>);

struct JournalInner {
    shared: Arc<WriterShared>,
    gateway_id: String,
    key: Arc<SigningKey>,
    settings: JournalSettings,
    /// Locations of this chain and of the others in the data folder.
    layout: JournalLayout,
    /// Time at which this process opened the journal, in milliseconds since the Unix epoch.
    opened_at: i64,
    /// Taken when the journal is closed.
    writer_thread: Mutex<Option<JoinHandle<()>>>,
    /// Sequence number of the last record when this process opened the journal.
    last_seq_at_open: u64,
    /// Number of chains in the folder that are damaged and cannot be continued.
    damaged_chains: usize,
}

/// State shared between the writer thread and the journal handles.
struct WriterShared {
    queue: Queue,
    /// Locked before the queue, if both are.
    appender: Mutex<Appender>,
    /// End of the committed records.
    committed: watch::Sender<ChainEnd>,
    /// Number of records that were not queued or not written.
    lost_records: AtomicU64,
}

/// Maximum time a caller waits for another thread that writes records. After it, the writer thread
/// writes the record of the caller.
const MAX_APPENDER_WAIT: Duration = Duration::from_micros(50);

thread_local! {
    /// Buffer for encoding a record before it is queued; reused to avoid allocations.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl WriterShared {
    fn new(appender: Appender) -> Self {
        let end = appender.end();
        Self {
            queue: Queue::new(end.seq + 1),
            appender: Mutex::new(appender),
            committed: watch::Sender::new(end),
            lost_records: AtomicU64::new(0),
        }
    }

    /// Encodes a record and queues it, and writes the queue to the file if `durability` requires it.
    /// Returns `None` if the queue is full or closed.
    fn record(
        &self,
        summary: &RecordSummary<'_>,
        durability: Durability,
        write: impl FnOnce(&mut RecordWriter<'_>),
    ) -> Option<QueuedRecord> {
        let mut queued = SCRATCH.with_borrow_mut(|out| {
            let mut members = RecordWriter::start(out, summary);
            write(&mut members);
            members.finish();
            self.queue.push(summary, out, durability)
        })?;
        if durability == Durability::Written
            && matches!(queued.receipt, WriteReceipt::Ready(Ok(())))
        {
            queued.receipt = self.write_through(queued.seq);
        }
        Some(queued)
    }

    /// Writes the queue to the file, unless another thread has already written this record. The
    /// writer thread does it if the file is busy or full, or the disk is slow.
    fn write_through(&self, seq: u64) -> WriteReceipt {
        let appender = self.appender.try_lock_for(MAX_APPENDER_WAIT);
        let Some(mut appender) = appender.filter(|appender| appender.has_capacity()) else {
            return self.queue.await_write();
        };
        if appender.has_written(seq) {
            return WriteReceipt::Ready(Ok(()));
        }
        let written = appender.write_queued(&self.queue);
        drop(appender);
        WriteReceipt::Ready(written.map_err(|error| {
            let reason = error.to_string().into();
            self.fail_waiters(&reason);
            reason
        }))
    }

    /// Records that writes fail. Waiters fail with the reason.
    fn fail_waiters(&self, reason: &Arc<str>) {
        self.appender.lock().notify_waiters(&Err(Arc::clone(reason)));
        self.queue.set_write_error(reason);
    }

    fn count_lost_record(&self) {
        let lost = self.lost_records.fetch_add(1, Ordering::Relaxed) + 1;
        if lost.is_power_of_two() {
            tracing::error!(lost, "journal record dropped");
        }
    }
}

impl Journal {
    /// Opens the journal: continues a chain that no other process writes, or creates one.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn open(data: &Path, settings: &JournalSettings) -> Result<Self, JournalError> {
        let layout = JournalLayout::new(data, settings);
        let opened = layout.open(settings);
        let started = opened.and_then(|(writer, damaged)| {
            Self::start(layout.clone(), settings.clone(), writer, damaged)
        });
        started.map_err(|source| JournalError { folder: layout.journal_dir, source })
    }

    fn start(
        layout: JournalLayout,
        settings: JournalSettings,
        mut writer: JournalWriter,
        damaged_chains: usize,
    ) -> io::Result<Self> {
        let (gateway_id, shared) = (writer.gateway_id().to_owned(), writer.shared());
        let key = writer.key();
        let last_seq_at_open = shared.committed.borrow().seq;
        // Runs before the journal can be closed, so that retention applies even if it is open only
        // briefly.
        writer.maintain();
        let thread =
            std::thread::Builder::new().name("journal".to_owned()).spawn(move || writer.run())?;
        Ok(Self(Arc::new(JournalInner {
            shared,
            gateway_id,
            key,
            settings,
            layout,
            opened_at: epoch_ms(),
            writer_thread: Mutex::new(Some(thread)),
            last_seq_at_open,
            damaged_chains,
        })))
    }

    /// Id of the chain that this journal writes.
    pub fn gateway_id(&self) -> &str {
        &self.0.gateway_id
    }

    /// How durable records are before a call continues.
    pub(crate) fn mode(&self) -> JournalMode {
        self.0.settings.mode
    }

    /// Derives a key for another purpose from the signing key.
    pub(crate) fn derive_key(&self, purpose: &[u8]) -> [u8; 32] {
        self.0.key.derive(purpose)
    }

    /// Stops accepting records and waits until all queued records are written.
    pub fn close(&self) {
        self.0.close();
    }

    /// Whether calls fail because their records cannot be written: in mode `sync`, no call runs
    /// unrecorded.
    pub(crate) fn rejects_calls(&self) -> bool {
        self.0.settings.mode == JournalMode::Sync && self.0.shared.queue.write_error().is_some()
    }

    /// Returns the health of the journal, for monitoring.
    pub fn health(&self) -> Value {
        let shared = &self.0.shared;
        let write_error = shared.queue.write_error();
        let mut health = json!({
            "status": if write_error.is_some() { "failing" } else { "ok" },
            "gatewayId": self.0.gateway_id,
            "seq": shared.committed.borrow().seq,
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
}

toolpost::debug_fields!(journal: Journal, gateway_id = journal.0.gateway_id);

impl JournalInner {
    fn close(&self) {
        self.shared.queue.close();
        let thread = self.writer_thread.lock().take();
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
