//! Records: the text that is hashed and stored, and the fields by which it is found.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::Digest as _;

/// Maximum size of a member other than a body, such as a message or the name of an unknown
/// operation.
pub(super) const MAX_MEMBER_BYTES: usize = 64 * 1024;

/// The fields by which a record is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSummary<'a> {
    pub(super) time: i64,
    pub(super) kind: RecordKind,
    /// Operation of a call, or room of a message.
    pub(super) name: &'a str,
    /// Empty for an anonymous caller.
    pub(super) identity: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum RecordKind {
    Enter,
    /// `enter` is the sequence number of the enter record.
    Exit {
        enter: u64,
        failed: bool,
    },
    Message,
    Rejection,
    Checkpoint,
    /// Signs the records before it.
    Signature,
    /// Signs the records before it, after which the journal was closed.
    Close,
}

impl RecordKind {
    fn as_str(self) -> &'static str {
        self.into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(super) enum CallOutcome {
    Ok,
    Error,
    /// The subscription completed.
    Completed,
    /// The caller ended the subscription.
    Canceled,
    /// The process ended before the call. Never recorded; derived from the missing exit record.
    Interrupted,
}

impl CallOutcome {
    pub(super) fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A parsed record with the members used for search.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredRecord<'a> {
    pub(super) seq: u64,
    pub(super) time: i64,
    pub(super) kind: RecordKind,
    pub(super) id: Cow<'a, str>,
    /// Operation of a call, or room of a message.
    pub(super) name: Cow<'a, str>,
    pub(super) identity: Cow<'a, str>,
}

impl<'a> StoredRecord<'a> {
    /// Parses a record. Most records need no JSON parser.
    pub(super) fn parse(content: &'a [u8]) -> Option<Self> {
        HeaderMembers::scan(content)
            .or_else(|| serde_json::from_slice(content).ok())
            .and_then(HeaderMembers::into_record)
    }

    pub(super) fn summary(&self) -> RecordSummary<'_> {
        let Self { time, kind, name, identity, .. } = self;
        RecordSummary { time: *time, kind: *kind, name, identity }
    }
}

/// The members that are written before the bodies.
#[derive(Default, Deserialize)]
struct HeaderMembers<'a> {
    seq: u64,
    kind: &'a [u8],
    time: i64,
    #[serde(default)]
    enter: u64,
    #[serde(default)]
    outcome: &'a [u8],
    #[serde(default, borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow, rename = "operation", alias = "room")]
    name: Cow<'a, str>,
    #[serde(default, borrow)]
    identity: Cow<'a, str>,
}

impl<'a> HeaderMembers<'a> {
    /// Reads the members up to the first body, because verification reads every record. Returns
    /// `None` if one of them needs a JSON parser.
    fn scan(content: &'a [u8]) -> Option<Self> {
        let mut members = Self::default();
        let mut scanner = Scanner(content.strip_prefix(b"{")?);
        loop {
            match scanner.name()? {
                b"seq" => members.seq = scanner.number()?,
                b"kind" => members.kind = scanner.string()?,
                b"time" => members.time = scanner.number()?.try_into().ok()?,
                b"enter" => members.enter = scanner.number()?,
                b"id" => members.id = scanner.text()?,
                b"operation" | b"room" => members.name = scanner.text()?,
                b"identity" => members.identity = scanner.text()?,
                b"outcome" => members.outcome = scanner.string()?,
                b"tookUs" => _ = scanner.number()?,
                b"parent" | b"endpoint" => _ = scanner.string()?,
                b"approval" => return None,
                // Digests of long members are followed by other members.
                body => return (!body.ends_with(b"Cut")).then_some(members),
            }
            match scanner.0 {
                b"}" => return Some(members),
                rest => scanner.0 = rest.strip_prefix(b",")?,
            }
        }
    }

