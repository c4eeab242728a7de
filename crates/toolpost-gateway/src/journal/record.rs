//! Records: the text that is hashed, stored and read again, and the facts that it is found by.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// How many bytes a member that is no body may have, such as a message or the name of an operation
/// that is not there.
pub(super) const MOST_MEMBER: usize = 64 * 1024;

/// What a record is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts<'a> {
    pub(super) time: i64,
    pub(super) what: What,
    /// The operation of a call, or the room of a message.
    pub(super) operation: &'a str,
    /// Empty where nobody in particular called.
    pub(super) who: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Enter,
    /// With the number of its enter record.
    Exit {
        enter: u64,
        failed: bool,
    },
    /// A message that a room handed on.
    Message,
    /// A message that a room did not hand on.
    Refusal,
    Checkpoint,
}

/// A record as it is read: what it is found by, and the rest as text.
#[derive(Debug, Deserialize)]
pub(super) struct Stored<'a> {
    pub(super) seq: u64,
    kind: Kind,
    pub(super) time: i64,
    #[serde(default)]
    enter: u64,
    #[serde(default)]
    outcome: Outcome,
    #[serde(default, borrow)]
    pub(super) id: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) room: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(super) who: Cow<'a, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Enter,
    Exit,
    Message,
    Refusal,
    Checkpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    #[default]
    Ok,
    Error,
    Completed,
    Left,
}

impl<'a> Stored<'a> {
    pub(super) fn parse(content: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(content).ok()
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        let what = match self.kind {
            Kind::Enter => What::Enter,
            Kind::Exit => What::Exit { enter: self.enter, failed: self.outcome == Outcome::Error },
            Kind::Message => What::Message,
            Kind::Refusal => What::Refusal,
            Kind::Checkpoint => What::Checkpoint,
        };
        let operation = match self.kind {
            Kind::Message | Kind::Refusal => &self.room,
            _ => &self.operation,
        };
        Facts { time: self.time, what, operation, who: &self.who }
    }
}

/// The facts of a record that is written as most of them are; others are for [`Stored::parse`]. It reads no further than it has to, because a verification reads every record.
pub(super) fn quick_facts(content: &[u8]) -> Option<Facts<'_>> {
    let mut left = Left(content);
    left.skip(b"{\"seq\":")?;
    left.number()?;
    match left.member(b",\"kind\":\"")? {
        "enter" => left.enter(),
        "exit" => left.exit(),
        "message" => left.of_room(What::Message),
        "refusal" => left.of_room(What::Refusal),
        _ => None,
    }
}

/// What is left of a record to be read.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn enter(&mut self) -> Option<Facts<'a>> {
        let time = self.time()?;
        self.member(b",\"id\":\"")?;
        let _ = self.member(b",\"parent\":\"");
        self.member(b",\"door\":\"")?;
        let operation = self.member(b",\"operation\":\"")?;
        let who = self.who()?;
        Some(Facts { time, what: What::Enter, operation, who })
    }

    fn exit(&mut self) -> Option<Facts<'a>> {
        let time = self.time()?;
        self.skip(b",\"enter\":")?;
        let enter = self.number()?;
        self.member(b",\"id\":\"")?;
        let operation = self.member(b",\"operation\":\"")?;
        let who = self.who()?;
        self.skip(b",\"tookUs\":")?;
        self.number()?;
        let failed = self.member(b",\"outcome\":\"")? == "error";
        Some(Facts { time, what: What::Exit { enter, failed }, operation, who })
    }

    fn of_room(&mut self, what: What) -> Option<Facts<'a>> {
        let time = self.time()?;
        let _ = self.member(b",\"id\":\"");
        let operation = self.member(b",\"room\":\"")?;
        let who = self.member(b",\"who\":\"")?;
        Some(Facts { time, what, operation, who })
    }

    /// Nobody in particular where there is none, unless it is one that has to be read otherwise.
    fn who(&mut self) -> Option<&'a str> {
        match self.0.starts_with(b",\"who") {
            true => self.member(b",\"who\":\""),
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
        let (number, left) = self.0.split_at(digits);
        self.0 = left;
        std::str::from_utf8(number).ok()?.parse().ok()
    }

    /// A text without anything that is written otherwise than it is.
    fn member(&mut self, name: &[u8]) -> Option<&'a str> {
        let rest = self.0.strip_prefix(name)?;
        let end = memchr::memchr2(b'"', b'\\', rest).filter(|&end| rest[end] == b'"')?;
        self.0 = &rest[end + 1..];
        std::str::from_utf8(&rest[..end]).ok()
    }
}

