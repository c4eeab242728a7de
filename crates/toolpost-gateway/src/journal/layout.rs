//! Layout of the journal files, and the selection of the chain to continue.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{PositionKind, SignedPosition};
use super::key::{self, SigningKey};
use super::segment::{ChainError, Segments};
use super::writer::{JournalWriter, SignedFiles};
use super::{JournalSettings, records_path, retention};
use crate::data::{atomic_file, create_private_dir};

/// Suffixes of the files that belong to a chain.
const CHAIN_FILE_SUFFIXES: [&str; 3] = [".key", ".head", ".checkpoint"];

/// Paths of the journal files. Keys and signed positions are in the data folder; the records may be
/// in another folder.
#[derive(Debug, Clone)]
pub(super) struct JournalLayout {
    pub(super) journal_dir: PathBuf,
    records_dir: PathBuf,
}

/// The chain that this process writes.
pub(super) struct OwnChain {
    pub(super) gateway_id: String,
    pub(super) lock: File,
    pub(super) writer: Box<JournalWriter>,
    /// Number of other chains that are damaged.
    pub(super) damaged_chains: usize,
}

impl JournalLayout {
    pub(super) fn new(data: &Path, settings: &JournalSettings) -> Self {
        let journal_dir = data.join("journal");
        Self {
            records_dir: settings.path.clone().unwrap_or_else(|| journal_dir.clone()),
            journal_dir,
        }
    }

    /// Returns the ids of all chains. One remaining file is enough to list a chain, so that a
    /// partly deleted chain is still reported.
    pub(super) fn chains(&self) -> io::Result<Vec<String>> {
        let mut found = BTreeSet::new();
        for name in list_names(&self.journal_dir)? {
            let parts = CHAIN_FILE_SUFFIXES.iter().filter_map(|part| name.strip_suffix(part));
            found.extend(parts.map(String::from));
        }
        for folder in self.record_folders()? {
            found.extend(list_names(&folder)?);
        }
        // Skips files with other names, such as copies.
        Ok(found.into_iter().filter(|name| key::is_gateway_id(name)).collect())
    }

    pub(super) fn key_file(&self, gateway_id: &str) -> PathBuf {
        self.journal_dir.join(format!("{gateway_id}.key"))
    }

    pub(super) fn signed_files(&self, gateway_id: &str) -> SignedFiles {
        let file = |ending: &str| self.journal_dir.join(format!("{gateway_id}.{ending}"));
        SignedFiles { head: file("head"), checkpoint: file("checkpoint") }
    }

    /// Returns the segments of a chain: in the configured records folder, else in the folder
    /// recorded for the chain, else in the data folder.
    pub(super) fn segments(&self, gateway_id: &str) -> Segments {
        let given = self.records_dir.join(gateway_id);
        let own = self.journal_dir.join(gateway_id);
        let is_known = given.exists();
        let remembered = || {
            records_path::read(&self.journal_dir, gateway_id).map(|folder| folder.join(gateway_id))
        };
        match remembered().filter(|_| !is_known) {
            Some(remembered) => Segments::new(remembered),
            None if !is_known && own.exists() => Segments::new(own),
            None => Segments::new(given),
        }
    }

