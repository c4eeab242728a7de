//! Signed statements about a chain, kept outside of it: how far it goes, and where it begins.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::chain::Hash;
use super::key::{self, Key};
use crate::data::durable;

/// How long a statement is as a file. A disk writes so many bytes whole or not at all.
const SECTOR: usize = 512;
/// How often a head that is being written is read.
const MOST_LOOKS: usize = 3;

/// What a statement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum About {
    /// The chain goes at least this far.
    Head,
    /// What was before and up to this record has been removed.
    Checkpoint,
}

/// A place in a chain, signed by the gateway that writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Seal {
    pub(super) about: About,
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

impl Seal {
    pub(super) fn sign(key: &Key, about: About, seq: u64, hash: Hash, time: i64) -> Self {
        let mut seal = Self {
            about,
            gateway_id: key.gateway_id().to_owned(),
            seq,
            hash: hash.to_string(),
            time,
            public_key: key.public(),
            signature: String::new(),
        };
        seal.signature = key.sign(seal.message().as_bytes());
        seal
    }

    /// Whether it was signed by the gateway that it names.
    pub(super) fn is_genuine(&self) -> bool {
        let message = self.message();
        key::is_signed(&self.gateway_id, &self.public_key, message.as_bytes(), &self.signature)
    }

    fn message(&self) -> String {
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
    pub(super) fn read_live(file: &Path) -> io::Result<Self> {
        let is_whole = |read: &io::Result<Self>| read.as_ref().is_ok_and(Self::is_genuine);
        let mut looks = (0..MOST_LOOKS).map(|_| Self::read(file));
        looks.find(is_whole).unwrap_or_else(|| Self::read(file))
    }

    /// Puts it into its place for good.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        durable::replace(file, &self.text()?)
    }

    /// Writes it over an older one, and leaves it to the system when that reaches the disk: a machine
    /// that dies leaves the old statement or the new one. A file that was put in the place of another
    /// without waiting for the disk could be left empty.
    pub(super) fn write_over(&self, file: &Path) -> io::Result<()> {
        let text = self.text()?;
        match File::options().write(true).open(file) {
            Ok(mut old) if old.metadata()?.len() == text.len() as u64 => old.write_all(&text),
            Ok(_) => self.write(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.write(file),
            Err(error) => Err(error),
        }
    }

    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.resize(text.len().max(SECTOR - 1), b' ');
        text.push(b'\n');
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_one_sector_however_far_the_chain_goes() {
        let (key, _) = Key::generate().unwrap();
        for (seq, time) in [(0, 0), (u64::MAX, i64::MIN)] {
            let seal = Seal::sign(&key, About::Checkpoint, seq, Hash::genesis("x"), time);
            let text = seal.text().unwrap();
            assert_eq!(text.len(), SECTOR);
            assert_eq!(serde_json::from_slice::<Seal>(&text).unwrap(), seal);
        }
    }

    #[test]
    fn a_statement_that_was_touched_is_not_genuine() {
        let (key, _) = Key::generate().unwrap();
        let seal = Seal::sign(&key, About::Head, 3, Hash::genesis("x"), 1);
        assert!(seal.is_genuine());
        let changes: [fn(&mut Seal); 6] = [
            |seal| seal.seq = 2,
            |seal| seal.about = About::Checkpoint,
            |seal| seal.hash = Hash::genesis("y").to_string(),
            |seal| seal.time = 2,
            |seal| seal.gateway_id = "0123456789abcdef".to_owned(),
            |seal| seal.signature.clear(),
        ];
        for change in changes {
            let mut changed = seal.clone();
            change(&mut changed);
            assert!(!changed.is_genuine(), "{changed:?}");
        }
    }
}
