//! The hash chain: each hash covers the content of its record and the previous hash. Each record also
//! has an authentication code of its hash, which only the gateway can compute.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::head::PositionKind;
use super::record::Scanner;

/// Length of the prefix of a line: hash, space, authentication code, space.
pub(super) const LINE_PREFIX_LEN: usize = HASH_TEXT_LEN + 1 + MAC_TEXT_LEN + 1;
const HASH_TEXT_LEN: usize = 64;
const MAC_TEXT_LEN: usize = 32;
/// Start of every record, followed by its sequence number.
const CONTENT_START: &[u8] = b"{\"seq\":";

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
        HEXLOWER.decode_mut(<&[u8; HASH_TEXT_LEN]>::try_from(text).ok()?, &mut hash).ok()?;
        Some(Self(hash))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the line of a record: hash, authentication code, content.
    pub(super) fn write_line(self, mac: Mac, content: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + LINE_PREFIX_LEN, b' ');
        let (hash_text, mac_text) = out[start..].split_at_mut(HASH_TEXT_LEN + 1);
        HEXLOWER.encode_mut(&self.0, &mut hash_text[..HASH_TEXT_LEN]);
        HEXLOWER.encode_mut(&mac.0, &mut mac_text[..MAC_TEXT_LEN]);
        out.extend_from_slice(content);
        out.push(b'\n');
    }
}

/// Authentication code of a hash, and so of the chain up to that record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mac([u8; MAC_TEXT_LEN / 2]);

impl Mac {
    /// Truncates an HMAC tag.
    pub(super) fn from_tag(tag: &[u8; 32]) -> Self {
        let (mac, _) = tag.split_at(MAC_TEXT_LEN / 2);
        Self(mac.try_into().expect("the length of the prefix is constant"))
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut mac = [0; MAC_TEXT_LEN / 2];
        HEXLOWER.decode_mut(<&[u8; MAC_TEXT_LEN]>::try_from(text).ok()?, &mut mac).ok()?;
        Some(Self(mac))
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
    pub(super) mac: Mac,
    pub(super) seq: u64,
    pub(super) content: &'a [u8],
}

impl<'a> RecordLine<'a> {
    /// Parses a line. Returns `None` if it is not a record.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let (prefix, content) = line.split_at_checked(LINE_PREFIX_LEN)?;
        let (hash, mac) = prefix.split_at(HASH_TEXT_LEN + 1);
        let hash = Hash::parse(hash.strip_suffix(b" ")?)?;
        let mac = Mac::parse(mac.strip_suffix(b" ")?)?;
        let seq = Scanner(content.strip_prefix(CONTENT_START)?).number()?;
        Some(Self { hash, mac, seq, content })
    }

    /// Returns what the record signs, if it is a signature.
    pub(super) fn signs(&self) -> Option<PositionKind> {
        const KINDS: [(&[u8], PositionKind); 2] = [
            (b",\"kind\":\"signature\",", PositionKind::Group),
            (b",\"kind\":\"close\",", PositionKind::Close),
        ];
        let after_seq = &self.content[memchr::memchr(b',', self.content)?..];
        KINDS.iter().find(|(kind, _)| after_seq.starts_with(kind)).map(|(_, about)| *about)
    }

    /// Whether a line is a record of a version without authentication codes.
    pub(super) fn is_old_format(line: &[u8]) -> bool {
        line.split_at_checked(HASH_TEXT_LEN).is_some_and(|(hash, rest)| {
            let content = rest.strip_prefix(b" ");
            Hash::parse(hash).is_some() && content.is_some_and(|it| it.starts_with(CONTENT_START))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_line_round_trips() {
        for (content, signs) in [
            (r#"{"seq":7,"kind":"enter","time":1}"#, None),
            (r#"{"seq":7,"kind":"signature","time":1}"#, Some(PositionKind::Group)),
            (r#"{"seq":7,"kind":"close","time":1}"#, Some(PositionKind::Close)),
            (r#"{"seq":7,"kind":"closed","time":1}"#, None),
            (r#"{"seq":7,"x":0,"kind":"close","time":1}"#, None),
        ] {
            let hash = Hash::genesis("a").next(content.as_bytes());
            let mac = Mac::from_tag(&[7; 32]);
            let mut out = Vec::new();
            hash.write_line(mac, content.as_bytes(), &mut out);
            let line = RecordLine::parse(out.strip_suffix(b"\n").unwrap()).unwrap();
            assert_eq!((line.hash, line.mac, line.seq), (hash, mac, 7));
            assert_eq!((line.content, line.signs()), (content.as_bytes(), signs));
        }
    }

    #[test]
    fn record_line_parse_rejects_malformed_input() {
        let hash = Hash::genesis("a").to_string();
        let mac = &hash[..MAC_TEXT_LEN];
        for (line, is_one, is_old_format) in [
            (format!("{hash} {mac} {{\"seq\":1,"), true, false),
            (format!("{hash}_{mac} {{\"seq\":1,"), false, false),
            (format!("{hash} {mac}_{{\"seq\":1,"), false, false),
            (format!("{hash} {mac} {{\"seq\":,"), false, false),
            (format!("{hash} {mac} {{\"seq\":1"), false, false),
            (format!("{hash} {mac} "), false, false),
            (format!("X{} {mac} {{\"seq\":1,", &hash[1..]), false, false),
            (format!("{hash} X{} {{\"seq\":1,", &mac[1..]), false, false),
            (format!("{hash} {{\"seq\":1,"), false, true),
            (format!("X{} {{\"seq\":1,", &hash[1..]), false, false),
            (hash, false, false),
            (String::new(), false, false),
        ] {
            assert_eq!(RecordLine::parse(line.as_bytes()).is_some(), is_one, "{line}");
            assert_eq!(RecordLine::is_old_format(line.as_bytes()), is_old_format, "{line}");
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
