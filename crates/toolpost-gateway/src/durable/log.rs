//! The files with the encrypted records.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::record::RecordHead;
use super::seal::{FileKey, SALT_BYTES, TAG_BYTES};
use crate::data::{create_private_dir, if_exists, private_file_options};

const MAGIC: &[u8] = b"toolpost durable calls 1\n";
const HEADER_BYTES: usize = MAGIC.len() + SALT_BYTES;
const EXTENSION: &str = "log";

/// Size from which on the next file is started.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Length of the sealed head of a record.
const HEAD_BYTES: usize = RecordHead::BYTES + TAG_BYTES;
/// Length of the length of the body, which precedes the head.
const LENGTH_BYTES: usize = size_of::<u32>();

/// The position of the body of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLocation {
    pub(super) file: u64,
    offset: u64,
    /// Length of the sealed body; 0 if the record has none.
    length: u32,
    /// Number of the part in its file.
    part: u64,
}

/// An open file of records.
pub(super) struct LogFile {
    file: File,
    key: FileKey,
}

/// The files of one gateway. Records are appended to the last one, which this process created.
pub(super) struct Log {
    folder: PathBuf,
    secret: [u8; 32],
    files: BTreeMap<u64, FileState>,
    /// The file that is written; `None` before the first record, and after a failed write.
    current: Option<CurrentFile>,
    next_number: u64,
    /// Size of all files.
    total_bytes: u64,
    /// Files with records that are not synced.
    unsynced: Vec<Arc<LogFile>>,
    /// Whether a file was created since the folder was synced.
    has_new_file: bool,
    buffer: Vec<u8>,
}

struct FileState {
    file: Arc<LogFile>,
    bytes: u64,
    /// Number of entries that need a record of the file.
    entries: usize,
}

struct CurrentFile {
    number: u64,
    file: Arc<LogFile>,
    bytes: u64,
    next_part: u64,
    is_synced: bool,
}

/// What must be synced for the records up to now to be durable.
pub(super) struct Unsynced {
    files: Vec<Arc<LogFile>>,
    /// The folder, if a file was created.
    folder: Option<PathBuf>,
}

impl Unsynced {
    pub(super) fn sync(&self) -> io::Result<()> {
        self.files.iter().try_for_each(|file| file.file.sync_data())?;
        self.folder.as_deref().map_or(Ok(()), crate::data::atomic_file::sync_dir)
    }
}

impl LogFile {
    /// Reads the body of a record.
    pub(super) fn read(&self, at: &BodyLocation) -> io::Result<Vec<u8>> {
        let mut sealed = vec![0; at.length as usize];
        self.file.read_exact_at(&mut sealed, at.offset)?;
        let length = self.key.open(at.part, &mut sealed).map(|body| body.len());
        let length = length.ok_or_else(|| invalid_data("the record cannot be decrypted"))?;
        sealed.truncate(length);
        Ok(sealed)
    }
}