/// Writes the members of one record, all but its number, which whoever stores it puts in front.
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Members<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: &str, time: i64) -> Self {
        out.clear();
        out.extend_from_slice(b"\"kind\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"time\":");
        let mut members = Self { out };
        members.write(&time);
        members
    }

    /// A member that is short, unless somebody made it long: then it is told as a body would be.
    pub(super) fn add(&mut self, name: &str, value: &(impl serde::Serialize + ?Sized)) {
        let before = self.out.len();
        self.name(name);
        let start = self.out.len();
        self.write(value);
        if self.out.len() - start > MOST_MEMBER {
            let cut = Cut::of(&self.out[start..]);
            self.out.truncate(before);
            self.name(&format!("{name}Cut"));
            self.write(&cut);
        }
    }

    /// A member that may turn out to be too large: then what it is known by again, under another
    /// name. Says how it went.
    pub(super) fn add_body(
        &mut self,
        names: BodyNames,
        limit: usize,
        value: &impl serde::Serialize,
    ) {
        let before = self.out.len();
        self.name(names.whole);
        let start = self.out.len();
        self.write(value);
        let body = &mut self.out[start..];
        if body.len() > limit {
            let cut = Cut::of(body);
            self.out.truncate(before);
            self.add(names.cut, &cut);
            return;
        }
        flatten(body);
    }

    /// A member that is JSON already, of whatever length. What is no JSON is told as a text, so that a
    /// record can always be read.
    pub(super) fn add_json(&mut self, name: &str, text: &str) {
        self.name(name);
        let start = self.out.len();
        match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => self.out.extend_from_slice(text.trim().as_bytes()),
            Err(_) => self.write(text),
        }
        flatten(&mut self.out[start..]);
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
        hide_tokens(self.out);
    }

    fn name(&mut self, name: &str) {
        self.out.extend_from_slice(b",\"");
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn write(&mut self, value: &(impl serde::Serialize + ?Sized)) {
        let start = self.out.len();
        if serde_json::to_writer(&mut *self.out, value).is_err() {
            self.out.truncate(start);
            self.out.extend_from_slice(b"null");
        }
    }
}

/// The text of others may have line feeds between its tokens, and a record is one line.
fn flatten(body: &mut [u8]) {
    for byte in body.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
        *byte = b' ';
    }
}

/// What a body is called in a record, and what it is called when it was too large.
#[derive(Clone, Copy)]
pub(super) struct BodyNames {
    whole: &'static str,
    cut: &'static str,
}

pub(super) const INPUT: BodyNames = BodyNames { whole: "input", cut: "inputCut" };
pub(super) const OUTPUT: BodyNames = BodyNames { whole: "output", cut: "outputCut" };
pub(super) const DETAILS: BodyNames = BodyNames { whole: "details", cut: "detailsCut" };

/// What is left of a body that is too large.
#[derive(serde::Serialize)]
struct Cut {
    sha256: String,
    bytes: usize,
}

impl Cut {
    fn of(body: &[u8]) -> Self {
        use sha2::Digest as _;
        let sha256 = data_encoding::HEXLOWER.encode(&sha2::Sha256::digest(body));
        Self { sha256, bytes: body.len() }
    }
}

/// What stands before the secret part of a token of this gateway.
pub(super) const TOKEN: &[u8] = b"tpt_";
const TOKEN_REST: usize = 43;