    fn into_record(self) -> Option<StoredRecord<'a>> {
        let failed = self.outcome == CallOutcome::Error.as_str().as_bytes();
        let exit = RecordKind::Exit { enter: self.enter, failed };
        let kinds = [
            RecordKind::Enter,
            exit,
            RecordKind::Message,
            RecordKind::Rejection,
            RecordKind::Checkpoint,
            RecordKind::Signature,
            RecordKind::Close,
        ];
        let kind = kinds.into_iter().find(|kind| kind.as_str().as_bytes() == self.kind)?;
        let Self { seq, time, id, name, identity, .. } = self;
        Some(StoredRecord { seq, time, kind, id, name, identity })
    }
}

/// The unread rest of a record.
pub(super) struct Scanner<'a>(pub(super) &'a [u8]);

impl<'a> Scanner<'a> {
    /// Reads the name of a member and the colon. Names are short, so no vector search is used.
    fn name(&mut self) -> Option<&'a [u8]> {
        let text = self.0.strip_prefix(b"\"")?;
        let end = text.iter().position(|&byte| byte == b'"')?;
        self.0 = text[end + 1..].strip_prefix(b":")?;
        Some(&text[..end])
    }

    /// Reads a number without a sign.
    pub(super) fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().position(|byte| !byte.is_ascii_digit()).filter(|&at| at > 0)?;
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        let add = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        number.iter().try_fold(0, add)
    }

    /// Reads a string without escape sequences.
    fn string(&mut self) -> Option<&'a [u8]> {
        let text = self.0.strip_prefix(b"\"")?;
        let end = memchr::memchr2(b'"', b'\\', text).filter(|&end| text[end] == b'"')?;
        self.0 = &text[end + 1..];
        Some(&text[..end])
    }

    fn text(&mut self) -> Option<Cow<'a, str>> {
        std::str::from_utf8(self.string()?).ok().map(Cow::Borrowed)
    }
}

/// Writes the members of a record, except its number, which the writer thread adds in front.
pub(super) struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> RecordWriter<'a> {
    pub(super) fn start(out: &'a mut Vec<u8>, summary: &RecordSummary<'_>) -> Self {
        out.clear();
        out.extend_from_slice(b"\"kind\":");
        let mut members = Self { out };
        members.write_value(summary.kind.as_str());
        members.add("time", &summary.time);
        members
    }

    /// Adds a member. A value above the size limit is replaced by its digest, under the name with
    /// the suffix `Cut`.
    pub(super) fn add(&mut self, name: &str, value: &(impl serde::Serialize + ?Sized)) {
        self.add_body(name, MAX_MEMBER_BYTES, value);
    }

    pub(super) fn add_some(
        &mut self,
        name: &str,
        value: Option<&(impl serde::Serialize + ?Sized)>,
    ) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    pub(super) fn add_body(
        &mut self,
        name: &str,
        limit: usize,
        value: &(impl serde::Serialize + ?Sized),
    ) {
        let before = self.out.len();
        self.write_name(name);
        let start = self.out.len();
        self.write_value(value);
        let body = &mut self.out[start..];
        if body.len() <= limit {
            return replace_line_breaks(body);
        }
        let sha256 = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(&*body));
        let digest = serde_json::json!({"sha256": sha256, "bytes": body.len()});
        self.out.truncate(before);
        self.write_name(&format!("{name}Cut"));
        self.write_value(&digest);
    }

    /// Adds a member that is already JSON, of any length. Invalid JSON is added as a string, so
    /// that the record can always be parsed.
    pub(super) fn add_json(&mut self, name: &str, text: &str) {
        self.write_name(name);
        let start = self.out.len();
        match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => self.out.extend_from_slice(text.trim().as_bytes()),
            Err(_) => self.write_value(text),
        }
        replace_line_breaks(&mut self.out[start..]);
    }

    pub(super) fn finish(self) {
        self.out.push(b'}');
        mask_tokens(self.out);
    }

    fn write_name(&mut self, name: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn write_value(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        let start = self.out.len();
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            self.out.truncate(start);
            self.out.extend_from_slice(b"null");
        }
    }
}