impl Log {
    /// Reads the heads of all records, in the order in which they were written, and passes them to
    /// `add`. Nothing is created.
    pub(super) fn open(
        folder: PathBuf,
        secret: [u8; 32],
        mut add: impl FnMut(RecordHead, BodyLocation),
    ) -> io::Result<Self> {
        let mut log = Self {
            folder,
            secret,
            files: BTreeMap::new(),
            current: None,
            next_number: 1,
            total_bytes: 0,
            unsynced: Vec::new(),
            has_new_file: false,
            buffer: Vec::new(),
        };
        for (number, path) in list_files(&log.folder)? {
            log.next_number = number + 1;
            let (file, bytes) = match scan(&path, number, &log.secret, &mut add) {
                Ok(scanned) => scanned,
                Err(error) => {
                    let path = path.display();
                    tracing::error!(%path, %error, "file of durable calls is damaged; left unchanged for inspection");
                    continue;
                }
            };
            log.total_bytes += bytes;
            log.files.insert(number, FileState { file: Arc::new(file), bytes, entries: 0 });
        }
        Ok(log)
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    pub(super) fn file(&self, number: u64) -> Option<Arc<LogFile>> {
        self.files.get(&number).map(|state| Arc::clone(&state.file))
    }

    /// Appends a record and returns the location of its body. After an error, the next record is
    /// written to another file, because this one may end with a part of the record.
    pub(super) fn append(&mut self, head: &RecordHead, body: &[u8]) -> io::Result<BodyLocation> {
        let mut current = match self.current.take() {
            Some(current) if current.bytes < MAX_FILE_BYTES => current,
            _ => self.create_file()?,
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let location = current.encode(head, body, &mut buffer)?;
        let written = (&current.file.file).write_all(&buffer);
        let length = buffer.len() as u64;
        buffer.clear();
        buffer.shrink_to(64 * 1024);
        self.buffer = buffer;
        written?;
        current.bytes += length;
        self.total_bytes += length;
        if let Some(state) = self.files.get_mut(&current.number) {
            state.bytes = current.bytes;
        }
        if std::mem::take(&mut current.is_synced) {
            self.unsynced.push(Arc::clone(&current.file));
        }
        self.current = Some(current);
        Ok(location)
    }

    fn create_file(&mut self) -> io::Result<CurrentFile> {
        create_private_dir(&self.folder)?;
        let number = self.next_number;
        self.next_number += 1;
        let mut header = Vec::from(MAGIC);
        header.resize(HEADER_BYTES, 0);
        let salt = &mut header[MAGIC.len()..];
        getrandom::fill(salt).map_err(io::Error::other)?;
        let salt = (&*salt).try_into().expect("the header ends with the salt");
        let key = FileKey::new(&self.secret, salt);
        let path = file_path(&self.folder, number);
        let file = private_file_options().read(true).create_new(true).open(path)?;
        (&file).write_all(&header)?;
        let (file, bytes) = (Arc::new(LogFile { file, key }), HEADER_BYTES as u64);
        self.has_new_file = true;
        self.total_bytes += bytes;
        self.files.insert(number, FileState { file: Arc::clone(&file), bytes, entries: 0 });
        Ok(CurrentFile { number, file, bytes, next_part: 0, is_synced: true })
    }

    /// Counts an entry that needs a record of the file.
    pub(super) fn add_entry(&mut self, number: u64) {
        if let Some(state) = self.files.get_mut(&number) {
            state.entries += 1;
        }
    }

    /// Counts an entry that no longer needs its record in the file.
    pub(super) fn remove_entry(&mut self, number: u64) {
        if let Some(state) = self.files.get_mut(&number) {
            state.entries = state.entries.saturating_sub(1);
        }
    }

    /// Forgets the files that no entry needs, and returns their paths.
    pub(super) fn take_unused(&mut self) -> Vec<PathBuf> {
        let current = self.current.as_ref().map(|current| current.number);
        let unused = |(number, state): (&u64, &FileState)| {
            (state.entries == 0 && Some(*number) != current).then_some(*number)
        };
        let unused: Vec<u64> = self.files.iter().filter_map(unused).collect();
        for state in unused.iter().filter_map(|number| self.files.remove(number)) {
            self.total_bytes -= state.bytes;
        }
        unused.into_iter().map(|number| file_path(&self.folder, number)).collect()
    }

    /// Returns what was written since the last call; `None` if there is nothing.
    pub(super) fn take_unsynced(&mut self) -> Option<Unsynced> {
        if self.unsynced.is_empty() {
            return None;
        }
        if let Some(current) = &mut self.current {
            current.is_synced = true;
        }
        let folder = std::mem::take(&mut self.has_new_file).then(|| self.folder.clone());
        Some(Unsynced { files: std::mem::take(&mut self.unsynced), folder })
    }

    /// Takes back what could not be synced.
    pub(super) fn restore_unsynced(&mut self, unsynced: Unsynced) {
        self.has_new_file |= unsynced.folder.is_some();
        self.unsynced.extend(unsynced.files);
    }
}

impl CurrentFile {
    fn encode(
        &mut self,
        head: &RecordHead,
        body: &[u8],
        out: &mut Vec<u8>,
    ) -> io::Result<BodyLocation> {
        let sealed = if body.is_empty() { 0 } else { body.len() + TAG_BYTES };
        let length = u32::try_from(sealed).map_err(|_| invalid_data("the body is too large"))?;
        let (head_part, part) = (self.next_part, self.next_part + 1);
        // Numbers are not used again after a failed write.
        self.next_part += 2;
        out.extend_from_slice(&length.to_le_bytes());
        self.file.key.seal(head_part, &head.encode(), out);
        let offset = self.bytes + out.len() as u64;
        if length > 0 {
            self.file.key.seal(part, body, out);
        }
        Ok(BodyLocation { file: self.number, offset, length, part })
    }
}

/// Reads the heads of a file. Returns the file and its length. An incomplete record at the end, which a crash leaves, is
/// ignored.
fn scan(
    path: &Path,
    number: u64,
    secret: &[u8; 32],
    add: &mut impl FnMut(RecordHead, BodyLocation),
) -> io::Result<(LogFile, u64)> {
    let file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut reader = BufReader::new(&file);
    let mut header = [0; HEADER_BYTES];
    if end >= HEADER_BYTES as u64 {
        reader.read_exact(&mut header)?;
        if !header.starts_with(MAGIC) {
            return Err(invalid_data("the file has another format"));
        }
    }
    let salt = header[MAGIC.len()..].try_into().expect("the header ends with the salt");
    let key = FileKey::new(secret, salt);
    let (mut offset, mut part) = (HEADER_BYTES as u64, 0);
    let mut sealed = [0; LENGTH_BYTES + HEAD_BYTES];
    while offset + (sealed.len() as u64) <= end {
        reader.read_exact(&mut sealed)?;
        let (length, head) = sealed.split_at_mut(LENGTH_BYTES);
        let length = u32::from_le_bytes((&*length).try_into().expect("the length has 4 bytes"));
        let head = key.open(part, head).and_then(|head| RecordHead::decode(head));
        let head = head.ok_or_else(|| {
            invalid_data(&format!("the record at byte {offset} cannot be decrypted"))
        })?;
        offset += sealed.len() as u64;
        if offset + u64::from(length) > end {
            break;
        }
        add(head, BodyLocation { file: number, offset, length, part: part + 1 });
        reader.seek_relative(length.into())?;
        offset += u64::from(length);
        part += 2;
    }
    drop(reader);
    Ok((LogFile { file, key }, end))
}

/// Returns the files by number.
fn list_files(folder: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let mut files = BTreeMap::new();
    let Some(entries) = if_exists(std::fs::read_dir(folder))? else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|n| n.parse().ok());
        let number = number.filter(|_| path.extension().is_some_and(|found| found == EXTENSION));
        if let Some(number) = number {
            files.insert(number, path);
        }
    }
    Ok(files)
}

fn file_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.{EXTENSION}"))
}

fn invalid_data(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}
