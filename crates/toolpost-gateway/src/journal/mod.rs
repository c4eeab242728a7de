//! The journal: every call as two records, and every message of a room as one, in a chain that shows
//! what was done to it.
//!
//! | file | holds |
//! |---|---|
//! | `record`, `chain` | the text of a record, and how each hash covers the one before |
//! | `key`, `head` | who signs, and what is signed: how far a chain goes, where it begins |
//! | `places`, `place` | which chain is gone on with; where the records of each are |
//! | `mask`, `sink` | what is not written down; a call as it enters and leaves the pipeline |
//! | `room` | messages of rooms, before they are handed on |
//! | `queue`, `writer` | records gather in a buffer, one thread writes them in groups |
//! | `segment`, `index` | the files of records, and the database that finds calls in them again |
//! | `retention` | old files go, and leave a signed checkpoint |
//! | `archive`, `stretch`, `query`, `joined`, `messages` | reading: calls and messages by what they are |
//! | `verify`, `comparison` | whether all is as it was |
//! | `operations`, `following`, `replay` | all of it as operations of the namespace `gateway` |

mod archive;
mod chain;
mod comparison;
mod following;
mod head;
mod index;
mod joined;
mod key;
mod mask;
mod messages;
mod operations;
mod place;
mod places;
mod query;
mod queue;
mod record;
mod replay;
mod retention;
mod room;
mod segment;
mod sink;
mod stretch;
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

use places::{Own, Places};
use queue::Queue;
use segment::End;

pub use archive::Archive;
pub(crate) use mask::{input as mask_input, output_value as mask_output};
pub use operations::operations;
pub use query::{Filter, QueryError};
pub(crate) use room::{RoomEntry, RoomRefusal, Written};
pub use verify::{Anchor, Verdict};

/// The database beside the records.
const INDEX: &str = "index.sqlite";

/// When the answer to a call may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Mode {
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
pub struct Settings {
    /// When the answer to a call may be given.
    pub mode: Mode,
    /// How many bytes of an input or an output are kept; of larger ones there is the SHA-256.
    pub body_limit: usize,
    /// How long records are kept.
    pub retain_for: Option<Duration>,
    /// How many bytes of records are kept.
    pub retain_size: Option<u64>,
    /// Where records are written, if not in the data folder.
    pub path: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            body_limit: 64 * 1024,
            retain_for: None,
            retain_size: Some(4 * 1024 * 1024 * 1024),
            path: None,
        }
    }
}

impl Settings {
    /// Files are removed whole, so there are some of them in what is kept.
    fn segment_bytes(&self) -> u64 {
        const MOST: u64 = 64 * 1024 * 1024;
        self.retain_size.map_or(MOST, |size| (size / 8).clamp(64 * 1024, MOST))
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
    pub(crate) fn of(folder: &Path, source: io::Error) -> Self {
        Self { folder: folder.to_owned(), source }
    }
}

/// A journal that is written. Cloning it shares everything.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    gateway_id: String,
    settings: Settings,
    /// Where this chain is, and the others of the folder.
    places: Places,
    /// When this process began to write, in milliseconds since 1970.
    opened: i64,
    /// Taken by whoever closes it.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The last record that was there when this process began to write.
    began_behind: u64,
    /// How many chains of the folder do not hold, and cannot be gone on with.
    damaged: usize,
    /// Held, so that nobody else writes the same chain.
    _lock: File,
}

/// What the thread and everybody else have in common.
struct Shared {
    queue: Queue,
    committed: watch::Sender<Committed>,
    /// Records that were not taken, or not written.
    lost: AtomicU64,
}

impl Shared {
    fn new(end: End) -> Self {
        Self {
            queue: Queue::new(end.seq + 1),
            committed: watch::Sender::new(Committed { end }),
            lost: AtomicU64::new(0),
        }
    }

    /// A record could not be taken.
    fn lose(&self) {
        let lost = self.lost.fetch_add(1, Ordering::Relaxed) + 1;
        if lost.is_power_of_two() {
            tracing::error!(lost, "calls are not recorded: the journal cannot be written");
        }
    }
}

/// How far the records are on the disk.
#[derive(Debug, Clone, Copy)]
struct Committed {
    end: End,
}

impl Journal {
    /// Takes up a chain that nobody else is writing, or begins one.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn open(data: &Path, settings: &Settings) -> Result<Self, JournalError> {
        let places = Places::new(data, settings);
        let began = places.open(settings).and_then(|own| Self::start(&places, own, settings));
        began.map_err(|source| JournalError { folder: places.seals, source })
    }

    fn start(places: &Places, mut own: Own, settings: &Settings) -> io::Result<Self> {
        let end = own.writer.end();
        let shared = Arc::new(Shared::new(end));
        // Before anybody can close it, so that what is too old goes however short it is open.
        own.writer.keep_up(&shared);
        let (writer, of_thread) = (own.writer, Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&of_thread))?;
        Ok(Self(Arc::new(Inner {
            shared,
            gateway_id: own.gateway_id,
            settings: settings.clone(),
            places: places.clone(),
            opened: epoch_ms(),
            thread: Mutex::new(Some(thread)),
            began_behind: end.seq,
            damaged: own.damaged,
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
        let trouble = shared.queue.trouble();
        let mut health = json!({
            "status": if trouble.is_some() { "failing" } else { "ok" },
            "gatewayId": self.0.gateway_id,
            "seq": shared.committed.borrow().end.seq,
            "lost": shared.lost.load(Ordering::Relaxed),
        });
        if let Some(trouble) = trouble {
            health["reason"] = (&*trouble).into();
        }
        if self.0.damaged > 0 {
            health["damaged"] = self.0.damaged.into();
        }
        health
    }

    fn committed(&self) -> watch::Receiver<Committed> {
        self.0.shared.committed.subscribe()
    }

    /// All that is in its folder, to be read.
    fn archive(&self) -> Archive {
        Archive::of(self.0.places.clone())
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("gateway_id", &self.0.gateway_id).finish_non_exhaustive()
    }
}

impl Inner {
    fn close(&self) {
        self.shared.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the journal's thread ended in the middle of something");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
