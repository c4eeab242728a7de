//! The journal: every call as two records, and every message of a room as one, in a chain that shows
//! what was done to it.
//!
//! | file | holds |
//! |---|---|
//! | `record`, `chain` | the text of a record, and how each hash covers the one before |
//! | `key`, `head` | who signs, and what is signed: how far a chain goes, where it begins |
//! | `place` | where the records of a chain are |
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
mod query;
mod queue;
mod record;
mod replay;
mod retention;
#[allow(dead_code, reason = "rooms are there soon")]
mod room;
mod segment;
mod sink;
mod stretch;
mod verify;
mod writer;

use std::collections::BTreeSet;
use std::fs::{DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use manila::epoch_ms;
use serde_json::{Value, json};
use tokio::sync::watch;

use chain::Hash;
use head::{About, Seal};
use key::Key;
use queue::Queue;
use segment::{Broken, End, Segments};
use writer::{SealFiles, Writer};

use crate::data::{durable, make_private};

pub use archive::Archive;
pub use operations::operations;
pub use query::{Filter, QueryError};
#[allow(unused_imports, reason = "rooms are there soon")]
pub(crate) use room::{Recorded, RoomEntry, RoomRefusal, StoredEntry, Written};
pub use verify::{Anchor, Verdict};

/// The database beside the records.
const INDEX: &str = "index.sqlite";

/// What the names of the files end with that say something about a chain.
const PARTS: [&str; 3] = [".key", ".head", ".checkpoint"];

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
        places.open(settings).map_err(|source| JournalError { folder: places.seals, source })
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

/// Where the parts of journals are: what is signed in the data folder, the records perhaps elsewhere.
#[derive(Debug, Clone)]
struct Places {
    seals: PathBuf,
    records: PathBuf,
}

impl Places {
    fn new(data: &Path, settings: &Settings) -> Self {
        let seals = data.join("journal");
        Self { records: settings.path.clone().unwrap_or_else(|| seals.clone()), seals }
    }

    /// The chains that there are: those of which anything is left, so that none disappears with one
    /// of its parts.
    fn chains(&self) -> io::Result<Vec<String>> {
        let mut found = BTreeSet::new();
        for name in names(&self.seals)? {
            let parts = PARTS.iter().filter_map(|part| name.strip_suffix(part));
            found.extend(parts.map(String::from));
        }
        for folder in self.record_folders()? {
            found.extend(names(&folder)?);
        }
        // Copies that somebody made have other names.
        Ok(found.into_iter().filter(|name| key::is_gateway_id(name)).collect())
    }

    fn key_file(&self, gateway_id: &str) -> PathBuf {
        self.seals.join(format!("{gateway_id}.key"))
    }

    fn seal_files(&self, gateway_id: &str) -> SealFiles {
        let file = |ending: &str| self.seals.join(format!("{gateway_id}.{ending}"));
        SealFiles { head: file("head"), checkpoint: file("checkpoint") }
    }

    /// The records of a chain: where they are written now, else where it was written down that they
    /// are, else in the data folder.
    fn segments(&self, gateway_id: &str) -> Segments {
        let given = self.records.join(gateway_id);
        let own = self.seals.join(gateway_id);
        let is_known = given.exists();
        let remembered = || place::read(&self.seals, gateway_id).map(|it| it.join(gateway_id));
        match remembered().filter(|_| !is_known) {
            Some(remembered) => Segments::new(remembered),
            None if !is_known && own.exists() => Segments::new(own),
            None => Segments::new(given),
        }
    }

    /// Every folder that holds records of chains.
    fn record_folders(&self) -> io::Result<BTreeSet<PathBuf>> {
        let mut folders = BTreeSet::from([self.seals.clone(), self.records.clone()]);
        let names = names(&self.seals)?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(place::ENDING));
        folders.extend(ids.filter_map(|gateway_id| place::read(&self.seals, gateway_id)));
        Ok(folders)
    }

    /// Whether the records of a chain are written where this process writes its own.
    fn is_here(&self, gateway_id: &str) -> bool {
        self.segments(gateway_id).folder() == self.records.join(gateway_id)
    }

    fn open(&self, settings: &Settings) -> io::Result<Journal> {
        make_private(&self.seals)?;
        make_private(&self.records)?;
        let (mut own, mut damaged) = (None, 0);
        for gateway_id in self.chains()? {
            let is_wanted = own.is_none() && self.is_here(&gateway_id);
            let found = match is_wanted {
                true => self.free(&gateway_id, settings)?,
                false => self.look_after(&gateway_id, settings),
            };
            match found {
                Free::Yes(lock, writer) => own = Some((gateway_id, lock, writer)),
                Free::Damaged => damaged += 1,
                Free::No => {}
            }
        }
        let (gateway_id, lock, writer) = own.map_or_else(|| self.begin(settings), Ok)?;
        place::write(&self.seals, &gateway_id, &self.records)?;
        self.start(writer, &gateway_id, settings, (lock, damaged))
    }

    fn start(
        &self,
        mut writer: Box<Writer>,
        gateway_id: &str,
        settings: &Settings,
        (lock, damaged): (File, usize),
    ) -> io::Result<Journal> {
        let began_behind = writer.end().seq;
        let shared = Arc::new(Shared::new(writer.end()));
        // Before anybody can close it, so that what is too old goes however short it is open.
        writer.keep_up(&shared);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run(&of_thread))?;
        Ok(Journal(Arc::new(Inner {
            shared,
            gateway_id: gateway_id.to_owned(),
            settings: settings.clone(),
            places: self.clone(),
            opened: epoch_ms(),
            thread: Mutex::new(Some(thread)),
            began_behind,
            damaged,
            _lock: lock,
        })))
    }

    /// What is too old goes also from a chain that nobody writes at the moment, and one that does not
    /// hold is told at every start. To look takes no lock, so that whoever starts at the same time
    /// finds his chain free.
    fn look_after(&self, gateway_id: &str, settings: &Settings) -> Free {
        if retention::is_overdue(&self.segments(gateway_id), settings) {
            match self.free(gateway_id, settings) {
                Ok(Free::Yes(_lock, writer)) => writer.clear(),
                Ok(found) => return found,
                Err(error) => tracing::warn!(gateway_id, %error, "old records cannot be removed"),
            }
        }
        // Looked at twice, because what is too old may be removed meanwhile.
        match self.check(gateway_id).or_else(|_| self.check(gateway_id)) {
            Ok(()) => Free::No,
            Err(error) => self.broken(gateway_id, &error),
        }
    }

    /// Whether a chain could be gone on with, as far as its last file tells.
    fn check(&self, gateway_id: &str) -> Result<(), Broken> {
        let key = self.key(gateway_id)?;
        Writer::end_of(&key, &self.seal_files(gateway_id), &self.segments(gateway_id)).map(drop)
    }

    /// One that somebody else writes is left to him, and one that is damaged to be looked at, which is
    /// told at every start.
    fn free(&self, gateway_id: &str, settings: &Settings) -> io::Result<Free> {
        let Some(lock) = self.lock(gateway_id)? else { return Ok(Free::No) };
        match self.writer(gateway_id, settings) {
            Ok(writer) => Ok(Free::Yes(lock, Box::new(writer))),
            Err(error) => Ok(self.broken(gateway_id, &error)),
        }
    }

    fn broken(&self, gateway_id: &str, error: &Broken) -> Free {
        if matches!(error, Broken::Key(_)) && self.is_unbegun(gateway_id) {
            return Free::No;
        }
        let said = "a journal is damaged, and left as it is to be looked at";
        tracing::error!(gateway_id, %error, "{said}");
        Free::Damaged
    }

    /// Whether somebody was killed before he could begin it.
    fn is_unbegun(&self, gateway_id: &str) -> bool {
        let head = Seal::read(&self.seal_files(gateway_id).head);
        let files = self.segments(gateway_id).list();
        head.is_ok_and(|head| head.seq == 0) && files.is_ok_and(|files| files.is_empty())
    }

    fn key(&self, gateway_id: &str) -> Result<Key, Broken> {
        let key = Key::read(&self.key_file(gateway_id)).map_err(Broken::Key)?;
        match key.gateway_id() == gateway_id {
            true => Ok(key),
            false => Err(Broken::Key(io::Error::other("it is that of another journal"))),
        }
    }

    fn writer(&self, gateway_id: &str, settings: &Settings) -> Result<Writer, Broken> {
        let key = self.key(gateway_id)?;
        let (seals, segments) = (self.seal_files(gateway_id), self.segments(gateway_id));
        Writer::open(key, seals, segments, settings.clone())
    }

    /// The head is the first to be written, so that what is killed here is a chain of no records; the
    /// key is the last, so that a chain that has one has everything.
    fn begin(&self, settings: &Settings) -> io::Result<(String, File, Box<Writer>)> {
        let (key, bytes) = Key::generate()?;
        let gateway_id = key.gateway_id().to_owned();
        let lock = self.lock(&gateway_id)?;
        let lock = lock.ok_or_else(|| io::Error::other("a new journal is locked already"))?;
        let genesis = Hash::genesis(&gateway_id);
        let head = Seal::sign(&key, About::Head, 0, genesis, epoch_ms());
        head.write(&self.seal_files(&gateway_id).head)?;
        make_private(&self.records.join(&gateway_id))?;
        durable::sync_folder(&self.records)?;
        durable::replace(&self.key_file(&gateway_id), &bytes)?;
        let writer = self.writer(&gateway_id, settings).map_err(io::Error::other)?;
        Ok((gateway_id, lock, Box::new(writer)))
    }

    /// The system lets go of it when the process ends, however it ends.
    fn lock(&self, gateway_id: &str) -> io::Result<Option<File>> {
        let path = self.seals.join(format!("{gateway_id}.lock"));
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Whether a chain can be gone on with.
enum Free {
    Yes(File, Box<Writer>),
    /// Somebody writes it, or it was never begun.
    No,
    Damaged,
}

/// What is in a folder, which need not be there.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let name = |entry: io::Result<DirEntry>| entry.map(|entry| entry.file_name().into_string());
    entries.map(name).filter_map(|name| name.map(Result::ok).transpose()).collect()
}

#[cfg(test)]
mod tests;
