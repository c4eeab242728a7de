//! The members of a result, and their bytes.

use std::borrow::Cow;
use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use super::{ERROR_META, REPAIRS_META, WARNINGS_META};
use crate::envelope::{ContentBlock, Meta};
use crate::mcp::SOURCE_MEMBER;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Repair};
use crate::view::settings::Era;

/// Where a `_meta` that is no object goes, since clients take nothing else.
const ODD_META: &str = "toolpost/meta";

/// A result before it is written. Texts are lists of parts, so that no payload is copied into them.
#[derive(Default)]
pub(super) struct Reply<'a> {
    pub(super) texts: Vec<Vec<&'a str>>,
    /// They follow the texts.
    pub(super) blocks: &'a [ContentBlock],
    /// JSON in parts.
    pub(super) structured: Option<Vec<&'a str>>,
    pub(super) is_error: bool,
    /// What a server carried beside its result.
    meta: Option<&'a Map<String, Value>>,
    /// Its members that nobody here knows.
    extra: Option<&'a Map<String, Value>>,
    /// What stood in place of a `_meta`.
    odd_meta: Option<&'a Value>,
    repairs: &'a [Repair],
    pub(super) warnings: &'a [Issue],
    pub(super) error: Option<&'a Value>,
}

impl<'a> Reply<'a> {
    /// The result of a server that goes out as it came, members and all.
    pub(super) fn of(outcome: &'a Outcome) -> Self {
        let extra = match &outcome.envelope.meta {
            Meta::Mcp(meta) => Some(&meta.extra),
            _ => None,
        };
        Self { extra, ..Self::aside(outcome) }
    }

    /// What every result of this outcome carries beside its content.
    pub(super) fn aside(outcome: &'a Outcome) -> Self {
        let mut reply =
            Self { repairs: outcome.repairs(), warnings: outcome.warnings(), ..Self::default() };
        if let Meta::Mcp(meta) = &outcome.envelope.meta {
            (reply.meta, reply.odd_meta) = (meta.meta.as_ref(), meta.extra.get("_meta"));
        }
        reply
    }

    /// The same as a failure.
    pub(super) fn failed<'b>(self) -> Reply<'b>
    where
        'a: 'b,
    {
        Reply { is_error: true, ..self }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, era: Era) {
        out.reserve(self.length());
        out.push(b'{');
        if era == Era::Modern {
            out.extend_from_slice(br#""resultType":"complete","#);
        }
        self.write_content(out);
        if let Some(parts) = &self.structured {
            out.extend_from_slice(br#","structuredContent":"#);
            parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        }
        if self.is_error {
            out.extend_from_slice(br#","isError":true"#);
        }
        let side = Side(self);
        if !side.is_empty() {
            out.extend_from_slice(br#","_meta":"#);
            append(out, &side);
        }
        self.write_extra(out);
        out.push(b'}');
    }

    fn write_content(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""content":["#);
        let mut is_first = true;
        let mut comma = |out: &mut Vec<u8>| {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
        };
        for parts in &self.texts {
            comma(out);
            out.extend_from_slice(br#"{"type":"text","text":"#);
            append(out, &Joined(parts));
            out.push(b'}');
        }
        for block in self.blocks {
            comma(out);
            append(out, block);
        }
        out.push(b']');
    }

    /// Members that only the server knows, under the names that they had there.
    fn write_extra(&self, out: &mut Vec<u8>) {
        let Some(extra) = self.extra else { return };
        for (name, value) in extra {
            let name = match name.as_str() {
                "content" | "structuredContent" | "isError" | "resultType" | "_meta" => continue,
                SOURCE_MEMBER if !extra.contains_key("source") => "source",
                name => name,
            };
            if !value.is_null() {
                out.push(b',');
                append(out, name);
                out.push(b':');
                append(out, value);
            }
        }
    }

    /// About how long it will be.
    fn length(&self) -> usize {
        let parts = self.texts.iter().chain(&self.structured).flatten();
        parts.map(|part| part.len() + part.len() / 8).sum::<usize>() + 128
    }
}

/// What stands in `_meta`.
struct Side<'r, 'a>(&'r Reply<'a>);

impl Side<'_, '_> {
    fn is_empty(&self) -> bool {
        let Self(reply) = self;
        reply.meta.is_none()
            && reply.odd_meta.is_none()
            && reply.repairs.is_empty()
            && reply.warnings.is_empty()
            && reply.error.is_none()
    }
}

impl Serialize for Side<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(reply) = self;
        let mut map = serializer.serialize_map(None)?;
        let is_ours = |name: &str| match name {
            REPAIRS_META => !reply.repairs.is_empty(),
            WARNINGS_META => !reply.warnings.is_empty(),
            ERROR_META => reply.error.is_some(),
            ODD_META => reply.odd_meta.is_some(),
            _ => false,
        };
        for (name, value) in reply.meta.into_iter().flatten().filter(|(name, _)| !is_ours(name)) {
            map.serialize_entry(name, value)?;
        }
        let before =
            |name: &str| reply.meta.and_then(|meta| meta.get(name)).and_then(Value::as_array);
        if is_ours(REPAIRS_META) {
            let all = Chained(before(REPAIRS_META), reply.repairs);
            map.serialize_entry(REPAIRS_META, &all)?;
        }
        if is_ours(WARNINGS_META) {
            let all = Chained(before(WARNINGS_META), reply.warnings);
            map.serialize_entry(WARNINGS_META, &all)?;
        }
        if let Some(error) = reply.error {
            map.serialize_entry(ERROR_META, error)?;
        }
        if let Some(odd) = reply.odd_meta {
            map.serialize_entry(ODD_META, odd)?;
        }
        map.end()
    }
}

/// What another gateway found before us, and what was found here.
struct Chained<'a, T>(Option<&'a Vec<Value>>, &'a [T]);

impl<T: Serialize> Serialize for Chained<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut list = serializer.serialize_seq(None)?;
        self.0.into_iter().flatten().try_for_each(|value| list.serialize_element(value))?;
        self.1.iter().try_for_each(|value| list.serialize_element(value))?;
        list.end()
    }
}

/// Parts that are one string.
struct Joined<'r, 'a>(&'r [&'a str]);

impl fmt::Display for Joined<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| f.write_str(part))
    }
}

impl Serialize for Joined<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A payload as JSON text; what is text already is not copied.
pub(super) fn json_text(payload: &Payload) -> Cow<'_, str> {
    match payload.as_raw() {
        Some(raw) => Cow::Borrowed(raw.get().trim()),
        None => Cow::Owned(serde_json::to_string(payload).expect("a tree is JSON")),
    }
}

fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("what is written here has a JSON form");
}
