//! Records: the text that is hashed and stored, and the fields by which it is found.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// Maximum size of a member other than a body, such as a message or the name of an unknown
/// operation.
pub(super) const MAX_MEMBER_BYTES: usize = 64 * 1024;

/// The fields by which a record is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RecordSummary<'a> {
    pub(super) time: i64,
    pub(super) kind: RecordKind,
    /// Operation of a call, or room of a message.
    pub(super) operation: &'a str,
    /// Empty for an anonymous caller.
    pub(super) identity: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordKind {
    Enter,
    /// `enter` is the sequence number of the enter record.
    Exit {
        enter: u64,
        failed: bool,
    },
    /// A message that a room accepted.
    Message,
    /// A message that a room rejected.
    Rejection,
    Checkpoint,
}

/// A parsed record with the members used for search.
#[derive(Debug, Deserialize)]
pub(super) struct StoredRecord<'a> {
    pub(super) seq: u64,
    kind: StoredKind,
    pub(super) time: i64,
    #[serde(default)]
    enter: u64,
    #[serde(default)]
    outcome: StoredOutcome,
    #[serde(default, borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) room: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) identity: Cow<'a, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredKind {
    Enter,
    Exit,
    Message,
    Rejection,
    Checkpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredOutcome {
    #[default]
    Ok,
    Error,
    Completed,
    Canceled,
}

impl<'a> StoredRecord<'a> {
    pub(super) fn parse(content: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(content).ok()
    }

    pub(super) fn summary(&self) -> RecordSummary<'_> {
        let what = match self.kind {
            StoredKind::Enter => RecordKind::Enter,
            StoredKind::Exit => {
                RecordKind::Exit { enter: self.enter, failed: self.outcome == StoredOutcome::Error }
            }
            StoredKind::Message => RecordKind::Message,
            StoredKind::Rejection => RecordKind::Rejection,
            StoredKind::Checkpoint => RecordKind::Checkpoint,
        };
        let operation = match self.kind {
            StoredKind::Message | StoredKind::Rejection => &self.room,
            _ => &self.operation,
        };
        RecordSummary { time: self.time, kind: what, operation, identity: &self.identity }
    }
}

/// Reads the summary of a record in the usual layout. Returns `None` for any other layout, which
/// [`StoredRecord::parse`] can read. Reads no further than necessary, because verification reads
/// every record.
pub(super) fn fast_summary(content: &[u8]) -> Option<RecordSummary<'_>> {
    let mut parser = FastParser(content);
    parser.skip(b"{\"seq\":")?;
    parser.number()?;
    match parser.string_member(b",\"kind\":\"")? {
        "enter" => parser.enter(),
        "exit" => parser.exit(),
        "message" => parser.room_record(RecordKind::Message),
        "rejection" => parser.room_record(RecordKind::Rejection),
        _ => None,
    }
}

/// The unread rest of a record.
struct FastParser<'a>(&'a [u8]);

