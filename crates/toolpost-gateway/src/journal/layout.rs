//! Layout of the journal files, and the selection of the chain to continue.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::key::{self, SigningKey};
use super::segment::{ChainError, Segments};
use super::writer::JournalWriter;
use super::{JournalSettings, retention};
use crate::data::{atomic_file, create_private_dir, if_exists};

/// Suffixes of the files that belong to a chain.
const CHAIN_FILE_SUFFIXES: [&str; 3] = [".key", ".head", ".checkpoint"];
/// Suffix of the file with the folder of the records, for readers without the writer's
/// configuration. It is absent if the records are in the journal folder.
const RECORDS_PATH_SUFFIX: &str = ".path";

/// Paths of the journal files. Keys and signed positions are in the data folder; the records may be
/// in another folder.
#[derive(Debug, Clone)]
pub(super) struct JournalLayout {
    pub(super) journal_dir: PathBuf,
    records_dir: PathBuf,
}

#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) gateway_id: String,
    pub(super) segments: Segments,
    pub(super) head: PathBuf,
    /// Path of the signed checkpoint, which exists if records were removed.
    pub(super) checkpoint: PathBuf,
}

impl Chain {
    /// Returns the path of the index database, which is stored next to the records.
    pub(super) fn index_file(&self) -> PathBuf {
        self.segments.folder.join("index.sqlite")
    }

    /// Returns the start of the retained records: the checkpoint, or else the genesis.
    pub(super) fn start(&self) -> io::Result<(u64, Hash)> {
        let Some(checkpoint) = if_exists(SignedPosition::read(&self.checkpoint))? else {
            return Ok((0, Hash::genesis(&self.gateway_id)));
        };
        match checkpoint.hash() {
            Some(hash) if checkpoint.is_signed_by(&self.gateway_id, PositionKind::Checkpoint) => {
                Ok((checkpoint.seq, hash))
            }
            _ => Err(io::Error::other("the checkpoint was not signed by this gateway")),
        }
    }
}

impl JournalLayout {
    pub(super) fn new(data: &Path, settings: &JournalSettings) -> Self {
        let journal_dir = data.join("journal");
        let records_dir = settings.path.clone().unwrap_or_else(|| journal_dir.clone());
        Self { journal_dir, records_dir }
    }

    /// Returns all chains. One remaining file is enough to list a chain, so that a partly deleted
    /// chain is still reported.
    pub(super) fn chains(&self) -> io::Result<Vec<Chain>> {
        let mut folders = BTreeSet::from([self.journal_dir.clone(), self.records_dir.clone()]);
        let mut found = BTreeSet::new();
        for name in list_names(&self.journal_dir)? {
            let parts = CHAIN_FILE_SUFFIXES.iter().filter_map(|part| name.strip_suffix(part));
            found.extend(parts.map(String::from));
            let id = name.strip_suffix(RECORDS_PATH_SUFFIX);
            folders.extend(id.and_then(|id| self.recorded_folder(id)));
        }
        for folder in folders {
            found.extend(list_names(&folder)?);
        }
        // Skips files with other names, such as copies.
        Ok(found.iter().filter(|id| key::is_gateway_id(id)).map(|id| self.chain(id)).collect())
    }

    /// Returns the files of a chain. The records are in the configured folder, else in the folder
    /// recorded for the chain, else in the data folder.
    pub(super) fn chain(&self, gateway_id: &str) -> Chain {
        let configured = self.records_dir.join(gateway_id);
        let own = self.journal_dir.join(gateway_id);
        let folder = match self.recorded_folder(gateway_id) {
            _ if configured.exists() => configured,
            Some(folder) => folder.join(gateway_id),
            None if own.exists() => own,
            None => configured,
        };
        Chain {
            gateway_id: gateway_id.to_owned(),
            segments: Segments { folder },
            head: self.chain_file(gateway_id, ".head"),
            checkpoint: self.chain_file(gateway_id, ".checkpoint"),
        }
    }

    fn chain_file(&self, gateway_id: &str, suffix: &str) -> PathBuf {
        self.journal_dir.join(format!("{gateway_id}{suffix}"))
    }

    pub(super) fn key_file(&self, gateway_id: &str) -> PathBuf {
        self.chain_file(gateway_id, ".key")
    }

    /// Returns the recorded folder of the records, or `None` if they are next to the key.
    fn recorded_folder(&self, gateway_id: &str) -> Option<PathBuf> {
        let file = self.chain_file(gateway_id, RECORDS_PATH_SUFFIX);
        let text = std::fs::read_to_string(file).ok()?;
        Some(PathBuf::from(text.strip_suffix('\n')?))
    }

    /// Records the folder of the records, if it has changed.
    fn record_folder(&self, gateway_id: &str) -> io::Result<()> {
        let file = self.chain_file(gateway_id, RECORDS_PATH_SUFFIX);
        if self.records_dir == self.journal_dir {
            return if_exists(std::fs::remove_file(file)).map(drop);
        }
        let records = std::path::absolute(&self.records_dir)?;
        match self.recorded_folder(gateway_id) {
            Some(recorded) if recorded == records => Ok(()),
            _ => atomic_file::write_atomic(&file, format!("{}\n", records.display()).as_bytes()),
        }
    }