    /// Returns all folders that contain records.
    fn record_folders(&self) -> io::Result<BTreeSet<PathBuf>> {
        let mut folders = BTreeSet::from([self.journal_dir.clone(), self.records_dir.clone()]);
        let names = list_names(&self.journal_dir)?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(records_path::FILE_SUFFIX));
        folders
            .extend(ids.filter_map(|gateway_id| records_path::read(&self.journal_dir, gateway_id)));
        Ok(folders)
    }

    /// Whether the records of a chain are in the records folder of this process.
    fn uses_records_dir(&self, gateway_id: &str) -> bool {
        self.segments(gateway_id).folder() == self.records_dir.join(gateway_id)
    }

    pub(super) fn open(&self, settings: &JournalSettings) -> io::Result<OwnChain> {
        create_private_dir(&self.journal_dir)?;
        create_private_dir(&self.records_dir)?;
        let (mut own, mut damaged) = (None, 0);
        for gateway_id in self.chains()? {
            let is_candidate = own.is_none() && self.uses_records_dir(&gateway_id);
            let found = match is_candidate {
                true => self.claim(&gateway_id, settings)?,
                false => self.maintain_unclaimed(&gateway_id, settings),
            };
            match found {
                ChainClaim::Acquired(lock, writer) => own = Some((gateway_id, lock, writer)),
                ChainClaim::Damaged => damaged += 1,
                ChainClaim::Unavailable => {}
            }
        }
        let (gateway_id, lock, writer) = own.map_or_else(|| self.create_chain(settings), Ok)?;
        records_path::write(&self.journal_dir, &gateway_id, &self.records_dir)?;
        Ok(OwnChain { gateway_id, lock, writer, damaged_chains: damaged })
    }

    /// Applies retention to a chain that this process does not write, and reports a damaged chain
    /// at every start. The check takes no lock, so that another process starting at the same time
    /// can claim the chain.
    fn maintain_unclaimed(&self, gateway_id: &str, settings: &JournalSettings) -> ChainClaim {
        if retention::has_expired_segment(&self.segments(gateway_id), settings) {
            match self.claim(gateway_id, settings) {
                Ok(ChainClaim::Acquired(_lock, writer)) => writer.apply_retention(),
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(gateway_id, %error, "cannot remove old journal segments");
                }
            }
        }
        // Checked twice, because another process may remove old segments during the first check.
        match self.check_chain(gateway_id).or_else(|_| self.check_chain(gateway_id)) {
            Ok(()) => ChainClaim::Unavailable,
            Err(error) => self.report_damaged(gateway_id, &error),
        }
    }

    /// Checks that a chain can be continued. Segments before the one with the head are not
    /// verified.
    fn check_chain(&self, gateway_id: &str) -> Result<(), ChainError> {
        let key = self.read_key(gateway_id)?;
        JournalWriter::find_end(&key, &self.signed_files(gateway_id), &self.segments(gateway_id))
            .map(drop)
    }

    /// Tries to claim a chain. A chain locked by another process is skipped. A damaged chain is
    /// kept for inspection and reported at every start.
    fn claim(&self, gateway_id: &str, settings: &JournalSettings) -> io::Result<ChainClaim> {
        let Some(lock) = self.try_lock(gateway_id)? else { return Ok(ChainClaim::Unavailable) };
        match self.open_writer(gateway_id, settings) {
            Ok(writer) => Ok(ChainClaim::Acquired(lock, Box::new(writer))),
            Err(error) => Ok(self.report_damaged(gateway_id, &error)),
        }
    }

    fn report_damaged(&self, gateway_id: &str, error: &ChainError) -> ChainClaim {
        if matches!(error, ChainError::Key(_)) && self.is_uninitialized(gateway_id) {
            return ChainClaim::Unavailable;
        }
        let message = "journal chain is damaged; left unchanged for inspection";
        tracing::error!(gateway_id, %error, "{message}");
        ChainClaim::Damaged
    }

    /// Whether the creation of the chain was interrupted: its head is at record 0 and it has no
    /// segments.
    fn is_uninitialized(&self, gateway_id: &str) -> bool {
        let head = SignedPosition::read(&self.signed_files(gateway_id).head);
        let files = self.segments(gateway_id).list();
        head.is_ok_and(|head| head.seq == 0) && files.is_ok_and(|files| files.is_empty())
    }

    fn read_key(&self, gateway_id: &str) -> Result<SigningKey, ChainError> {
        let key = SigningKey::read(&self.key_file(gateway_id)).map_err(ChainError::Key)?;
        match key.gateway_id() == gateway_id {
            true => Ok(key),
            false => Err(ChainError::Key(io::Error::other("it is that of another journal"))),
        }
    }

    fn open_writer(
        &self,
        gateway_id: &str,
        settings: &JournalSettings,
    ) -> Result<JournalWriter, ChainError> {
        let key = self.read_key(gateway_id)?;
        let (signed_files, segments) = (self.signed_files(gateway_id), self.segments(gateway_id));
        JournalWriter::open(key, signed_files, segments, settings.clone())
    }

    /// Creates a chain. The head is written first, so that an interrupted creation leaves an empty
    /// chain. The key is written last, so that a chain with a key is complete.
    fn create_chain(
        &self,
        settings: &JournalSettings,
    ) -> io::Result<(String, File, Box<JournalWriter>)> {
        let (key, bytes) = SigningKey::generate()?;
        let gateway_id = key.gateway_id().to_owned();
        let lock = self.try_lock(&gateway_id)?;
        let lock = lock.ok_or_else(|| io::Error::other("a new journal is locked already"))?;
        let genesis = Hash::genesis(&gateway_id);
        let head = SignedPosition::sign(&key, PositionKind::Head, 0, genesis, epoch_ms());
        head.write_durably(&self.signed_files(&gateway_id).head)?;
        create_private_dir(&self.records_dir.join(&gateway_id))?;
        atomic_file::sync_dir(&self.records_dir)?;
        atomic_file::write_atomic(&self.key_file(&gateway_id), &bytes)?;
        let writer = self.open_writer(&gateway_id, settings).map_err(io::Error::other)?;
        Ok((gateway_id, lock, Box::new(writer)))
    }

    /// Locks a chain, or returns `None` if another process holds the lock. The operating system
    /// releases the lock when the process ends.
    fn try_lock(&self, gateway_id: &str) -> io::Result<Option<File>> {
        let path = self.journal_dir.join(format!("{gateway_id}.lock"));
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(std::fs::TryLockError::WouldBlock) => Ok(None),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Result of claiming a chain.
enum ChainClaim {
    Acquired(File, Box<JournalWriter>),
    /// Locked by another process, or never initialized.
    Unavailable,
    Damaged,
}

/// Returns the names in a folder; none if it does not exist.
fn list_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let name = |entry: io::Result<DirEntry>| entry.map(|entry| entry.file_name().into_string());
    entries.map(name).filter_map(|name| name.map(Result::ok).transpose()).collect()
}
