//! Where the parts of journals are, and which chain a process goes on with.

use std::collections::BTreeSet;
use std::fs::{DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};

use toolpost::epoch_ms;

use super::chain::Hash;
use super::head::{About, Seal};
use super::key::{self, Key};
use super::segment::{Broken, Segments};
use super::writer::{SealFiles, Writer};
use super::{Settings, place, retention};
use crate::data::{durable, make_private};

/// What the names of the files end with that say something about a chain.
const PARTS: [&str; 3] = [".key", ".head", ".checkpoint"];

/// Where the parts of journals are: what is signed in the data folder, the records perhaps elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Places {
    pub(super) seals: PathBuf,
    records: PathBuf,
}

/// The chain that this process goes on with.
pub(super) struct Own {
    pub(super) gateway_id: String,
    pub(super) lock: File,
    pub(super) writer: Box<Writer>,
    /// How many other chains do not hold.
    pub(super) damaged: usize,
}

impl Places {
    pub(super) fn new(data: &Path, settings: &Settings) -> Self {
        let seals = data.join("journal");
        Self { records: settings.path.clone().unwrap_or_else(|| seals.clone()), seals }
    }

    /// The chains that there are: those of which anything is left, so that none disappears with one
    /// of its parts.
    pub(super) fn chains(&self) -> io::Result<Vec<String>> {
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

    pub(super) fn key_file(&self, gateway_id: &str) -> PathBuf {
        self.seals.join(format!("{gateway_id}.key"))
    }

    pub(super) fn seal_files(&self, gateway_id: &str) -> SealFiles {
        let file = |ending: &str| self.seals.join(format!("{gateway_id}.{ending}"));
        SealFiles { head: file("head"), checkpoint: file("checkpoint") }
    }

    /// The records of a chain: where they are written now, else where it was written down that they
    /// are, else in the data folder.
    pub(super) fn segments(&self, gateway_id: &str) -> Segments {
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

    pub(super) fn open(&self, settings: &Settings) -> io::Result<Own> {
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
        Ok(Own { gateway_id, lock, writer, damaged })
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