/// A token of a gateway is a secret wherever it stands, whatever a schema says about the place.
fn hide_tokens(record: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memmem::find(&record[from..], TOKEN) {
        let start = from + at + TOKEN.len();
        let rest = record.get_mut(start..start + TOKEN_REST);
        from = start;
        if let Some(rest) = rest
            && rest.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        {
            rest.fill(b'*');
            from += TOKEN_REST;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use toolpost::Payload;

    use super::*;

    fn written(write: impl FnOnce(&mut Members<'_>)) -> String {
        let mut out = Vec::new();
        let mut members = Members::begin(&mut out, "enter", 5);
        write(&mut members);
        members.end();
        format!("{{\"seq\":1,{}", String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = written(|members| {
            members.add("operation", "demo.\"add");
            members.add("who", "ada");
            let pretty = Payload::from_json("{\n \"a\":\r\n1}".to_owned()).unwrap();
            members.add_body(INPUT, 100, &pretty);
        });
        let stored = Stored::parse(text.as_bytes()).unwrap();
        let facts = Facts { time: 5, what: What::Enter, operation: "demo.\"add", who: "ada" };
        assert_eq!((stored.seq, stored.facts()), (1, facts));
        assert_eq!(quick_facts(text.as_bytes()), None, "it is written otherwise");
        assert!(text.ends_with("\"input\":{  \"a\":  1}}"), "{text}");
    }

    #[test]
    fn what_is_read_quickly_is_what_a_reader_of_json_reads() {
        let enter = r#"{"seq":1,"kind":"enter","time":5,"id":"x","#;
        let exit = r#"{"seq":2,"kind":"exit","time":6,"enter":1,"id":"x","operation":"a.b","#;
        let message = r#"{"seq":3,"kind":"message","time":7,"#;
        let refusal = r#"{"seq":4,"kind":"refusal","time":8,"#;
        for (begin, rest, is_quick) in [
            (enter, r#""door":"http","operation":"a.b","who":"ada","input":{}}"#, true),
            (enter, r#""parent":"y","door":"http","operation":"a.b","via":"z"}"#, true),
            (enter, r#""door":"http","operation":"a.\"b","who":"ada"}"#, false),
            (enter, r#""door":"http","operation":"a.b","who":"a\\"}"#, false),
            (enter, r#""door":"http","operation":"a.b","whoCut":{"bytes":1}}"#, false),
            (enter, r#""door":"http","operationCut":{"bytes":1},"who":"ada"}"#, false),
            (exit, r#""who":"ada","tookUs":7,"outcome":"ok","output":{}}"#, true),
            (exit, r#""tookUs":7,"outcome":"error","code":"X"}"#, true),
            (exit, r#""tookUs":7,"approval":{"id":"i","by":"b"},"outcome":"ok"}"#, false),
            (message, r#""id":"m","room":"lobby","who":"ada","allowedBy":"*","message":{}}"#, true),
            (message, r#""id":"m\n","room":"lobby","who":"ada","message":{}}"#, false),
            (message, r#""id":"m","room":"lob\"by","who":"ada","message":{"who":"eve"}}"#, false),
            (message, r#""id":"m","room":"lobby","whoCut":{"bytes":1},"message":{}}"#, false),
            (refusal, r#""id":"m","room":"lobby","who":"ada","error":"x","reason":"y"}"#, true),
            (refusal, r#""room":"lobby","who":"ada","error":"x","reason":"y"}"#, true),
            (r#"{"seq":3,"kind":"checkpoint","time":7"#, "}", false),
        ] {
            let text = format!("{begin}{rest}");
            let quick = quick_facts(text.as_bytes());
            assert_eq!(quick.is_some(), is_quick, "{text}");
            let stored = Stored::parse(text.as_bytes()).unwrap();
            assert!(quick.is_none_or(|quick| quick == stored.facts()), "{text}");
        }
    }

    #[test]
    fn a_body_is_kept_to_its_limit_and_known_again_beyond_it() {
        for (length, is_kept) in [(8, true), (9, false)] {
            let text = written(|members| members.add_body(INPUT, 10, &"x".repeat(length)));
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value.get("input").is_some(), is_kept);
            let cut = value.get("inputCut").map(|cut| cut["bytes"].clone());
            assert_eq!(cut, (!is_kept).then(|| json!(11)));
        }
    }

    #[test]
    fn what_is_json_already_is_written_as_it_is_on_one_line() {
        let long = format!("\"{}\"", "x".repeat(2 * MOST_MEMBER));
        for (given, expected) in [
            ("{\n \"a\":\r\n1e999}\n", "{  \"a\":  1e999}"),
            (r#""\ud800""#, r#""\ud800""#),
            ("{\"a\":", r#""{\"a\":""#),
            ("1,\"seq\":2", r#""1,\"seq\":2""#),
            (&long, &long),
        ] {
            let text = written(|members| members.add_json("message", given));
            assert!(text.ends_with(&format!("\"message\":{expected}}}")), "{text}");
            assert!(Stored::parse(text.as_bytes()).is_some(), "{text}");
        }
    }

    #[test]
    fn no_member_is_long_whoever_made_it_so() {
        for (length, name) in [(MOST_MEMBER - 2, "message"), (MOST_MEMBER - 1, "messageCut")] {
            let text = written(|members| members.add("message", &"x".repeat(length)));
            let value: Value = serde_json::from_str(&text).unwrap();
            let names: Vec<&String> = value.as_object().unwrap().keys().collect();
            assert_eq!(names, ["seq", "kind", "time", name]);
        }
    }

    #[test]
    fn tokens_are_hidden_wherever_they_stand() {
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
            hide_tokens(&mut hidden);
            let expected = if expected.is_empty() { text } else { expected };
            assert_eq!(String::from_utf8(hidden).unwrap(), expected);
        }
    }
}
