//! Signed positions of a chain: in its signature records, and outside of it as its head and its
//! checkpoint.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::{Hash, RecordLine};
use super::key::{self, SigningKey};
use crate::data::{atomic_file, if_exists};

/// File size of a signed position, one sector. A disk writes a sector atomically.
const SECTOR_BYTES: usize = 512;
/// Maximum number of retries when reading a head that is being overwritten.
const MAX_READ_ATTEMPTS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum PositionKind {
    /// The chain extends at least to this record.
    Head,
    /// The records up to and including this one were removed.
    Checkpoint,
    /// Records that were written together end with this one. Signed by the record after it.
    Group,
    /// The journal was closed after this record. Signed by the record after it.
    Close,
}

/// The members of a signature record, except its number and kind.
#[derive(Deserialize)]
struct SignatureMembers {
    time: i64,
    signature: String,
}

/// A position in a chain, signed by the gateway that writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignedPosition {
    pub(super) about: PositionKind,
    pub(super) gateway_id: String,
    /// Sequence number of the record; 0 is the position before the first record.
    pub(super) seq: u64,
    pub(super) hash: String,
    /// Time of the signature, in milliseconds since the Unix epoch.
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

    /// Returns the position that a record signs, which is that of the record before it. Returns
    /// `None` if the record is not a signature.
    pub(super) fn from_record(
        line: &RecordLine<'_>,
        previous: Hash,
        gateway_id: &str,
        public_key: &str,
    ) -> Option<Self> {
        let about = line.signs()?;
        // A signature that cannot be parsed is invalid.
        let SignatureMembers { time, signature } = serde_json::from_slice(line.content)
            .unwrap_or(SignatureMembers { time: 0, signature: String::new() });
        Some(Self {
            about,
            gateway_id: gateway_id.to_owned(),
            seq: line.seq.saturating_sub(1),
            hash: previous.to_string(),
            time,
            public_key: public_key.to_owned(),
            signature,
        })
    }

    /// Whether the signature is by the gateway that the position names.
    pub(super) fn is_signature_valid(&self) -> bool {
        let message = self.signed_message();
        key::verify_signature(
            &self.gateway_id,
            &self.public_key,
            message.as_bytes(),
            &self.signature,
        )
    }

    /// Whether this is such a position of the chain of this gateway, with a valid signature.
    pub(super) fn is_signed_by(&self, gateway_id: &str, about: PositionKind) -> bool {
        self.gateway_id == gateway_id && self.about == about && self.is_signature_valid()
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

    /// Reads a position that may be overwritten concurrently. A partly overwritten position has an
    /// invalid signature, so the read is retried; a signature that stays invalid was not made by
    /// the writer.
    pub(super) fn read_concurrently_written(file: &Path) -> io::Result<Self> {
        let is_valid = |read: &io::Result<Self>| read.as_ref().is_ok_and(Self::is_signature_valid);
        let mut attempts = (0..MAX_READ_ATTEMPTS).map(|_| Self::read(file));
        attempts.find(is_valid).unwrap_or_else(|| Self::read(file))
    }

    pub(super) fn write_durably(&self, file: &Path) -> io::Result<()> {
        atomic_file::write_atomic(file, &self.encode()?)
    }

    /// Overwrites an older position in place without fsync. After a machine crash the file holds
    /// the old or the new position. Replacing the file without fsync could leave it empty.
    pub(super) fn overwrite(&self, file: &Path) -> io::Result<()> {
        let text = self.encode()?;
        match if_exists(File::options().write(true).open(file))? {
            Some(mut old) if old.metadata()?.len() == text.len() as u64 => old.write_all(&text),
            _ => self.write_durably(file),
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