    /// Opens the chain to continue, or creates one. Also returns the number of damaged chains.
    pub(super) fn open(&self, settings: &JournalSettings) -> io::Result<(JournalWriter, usize)> {
        create_private_dir(&self.journal_dir)?;
        create_private_dir(&self.records_dir)?;
        let (mut own, mut damaged) = (None, 0);
        for chain in self.chains()? {
            let is_here = chain.segments.folder == self.records_dir.join(&chain.gateway_id);
            let found = match own.is_none() && is_here {
                true => self.claim(&chain, settings)?,
                false => self.maintain_unclaimed(&chain, settings),
            };
            match found {
                ChainClaim::Acquired(writer) => own = Some(*writer),
                ChainClaim::Damaged => damaged += 1,
                ChainClaim::Unavailable => {}
            }
        }
        let writer = own.map_or_else(|| self.create_chain(settings), Ok)?;
        self.record_folder(writer.gateway_id())?;
        Ok((writer, damaged))
    }

    /// Applies retention to a chain that this process does not write, and reports a damaged chain
    /// at every start. The check takes no lock, so that another process starting at the same time
    /// can claim the chain.
    fn maintain_unclaimed(&self, chain: &Chain, settings: &JournalSettings) -> ChainClaim {
        if retention::has_expired_segment(&chain.segments, settings) {
            match self.claim(chain, settings) {
                Ok(ChainClaim::Acquired(writer)) => writer.apply_retention(),
                Ok(found) => return found,
                Err(error) => {
                    let gateway_id = &chain.gateway_id;
                    tracing::warn!(gateway_id, %error, "removal of old journal segments failed");
                }
            }
        }
        // Segments before the one with the head are not verified. Checked twice, because another
        // process may remove old segments during the first check.
        let check = || JournalWriter::find_end(&self.read_key(&chain.gateway_id)?, chain);
        match check().or_else(|_| check()) {
            Ok(_) => ChainClaim::Unavailable,
            Err(error) => report_damaged(chain, &error),
        }
    }

    /// Tries to claim a chain. A chain locked by another process is skipped. A damaged chain is
    /// kept for inspection and reported at every start.
    fn claim(&self, chain: &Chain, settings: &JournalSettings) -> io::Result<ChainClaim> {
        let Some(lock) = self.try_lock(&chain.gateway_id)? else {
            return Ok(ChainClaim::Unavailable);
        };
        let key = self.read_key(&chain.gateway_id);
        match key.and_then(|key| JournalWriter::open(key, lock, chain.clone(), settings)) {
            Ok(writer) => Ok(ChainClaim::Acquired(Box::new(writer))),
            Err(error) => Ok(report_damaged(chain, &error)),
        }
    }

    pub(super) fn read_key(&self, gateway_id: &str) -> Result<SigningKey, ChainError> {
        let key = SigningKey::read(&self.key_file(gateway_id)).map_err(ChainError::Key)?;
        match key.gateway_id() == gateway_id {
            true => Ok(key),
            false => Err(ChainError::Key(io::Error::other("the key belongs to another journal"))),
        }
    }

    /// Creates a chain. The head is written first, so that an interrupted creation leaves an empty
    /// chain. The key is written last, so that a chain with a key is complete.
    fn create_chain(&self, settings: &JournalSettings) -> io::Result<JournalWriter> {
        let (key, bytes) = SigningKey::generate()?;
        let gateway_id = key.gateway_id().to_owned();
        let lock = self.try_lock(&gateway_id)?;
        let lock =
            lock.ok_or_else(|| io::Error::other("the new journal is locked by another process"))?;
        let genesis = Hash::genesis(&gateway_id);
        let head = SignedPosition::sign(&key, PositionKind::Head, 0, genesis, epoch_ms());
        head.write_durably(&self.chain_file(&gateway_id, ".head"))?;
        create_private_dir(&self.records_dir.join(&gateway_id))?;
        atomic_file::sync_dir(&self.records_dir)?;
        atomic_file::write_atomic(&self.key_file(&gateway_id), &bytes)?;
        JournalWriter::open(key, lock, self.chain(&gateway_id), settings).map_err(io::Error::other)
    }

    /// Locks a chain, or returns `None` if another process holds the lock. The operating system
    /// releases the lock when the process ends.
    fn try_lock(&self, gateway_id: &str) -> io::Result<Option<File>> {
        let path = self.chain_file(gateway_id, ".lock");
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

enum ChainClaim {
    Acquired(Box<JournalWriter>),
    /// Locked by another process, of an earlier version, or never initialized.
    Unavailable,
    Damaged,
}

fn report_damaged(chain: &Chain, error: &ChainError) -> ChainClaim {
    // The creation was interrupted if there is no key, the head is at record 0 and there are no
    // segments.
    let has_empty_head = || SignedPosition::read(&chain.head).is_ok_and(|head| head.seq == 0);
    let has_no_segments = || chain.segments.list().is_ok_and(|segments| segments.is_empty());
    if matches!(error, ChainError::Key(_)) && has_empty_head() && has_no_segments() {
        return ChainClaim::Unavailable;
    }
    let gateway_id = &chain.gateway_id;
    if matches!(error, ChainError::OldFormat { .. }) {
        tracing::error!(gateway_id, %error, "journal chain has an old format; left unchanged");
        return ChainClaim::Unavailable;
    }
    tracing::error!(gateway_id, %error, "journal chain is damaged; left unchanged for inspection");
    ChainClaim::Damaged
}

/// Returns the names in a folder; none if it does not exist.
pub(super) fn list_names(folder: &Path) -> io::Result<Vec<String>> {
    let Some(entries) = if_exists(std::fs::read_dir(folder))? else { return Ok(Vec::new()) };
    let name = |entry: io::Result<std::fs::DirEntry>| Ok(entry?.file_name().into_string().ok());
    entries.filter_map(|entry| name(entry).transpose()).collect()
}
