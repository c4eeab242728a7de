//! The hash chain: each hash covers the content of its record and the previous hash.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::record::Scanner;

/// Length of the prefix of a line: the hash and a space.
pub(super) const LINE_PREFIX_LEN: usize = 65;

/// Hash of a record, which covers the chain up to that record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Hash([u8; 32]);

impl Hash {
    /// Hash that the first record follows. It depends on the gateway id, so that a chain cannot be
    /// passed off as another gateway's.
    pub(super) fn genesis(gateway_id: &str) -> Self {
        Self(Sha256::digest(format!("toolpost journal {gateway_id}").as_bytes()).into())
    }

    /// Returns the hash of the next record, which has this content.
    pub(super) fn next(self, content: &[u8]) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.0);
        digest.update(content);
        Self(digest.finalize().into())
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let mut hash = [0; 32];
        HEXLOWER.decode_mut(<&[u8; 64]>::try_from(text).ok()?, &mut hash).ok()?;
        Some(Self(hash))
    }

    /// Writes the line of a record: hash, space, content, line feed.
    pub(super) fn write_line(self, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + LINE_PREFIX_LEN - 1, 0);
        HEXLOWER.encode_mut(&self.0, &mut out[start..]);
        out.push(b' ');
        out.extend_from_slice(content);
        out.push(b'\n');
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// A stored line, without its line feed.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLine<'a> {
    pub(super) hash: Hash,
    pub(super) seq: u64,
    pub(super) content: &'a [u8],
}

impl<'a> RecordLine<'a> {
    /// Parses a line. Returns `None` if it is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let (hash, content) = line.split_at_checked(LINE_PREFIX_LEN)?;
        let (hash, space) = hash.split_at(LINE_PREFIX_LEN - 1);
        // Every record starts with its sequence number.
        let mut scanner = Scanner(content.strip_prefix(b"{\"seq\":").filter(|_| space == b" ")?);
        Some(Self { hash: Hash::parse(hash)?, seq: scanner.number()?, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_line_round_trips() {
        let content = br#"{"seq":7,"kind":"enter"}"#;
        let hash = Hash::genesis("a").next(content);
        let mut out = Vec::new();
        hash.write_line(content, &mut out);
        let line = RecordLine::parse(out.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((line.hash, line.seq, line.content), (hash, 7, &content[..]));
    }

    #[test]
    fn record_line_parse_rejects_malformed_input() {
        let hash = Hash::genesis("a").to_string();
        for (line, is_one) in [
            (format!("{hash} {{\"seq\":1,"), true),
            (format!("{hash}_{{\"seq\":1,"), false),
            (format!("{hash} {{\"seq\":,"), false),
            (format!("{hash} {{\"seq\":1"), false),
            (format!("{hash} "), false),
            (format!("X{} {{\"seq\":1,", &hash[1..]), false),
            (hash, false),
            (String::new(), false),
        ] {
            assert_eq!(RecordLine::parse(line.as_bytes()).is_some(), is_one, "{line}");
        }
    }

    #[test]
    fn hash_covers_all_previous_records() {
        let (a, b) = (Hash::genesis("a"), Hash::genesis("b"));
        assert_ne!(a.next(b"x"), b.next(b"x"));
        assert_ne!(a.next(b"x"), a.next(b"y"));
        assert_eq!(a.next(b"x").next(b"y"), a.next(b"x").next(b"y"));
    }
}
