//! Stored documents of rooms, one per room, written atomically.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::data::{atomic_file, create_private_dir};

/// Maximum document size, in bytes.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Maximum size of the header line in bytes, which contains the room name.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Maximum length of an encoded room name in a file name; a longer name is replaced by its SHA-256.
const MAX_FILE_STEM_BYTES: usize = 100;
const FILE_EXTENSION: &str = ".room";

/// The documents of rooms by room name, in the folder `rooms` of the data folder.
///
/// A file is a header line with the room name and the SHA-256 of the document, followed by the
/// document. Concurrent writes are serialized, also between processes.
#[derive(Debug, Clone)]
pub(crate) struct RoomStore {
    directory: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct DocumentHeader {
    room: String,
    sha256: String,
}

impl RoomStore {
    /// Opens the store and creates its folder if it does not exist.
    ///
    /// # Errors
    ///
    /// The folder cannot be created.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("rooms");
        create_private_dir(&directory)?;
        atomic_file::sync_dir(data)?;
        Ok(Self { directory })
    }

    /// Loads the document of a room; `None` if it has none. Blocks.
    ///
    /// # Errors
    ///
    /// The document cannot be read, or it is corrupt.
    pub(crate) fn load(&self, room: &str) -> io::Result<Option<String>> {
        let path = self.path(room);
        match read_document(&path) {
            Ok((header, document)) if header.room == room => Ok(Some(document)),
            Ok((header, _)) => {
                Err(corrupt_document(&path, &format!("it belongs to room `{}`", header.room)))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a room has a document, valid or not. Blocks.
    pub(crate) fn contains(&self, room: &str) -> bool {
        self.path(room).exists()
    }

    /// Replaces the document of a room. It is synced to disk when this returns. Blocks.
    ///
    /// # Errors
    ///
    /// The document cannot be written or is too large; an error before the file is replaced leaves
    /// the old document in place.
    pub(crate) fn save(&self, room: &str, document: &str) -> io::Result<()> {
        let sha256 = hash(document.as_bytes());
        let mut content = serde_json::to_vec(&DocumentHeader { room: room.to_owned(), sha256 })?;
        content.push(b'\n');
        if document.len() > MAX_DOCUMENT_BYTES || content.len() > MAX_HEADER_BYTES {
            let message = format!(
                "a room document is limited to {MAX_DOCUMENT_BYTES} bytes and its header to {MAX_HEADER_BYTES}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        content.extend_from_slice(document.as_bytes());
        // Held until the end, because all writers use the same temporary file.
        let _lock = self.lock()?;
        atomic_file::write_atomic(&self.path(room), &content)
    }

    fn lock(&self) -> io::Result<File> {
        let path = self.directory.join("lock");
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        file.lock()?;
        Ok(file)
    }

    fn path(&self, room: &str) -> PathBuf {
        self.directory.join(format!("{}{FILE_EXTENSION}", file_name(room)))
    }
}

fn read_document(path: &Path) -> io::Result<(DocumentHeader, String)> {
    let max = (MAX_HEADER_BYTES + MAX_DOCUMENT_BYTES + 1) as u64;
    let mut content = Vec::new();
    File::open(path)?.take(max).read_to_end(&mut content)?;
    let end = memchr::memchr(b'\n', &content[..content.len().min(MAX_HEADER_BYTES)]);
    let end = end.ok_or_else(|| corrupt_document(path, "its header is incomplete"))?;
    let document = content.split_off(end + 1);
    let header: DocumentHeader = serde_json::from_slice(&content)
        .map_err(|_| corrupt_document(path, "its header cannot be parsed"))?;
    if hash(&document) != header.sha256 {
        return Err(corrupt_document(path, "its checksum does not match"));
    }
    let document =
        String::from_utf8(document).map_err(|_| corrupt_document(path, "it is not UTF-8"))?;
    Ok((header, document))
}

/// Encodes a room name, which can be any text, as a file name of lowercase letters, digits, `-`,
/// `_` and `%`. The names differ on case-insensitive file systems too.
fn file_name(room: &str) -> String {
    let mut name = String::new();
    for &byte in room.as_bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02x}")),
        }
        if name.len() > MAX_FILE_STEM_BYTES {
            return format!("sha256%{}", hash(room.as_bytes()));
        }
    }
    name
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn corrupt_document(path: &Path, reason: &str) -> io::Error {
    let path = path.display();
    let message =
        format!("{path} is corrupt: {reason}; restore a backup, or delete the file to start empty");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder for one test, removed on drop.
    struct ScratchDir(PathBuf);

    impl ScratchDir {
        fn new(name: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("toolpost-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&directory);
            std::fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }
    }

    impl Drop for ScratchDir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_room_name_maps_to_its_own_document() {
        let scratch = ScratchDir::new("keep-names");
        let store = RoomStore::open(&scratch.0).unwrap();
        let long = "x".repeat(5_000);
        let longer = format!("{long}y");
        let names = [
            "lobby",
            "Lobby",
            "LOBBY",
            "",
            ".",
            "..",
            "../up",
            "a/b",
            "a\\b",
            "a%2fb",
            "a:b",
            "a\0b",
            "a\nb",
            "zwölf",
            "lobby.room",
            "lobby.room.new",
            "lock",
            &long,
            &longer,
            "nul",
            "con",
        ];
        for round in ["1", "2"] {
            for name in names {
                assert_eq!(store.load(name).unwrap().is_some(), round == "2", "{name:?}");
                assert_eq!(store.contains(name), round == "2", "{name:?}");
                store
                    .save(name, &format!("{{\"of\":\"{round}\",\n\"n\":{}}}", name.len()))
                    .unwrap();
            }
            for name in names {
                let expected = format!("{{\"of\":\"{round}\",\n\"n\":{}}}", name.len());
                let again = RoomStore::open(&scratch.0).unwrap();
                assert_eq!(again.load(name).unwrap(), Some(expected), "{name:?}");
            }
        }
        let beside = std::fs::read_dir(&scratch.0).unwrap().count();
        assert_eq!(beside, 1, "nothing is outside of the folder");
        assert_eq!(store.load("unknown").unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn store_files_are_owner_only() {
        use std::os::unix::fs::PermissionsExt;

        let scratch = ScratchDir::new("keep-private");
        let store = RoomStore::open(&scratch.0).unwrap();
        store.save("lobby", "{}").unwrap();
        for (path, expected) in [(store.directory.clone(), 0o700), (store.path("lobby"), 0o600)] {
            let mode = std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected);
        }
    }

    /// Each row: the content of the file of room `lobby`, and the expected error.
    #[test]
    fn corrupt_document_is_an_error_not_missing() {
        let scratch = ScratchDir::new("keep-damaged");
        let store = RoomStore::open(&scratch.0).unwrap();
        store.save("lobby", r#"{"grants":["chat"]}"#).unwrap();
        store.save("attic", r#"{"grants":["chat"]}"#).unwrap();
        let intact = std::fs::read(store.path("lobby")).unwrap();
        let other = std::fs::read(store.path("attic")).unwrap();
        let text = String::from_utf8(intact.clone()).unwrap();
        for (content, expected) in [
            (Vec::new(), "header is incomplete"),
            (intact[..20].to_vec(), "header is incomplete"),
            (intact[..intact.len() - 1].to_vec(), "checksum does not match"),
            ([&intact[..], b" "].concat(), "checksum does not match"),
            (text.replace("[\"chat\"]", "[\"*\"]").into_bytes(), "checksum does not match"),
            (vec![0; intact.len()], "header is incomplete"),
            (b"{}\n{}".to_vec(), "cannot be parsed"),
            (vec![b'x'; MAX_HEADER_BYTES + 1], "header is incomplete"),
            (other, "belongs to room `attic`"),
        ] {
            std::fs::write(store.path("lobby"), &content).unwrap();
            let error = store.load("lobby").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{expected}");
            assert!(error.to_string().contains(expected), "{expected}: {error}");
        }
        store.save("lobby", "{}").unwrap();
        assert_eq!(store.load("lobby").unwrap().as_deref(), Some("{}"));
    }

    #[test]
    fn oversized_save_fails_and_keeps_old_document() {
        let scratch = ScratchDir::new("keep-large");
        let store = RoomStore::open(&scratch.0).unwrap();
        for (name, bytes, is_saved) in [
            ("lobby", MAX_DOCUMENT_BYTES, true),
            ("lobby", MAX_DOCUMENT_BYTES + 1, false),
            (&*"x".repeat(MAX_HEADER_BYTES), 1, false),
        ] {
            let saved = store.save(name, &" ".repeat(bytes));
            assert_eq!(saved.is_ok(), is_saved, "{bytes}");
            let stored_len = store.load(name).unwrap().map(|document| document.len());
            assert_eq!(stored_len, (name == "lobby").then_some(MAX_DOCUMENT_BYTES));
        }
    }

    /// A process that is killed during a write leaves a partial temporary file.
    #[test]
    fn partial_temp_file_is_ignored_and_overwritten() {
        let scratch = ScratchDir::new("keep-half");
        let store = RoomStore::open(&scratch.0).unwrap();
        store.save("lobby", "{\"a\":1}").unwrap();
        let mut new = store.path("lobby").into_os_string();
        new.push(".new");
        std::fs::write(&new, "{\"room\":\"lob").unwrap();
        assert_eq!(store.load("lobby").unwrap().as_deref(), Some("{\"a\":1}"));
        store.save("lobby", "{\"a\":2}").unwrap();
        assert_eq!(store.load("lobby").unwrap().as_deref(), Some("{\"a\":2}"));
    }

    #[test]
    fn concurrent_saves_are_serialized() {
        let scratch = ScratchDir::new("keep-together");
        let stores = [(); 4].map(|()| RoomStore::open(&scratch.0).unwrap());
        std::thread::scope(|scope| {
            for (n, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    for length in 0..20 {
                        store.save("lobby", &n.to_string().repeat(length * 1_000)).unwrap();
                        assert!(store.load("lobby").unwrap().is_some());
                    }
                });
            }
        });
        assert_eq!(stores[0].load("lobby").unwrap().map(|document| document.len()), Some(19_000));
    }
}
