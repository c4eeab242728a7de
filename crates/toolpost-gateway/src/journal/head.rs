//! Signed statements about a chain, kept outside of it: how far it goes, and where it begins.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::Hash;
use super::key::{self, SigningKey};
use crate::data::atomic_file;

/// How long a statement is as a file. A disk writes so many bytes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// How often a head that is being written is read.
const MAX_READ_ATTEMPTS: usize = 3;

/// What a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PositionKind {
    /// The chain goes at least this far.
    Head,
    /// What was before and up to this record has been removed.
    Checkpoint,
}

/// A place in a chain, signed by the gateway that writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignedPosition {
    pub(super) about: PositionKind,
    pub(super) gateway_id: String,
    /// The number of the record; zero is before the first.
    pub(super) seq: u64,
    /// The hash of that record.
    pub(super) hash: String,
    /// When it was signed, in milliseconds since 1970.
    pub(super) time: i64,
    pub(super) public_key: String,
    pub(super) signature: String,
}

impl SignedPosition {
    pub(super) fn sign(
        key: &SigningKey,
        about: PositionKind,
        seq: u64,
        hash: Hash,
        time: i64,
    ) -> Self {
        let mut position = Self {
            about,
            gateway_id: key.gateway_id().to_owned(),
            seq,
            hash: hash.to_string(),
            time,
            public_key: key.public_key(),
            signature: String::new(),
        };
        position.signature = key.sign(position.signed_message().as_bytes());
        position
    }

    /// Whether it was signed by the gateway that it names.
    pub(super) fn is_signature_valid(&self) -> bool {
        let message = self.signed_message();
        key::verify_signature(
            &self.gateway_id,
            &self.public_key,
            message.as_bytes(),
            &self.signature,
        )
    }

    fn signed_message(&self) -> String {
        let Self { about, gateway_id, seq, hash, time, .. } = self;
        format!("toolpost journal {about:?}\n{gateway_id}\n{seq}\n{hash}\n{time}\n")
    }

    pub(super) fn hash(&self) -> Option<Hash> {
        Hash::parse(self.hash.as_bytes())
    }

    pub(super) fn read(file: &Path) -> io::Result<Self> {
        let text = std::fs::read(file)?;
        serde_json::from_slice(&text).map_err(io::Error::from)
    }

    /// Reads one that somebody may be writing over. Half of each is not genuine; what is so again and
    /// again was not made by the one who writes.
    pub(super) fn read_concurrently_written(file: &Path) -> io::Result<Self> {
        let is_valid = |read: &io::Result<Self>| read.as_ref().is_ok_and(Self::is_signature_valid);
        let mut attempts = (0..MAX_READ_ATTEMPTS).map(|_| Self::read(file));
        attempts.find(is_valid).unwrap_or_else(|| Self::read(file))
    }

    /// Puts it into its place for good.
    pub(super) fn write_durably(&self, file: &Path) -> io::Result<()> {
        atomic_file::write_atomic(file, &self.encode()?)
    }

    /// Writes it over an older one, and leaves it to the system when that reaches the disk: a machine
    /// that dies leaves the old statement or the new one. A file that was put in the place of another
    /// without waiting for the disk could be left empty.
    pub(super) fn overwrite(&self, file: &Path) -> io::Result<()> {
        let text = self.encode()?;
        match File::options().write(true).open(file) {
            Ok(mut old) if old.metadata()?.len() == text.len() as u64 => old.write_all(&text),
            Ok(_) => self.write_durably(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write_durably(file),
            Err(error) => Err(error),
        }
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.resize(text.len().max(SECTOR_BYTES - 1), b' ');
        text.push(b'\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signed_position_always_fits_one_sector() {
        let (key, _) = SigningKey::generate().unwrap();
        for (seq, time) in [(0, 0), (u64::MAX, i64::MIN)] {
            let position =
                SignedPosition::sign(&key, PositionKind::Checkpoint, seq, Hash::genesis("x"), time);
            let text = position.encode().unwrap();
            assert_eq!(text.len(), SECTOR_BYTES);
            assert_eq!(serde_json::from_slice::<SignedPosition>(&text).unwrap(), position);
        }
    }

    #[test]
    fn signed_position_rejects_modified_fields() {
        let (key, _) = SigningKey::generate().unwrap();
        let position = SignedPosition::sign(&key, PositionKind::Head, 3, Hash::genesis("x"), 1);
        assert!(position.is_signature_valid());
        let changes: [fn(&mut SignedPosition); 6] = [
            |position| position.seq = 2,
            |position| position.about = PositionKind::Checkpoint,
            |position| position.hash = Hash::genesis("y").to_string(),
            |position| position.time = 2,
            |position| position.gateway_id = "0123456789abcdef".to_owned(),
            |position| position.signature.clear(),
        ];
        for change in changes {
            let mut changed = position.clone();
            change(&mut changed);
            assert!(!changed.is_signature_valid(), "{changed:?}");
        }
    }
}