/// Replaces line breaks between JSON tokens with spaces, because a record is one line.
fn replace_line_breaks(body: &mut [u8]) {
    for byte in body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

pub(super) const TOKEN_PREFIX: &[u8] = b"tpt_";
const TOKEN_SECRET_CHARS: usize = 43;

/// Masks gateway tokens anywhere in a record, regardless of the schema.
pub(crate) fn mask_tokens(record: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&record[from..], TOKEN_PREFIX) {
        let start = from + at + TOKEN_PREFIX.len();
        let rest = record.get_mut(start..start + TOKEN_SECRET_CHARS);
        from = start;
        if let Some(rest) = rest
            && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            rest.fill(b'*');
            from += TOKEN_SECRET_CHARS;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolpost::Payload;

    use super::*;

    fn write_record(write: impl FnOnce(&mut RecordWriter<'_>)) -> String {
        let mut out = Vec::new();
        let summary = RecordSummary { time: 5, kind: RecordKind::Enter, name: "", identity: "" };
        let mut members = RecordWriter::start(&mut out, &summary);
        write(&mut members);
        members.finish();
        format!("{{\"seq\":1,{}", String::from_utf8(out).unwrap())
    }

    #[test]
    fn record_round_trips() {
        let text = write_record(|members| {
            members.add("operation", "demo.\"add");
            members.add("identity", "ada");
            let pretty = Payload::from_json("{\n \"a\":\r\n1}".to_owned()).unwrap();
            members.add_body("input", 100, &pretty);
        });
        let stored = StoredRecord::parse(text.as_bytes()).unwrap();
        let summary =
            RecordSummary { time: 5, kind: RecordKind::Enter, name: "demo.\"add", identity: "ada" };
        assert_eq!((stored.seq, stored.summary()), (1, summary));
        assert!(HeaderMembers::scan(text.as_bytes()).is_none(), "it is written otherwise");
        assert!(text.ends_with("\"input\":{  \"a\":  1}}"), "{text}");
    }

    #[test]
    fn header_scan_matches_json_parser() {
        let enter = r#"{"seq":1,"kind":"enter","time":5,"id":"x","#;
        let exit = r#"{"seq":2,"kind":"exit","time":6,"enter":1,"id":"x","operation":"a.b","#;
        let message = r#"{"seq":3,"kind":"message","time":7,"#;
        let rejection = r#"{"seq":4,"kind":"rejection","time":8,"#;
        for (begin, rest, is_quick) in [
            (enter, r#""endpoint":"http","operation":"a.b","identity":"ada","input":{}}"#, true),
            (enter, r#""parent":"y","endpoint":"http","operation":"a.b","via":"z"}"#, true),
            (enter, r#""endpoint":"http","operation":"a.\"b","identity":"ada"}"#, false),
            (enter, r#""endpoint":"http","operation":"a.b","identity":"a\\"}"#, false),
            (enter, r#""endpoint":"http","operation":"a.b","identityCut":{"bytes":1}}"#, false),
            (enter, r#""endpoint":"http","operationCut":{"bytes":1},"identity":"ada"}"#, false),
            (exit, r#""identity":"ada","tookUs":7,"outcome":"ok","output":{}}"#, true),
            (exit, r#""tookUs":7,"outcome":"error","code":"X"}"#, true),
            (exit, r#""tookUs":7,"approval":{"id":"i","by":"b"},"outcome":"ok"}"#, false),
            (
                message,
                r#""id":"m","room":"lobby","identity":"ada","allowedBy":"*","message":{}}"#,
                true,
            ),
            (message, r#""id":"m\n","room":"lobby","identity":"ada","message":{}}"#, false),
            (
                message,
                r#""id":"m","room":"lob\"by","identity":"ada","message":{"identity":"eve"}}"#,
                false,
            ),
            (message, r#""id":"m","room":"lobby","identityCut":{"bytes":1},"message":{}}"#, false),
            (
                rejection,
                r#""id":"m","room":"lobby","identity":"ada","error":"x","reason":"y"}"#,
                true,
            ),
            (rejection, r#""room":"lobby","identity":"ada","error":"x","reason":"y"}"#, true),
            (r#"{"seq":3,"kind":"checkpoint","time":7"#, "}", true),
            (r#"{"seq":3,"kind":"checkpoint","time":7,"#, r#""removedThrough":2}"#, true),
            (r#"{"seq":3,"kind":"signature","time":7,"#, r#""signature":"00"}"#, true),
            (r#"{"seq":3,"kind":"close","time":7,"#, r#""signature":"00"}"#, true),
        ] {
            let text = format!("{begin}{rest}");
            let scanned = HeaderMembers::scan(text.as_bytes());
            assert_eq!(scanned.is_some(), is_quick, "{text}");
            let parsed: HeaderMembers<'_> = serde_json::from_str(&text).unwrap();
            let parsed = parsed.into_record().unwrap();
            assert!(
                scanned.is_none_or(|scanned| scanned.into_record().unwrap() == parsed),
                "{text}"
            );
        }
    }

    #[test]
    fn record_body_over_limit_becomes_digest() {
        for (length, is_stored) in [(8, true), (9, false)] {
            let text = write_record(|members| members.add_body("input", 10, &"x".repeat(length)));
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.get("input").is_some(), is_stored);
            let cut = value.get("inputCut").map(|cut| cut["bytes"].clone());
            assert_eq!(cut, (!is_stored).then(|| json!(11)));
        }
    }

    #[test]
    fn raw_json_member_is_written_on_one_line() {
        let long = format!("\"{}\"", "x".repeat(2 * MAX_MEMBER_BYTES));
        for (given, expected) in [
            ("{\n \"a\":\r\n1e999}\n", "{  \"a\":  1e999}"),
            (r#""\ud800""#, r#""\ud800""#),
            ("{\"a\":", r#""{\"a\":""#),
            ("1,\"seq\":2", r#""1,\"seq\":2""#),
            (&long, &long),
        ] {
            let text = write_record(|members| members.add_json("message", given));
            assert!(text.ends_with(&format!("\"message\":{expected}}}")), "{text}");
            assert!(StoredRecord::parse(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn oversized_member_becomes_digest() {
        for (length, name) in
            [(MAX_MEMBER_BYTES - 2, "message"), (MAX_MEMBER_BYTES - 1, "messageCut")]
        {
            let text = write_record(|members| members.add("message", &"x".repeat(length)));
            let value: Value = serde_json::from_str(&text).unwrap();
            let names: Vec<&String> = value.as_object().unwrap().keys().collect();
            assert_eq!(names, ["seq", "kind", "time", name]);
        }
    }

    #[test]
    fn record_masks_gateway_tokens_anywhere() {
        let rest = "aB3-_".repeat(9);
        for (text, expected) in [
            (format!("tpt_{}", &rest[..43]), format!("tpt_{}", "*".repeat(43))),
            (format!("x tpt_{}y", &rest[..43]), format!("x tpt_{}y", "*".repeat(43))),
            (format!("tpt_{}", &rest[..42]), format!("tpt_{}", &rest[..42])),
            (
                format!("tpt_tpt_{}", &rest[..43]),
                format!("tpt_{}{}", "*".repeat(43), &rest[39..43]),
            ),
            (
                "tpt_ is how they begin, and then something else comes along".to_owned(),
                String::new(),
            ),
        ] {
            let mut hidden = text.clone().into_bytes();
            mask_tokens(&mut hidden);
            let expected = if expected.is_empty() { text } else { expected };
            assert_eq!(String::from_utf8(hidden).unwrap(), expected);
        }
    }
}