impl<'a> FastParser<'a> {
    fn enter(&mut self) -> Option<RecordSummary<'a>> {
        let time = self.time()?;
        self.string_member(b",\"id\":\"")?;
        let _ = self.string_member(b",\"parent\":\"");
        self.string_member(b",\"endpoint\":\"")?;
        let operation = self.string_member(b",\"operation\":\"")?;
        let identity = self.identity()?;
        Some(RecordSummary { time, kind: RecordKind::Enter, operation, identity })
    }

    fn exit(&mut self) -> Option<RecordSummary<'a>> {
        let time = self.time()?;
        self.skip(b",\"enter\":")?;
        let enter = self.number()?;
        self.string_member(b",\"id\":\"")?;
        let operation = self.string_member(b",\"operation\":\"")?;
        let identity = self.identity()?;
        self.skip(b",\"tookUs\":")?;
        self.number()?;
        let failed = self.string_member(b",\"outcome\":\"")? == "error";
        Some(RecordSummary { time, kind: RecordKind::Exit { enter, failed }, operation, identity })
    }

    fn room_record(&mut self, record_kind: RecordKind) -> Option<RecordSummary<'a>> {
        let time = self.time()?;
        let _ = self.string_member(b",\"id\":\"");
        let operation = self.string_member(b",\"room\":\"")?;
        let identity = self.string_member(b",\"identity\":\"")?;
        Some(RecordSummary { time, kind: record_kind, operation, identity })
    }

    /// Returns the identity, empty if absent. `None` if it needs the full parser.
    fn identity(&mut self) -> Option<&'a str> {
        match self.0.starts_with(b",\"identity") {
            true => self.string_member(b",\"identity\":\""),
            false => Some(""),
        }
    }

    fn time(&mut self) -> Option<i64> {
        self.skip(b",\"time\":")?;
        self.number().and_then(|time| i64::try_from(time).ok())
    }

    fn skip(&mut self, text: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(text)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// Reads a string without escape sequences.
    fn string_member(&mut self, name: &[u8]) -> Option<&'a str> {
        let rest = self.0.strip_prefix(name)?;
        let end = memchr::memchr2(b'"', b'\\', rest).filter(|&end| rest[end] == b'"')?;
        self.0 = &rest[end + 1..];
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// Writes the members of a record, except its number, which the writer thread adds in front.
pub(super) struct RecordWriter<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> RecordWriter<'a> {
    pub(super) fn start(out: &'a mut Vec<u8>, kind: &str, time: i64) -> Self {
        out.clear();
        out.extend_from_slice(b"\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"time\":");
        let mut members = Self { out };
        members.write_value(&time);
        members
    }

    /// Adds a member. A value above the size limit is replaced by its digest, under the name with
    /// the suffix `Cut`.
    pub(super) fn add(&mut self, name: &str, value: &(impl serde::Serialize + ?Sized)) {
        let before = self.out.len();
        self.write_name(name);
        let start = self.out.len();
        self.write_value(value);
        if self.out.len() - start > MAX_MEMBER_BYTES {
            let cut = BodyDigest::of(&self.out[start..]);
            self.out.truncate(before);
            self.write_name(&format!("{name}Cut"));
            self.write_value(&cut);
        }
    }

    /// Adds a body. A body larger than `limit` is replaced by its digest, under the other name.
    pub(super) fn add_body(
        &mut self,
        names: BodyMember,
        limit: usize,
        value: &impl serde::Serialize,
    ) {
        let before = self.out.len();
        self.write_name(names.full);
        let start = self.out.len();
        self.write_value(value);
        let body = &mut self.out[start..];
        if body.len() > limit {
            let cut = BodyDigest::of(body);
            self.out.truncate(before);
            self.add(names.truncated, &cut);
            return;
        }
        replace_line_breaks(body);
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

/// Member names of a body: in full, and replaced by its digest.
#[derive(Clone, Copy)]
pub(super) struct BodyMember {
    full: &'static str,
    truncated: &'static str,
}

pub(super) const INPUT: BodyMember = BodyMember { full: "input", truncated: "inputCut" };
pub(super) const OUTPUT: BodyMember = BodyMember { full: "output", truncated: "outputCut" };
pub(super) const DETAILS: BodyMember = BodyMember { full: "details", truncated: "detailsCut" };

/// Digest that replaces a body that is too large.
#[derive(serde::Serialize)]
struct BodyDigest {
    sha256: String,
    bytes: usize,
}

impl BodyDigest {
    fn of(body: &[u8]) -> Self {
        use sha2::Digest as _;
        let sha256 = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(body));
        Self { sha256, bytes: body.len() }
    }
}

/// Prefix of the gateway's tokens.
pub(super) const TOKEN_PREFIX: &[u8] = b"tpt_";
const TOKEN_SECRET_CHARS: usize = 43;

/// Masks gateway tokens anywhere in a record, regardless of the schema.
fn mask_tokens(record: &mut [u8]) {
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
        let mut members = RecordWriter::start(&mut out, "enter", 5);
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
            members.add_body(INPUT, 100, &pretty);
        });
        let stored = StoredRecord::parse(text.as_bytes()).unwrap();
        let summary = RecordSummary {
            time: 5,
            kind: RecordKind::Enter,
            operation: "demo.\"add",
            identity: "ada",
        };
        assert_eq!((stored.seq, stored.summary()), (1, summary));
        assert_eq!(fast_summary(text.as_bytes()), None, "it is written otherwise");
        assert!(text.ends_with("\"input\":{  \"a\":  1}}"), "{text}");
    }

    #[test]
    fn fast_summary_matches_json_parser() {
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
            (r#"{"seq":3,"kind":"checkpoint","time":7"#, "}", false),
        ] {
            let text = format!("{begin}{rest}");
            let quick = fast_summary(text.as_bytes());
            assert_eq!(quick.is_some(), is_quick, "{text}");
            let stored = StoredRecord::parse(text.as_bytes()).unwrap();
            assert!(quick.is_none_or(|quick| quick == stored.summary()), "{text}");
        }
    }

    #[test]
    fn record_body_over_limit_becomes_digest() {
        for (length, is_stored) in [(8, true), (9, false)] {
            let text = write_record(|members| members.add_body(INPUT, 10, &"x".repeat(length)));
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
