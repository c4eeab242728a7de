//! A tool result and its serialization.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;

use super::{ERROR_META, REPAIRS_META, REPLAYED_META, ResultStatus, WARNINGS_META, WRAPPED_META};
use crate::envelope::{ContentBlock, Envelope, Meta, RESERVED_MEMBERS};
use crate::error::CallError;
use crate::json::JsonObject;
use crate::outcome::Outcome;
use crate::payload::Payload;
use crate::schema::{Issue, Repair};
use crate::view::settings::ProtocolGeneration;

/// Holds a `_meta` that is not an object, because clients accept only objects.
const INVALID_META: &str = "toolpost/meta";

/// A result before it is written. Texts are lists of parts, so that payloads are not copied.
#[derive(Default)]
pub(super) struct ToolResult<'a> {
    pub(super) texts: Vec<Vec<&'a str>>,
    /// An image or audio block, written after the texts.
    pub(super) media: Option<MediaContent<'a>>,
    /// Content blocks, written after the texts.
    pub(super) blocks: &'a [ContentBlock],
    pub(super) structured: Option<StructuredContent<'a>>,
    pub(super) is_error: bool,
    /// Whether the result is that of an earlier call.
    pub(super) is_replayed: bool,
    /// The `_meta` of the server's result.
    meta: Option<&'a JsonObject>,
    /// Unknown members of the server's result.
    extra: Option<&'a JsonObject>,
    /// A `_meta` value that is not an object.
    invalid_meta: Option<&'a Value>,
    repairs: &'a [Repair],
    warnings: &'a [Issue],
    /// The last text block, about the warnings.
    warning_text: Option<String>,
    pub(super) error: Option<&'a Value>,
}

/// Structured content.
pub(super) struct StructuredContent<'a> {
    /// JSON in parts that are concatenated.
    pub(super) parts: Vec<&'a str>,
    /// Whether it is `{"result": data}` instead of the data.
    pub(super) is_wrapped: bool,
}

/// An image or audio block with borrowed data.
#[derive(Serialize)]
pub(super) struct MediaContent<'a> {
    r#type: &'static str,
    data: Cow<'a, str>,
    #[serde(rename = "mimeType")]
    mime_type: &'a str,
}

impl<'a> MediaContent<'a> {
    /// Returns the block for a binary response of an HTTP service, if it is an image or audio.
    pub(super) fn of(envelope: &'a Envelope<Payload>) -> Option<Self> {
        let (mime_type, data) = envelope.binary()?;
        let group = mime_type.split('/').next().unwrap_or_default();
        let kind = ["image", "audio"].into_iter().find(|kind| group.eq_ignore_ascii_case(kind))?;
        Some(Self { r#type: kind, data, mime_type })
    }
}

impl<'a> ToolResult<'a> {
    /// Creates a result that relays the server's members unchanged.
    pub(super) fn with_server_members(outcome: &'a Outcome) -> Self {
        let extra = match &outcome.envelope.meta {
            Meta::Mcp(meta) => Some(&meta.extra),
            _ => None,
        };
        Self { extra, ..Self::with_metadata(outcome) }
    }

    /// Creates a result without content, with the findings and `_meta` of an outcome.
    pub(super) fn with_metadata(outcome: &'a Outcome) -> Self {
        let (repairs, warnings) = (outcome.repairs(), outcome.warnings());
        let warning_text = warning_text(warnings);
        let mut tool_result = Self { repairs, warnings, warning_text, ..Self::default() };
        tool_result.is_replayed = outcome.is_replayed();
        if let Meta::Mcp(meta) = &outcome.envelope.meta {
            (tool_result.meta, tool_result.invalid_meta) =
                (meta.meta.as_ref(), meta.extra.get("_meta"));
        }
        tool_result
    }

    /// Omits the warnings, which an error reports instead.
    pub(super) fn without_warnings(self) -> Self {
        Self { warnings: &[], warning_text: None, ..self }
    }

    /// Removes the text block about the warnings and returns its text.
    pub(super) fn take_warning_text(&mut self) -> Option<String> {
        self.warning_text.take()
    }

    /// Creates a result for a failed call.
    pub(super) fn of_error(error: &CallError) -> Self {
        Self { is_replayed: error.is_replayed(), ..Self::default() }
    }

    /// Marks the result as an error.
    pub(super) fn into_error<'b>(self) -> ToolResult<'b>
    where
        'a: 'b,
    {
        ToolResult { is_error: true, ..self }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>, generation: ProtocolGeneration) -> ResultStatus {
        out.reserve(self.estimated_len());
        out.push(b'{');
        if generation == ProtocolGeneration::Modern {
            out.extend_from_slice(br#""resultType":"complete","#);
        }
        self.write_content(out);
        if let Some(structured) = &self.structured {
            out.extend_from_slice(br#","structuredContent":"#);
            structured.parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
        }
        if self.is_error {
            out.extend_from_slice(br#","isError":true"#);
        }
        let side = MetaObject(self);
        if !side.is_empty() {
            out.extend_from_slice(br#","_meta":"#);
            write_json(out, &side);
        }
        self.write_extra(out);
        out.push(b'}');
        if self.is_error { ResultStatus::Failure } else { ResultStatus::Success }
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
            write_json(out, &JoinedText(parts));
            out.push(b'}');
        }
        if let Some(media) = &self.media {
            comma(out);
            write_json(out, media);
        }
        for block in self.blocks {
            comma(out);
            write_json(out, block);
        }
        if let Some(text) = &self.warning_text {
            comma(out);
            write_json(out, &ContentBlock::text(text));
        }
        out.push(b']');
    }

    /// Writes unknown server members under their original names.
    fn write_extra(&self, out: &mut Vec<u8>) {
        let Some(extra) = self.extra else { return };
        for (key, value) in extra {
            let name = match key.as_str() {
                "content" | "structuredContent" | "isError" | "resultType" | "_meta" => continue,
                // A peer may have sent both.
                key if extra.contains_key(result_member(key)) => key,
                key => result_member(key),
            };
            if !value.is_null() {
                out.push(b',');
                write_json(out, name);
                out.push(b':');
                write_json(out, value);
            }
        }
    }

    /// Returns the estimated length in bytes.
    fn estimated_len(&self) -> usize {
        let structured = self.structured.iter().map(|structured| &structured.parts);
        let parts = self.texts.iter().chain(structured).flatten();
        let media_len = self.media.as_ref().map_or(0, |media| media.data.len());
        parts.map(|part| part.len() + part.len() / 8).sum::<usize>() + media_len + 128
    }
}

/// Serializes `_meta`.
struct MetaObject<'r, 'a>(&'r ToolResult<'a>);

impl MetaObject<'_, '_> {
    fn is_empty(&self) -> bool {
        let Self(tool_result) = self;
        tool_result.meta.is_none()
            && tool_result.invalid_meta.is_none()
            && tool_result.repairs.is_empty()
            && tool_result.warnings.is_empty()
            && tool_result.error.is_none()
            && !tool_result.is_replayed
            && !self.is_wrapped()
    }

    fn is_wrapped(&self) -> bool {
        self.0.structured.as_ref().is_some_and(|structured| structured.is_wrapped)
    }
}

impl Serialize for MetaObject<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(tool_result) = self;
        let mut map = serializer.serialize_map(None)?;
        let is_ours = |name: &str| match name {
            REPAIRS_META => !tool_result.repairs.is_empty(),
            WARNINGS_META => !tool_result.warnings.is_empty(),
            ERROR_META => tool_result.error.is_some(),
            WRAPPED_META => self.is_wrapped(),
            REPLAYED_META => tool_result.is_replayed,
            INVALID_META => tool_result.invalid_meta.is_some(),
            _ => false,
        };
        let meta = tool_result.meta.into_iter().flatten();
        for (name, value) in meta.filter(|(name, _)| !is_ours(name)) {
            map.serialize_entry(name, value)?;
        }
        let before =
            |name: &str| tool_result.meta.and_then(|meta| meta.get(name)).and_then(Value::as_array);
        if is_ours(REPAIRS_META) {
            let all = Concatenated(before(REPAIRS_META), tool_result.repairs);
            map.serialize_entry(REPAIRS_META, &all)?;
        }
        if is_ours(WARNINGS_META) {
            let all = Concatenated(before(WARNINGS_META), tool_result.warnings);
            map.serialize_entry(WARNINGS_META, &all)?;
        }
        if self.is_wrapped() {
            map.serialize_entry(WRAPPED_META, &true)?;
        }
        if let Some(error) = tool_result.error {
            map.serialize_entry(ERROR_META, error)?;
        }
        if tool_result.is_replayed {
            map.serialize_entry(REPLAYED_META, &true)?;
        }
        if let Some(odd) = tool_result.invalid_meta {
            map.serialize_entry(INVALID_META, odd)?;
        }
        map.end()
    }
}

/// Returns one line about the warnings, for models and people.
fn warning_text(warnings: &[Issue]) -> Option<String> {
    let [first, rest @ ..] = warnings else { return None };
    let more = match rest.len() {
        0 => String::new(),
        count => format!(" (and {count} more)"),
    };
    Some(format!("Warning: {first}{more}").replace(['\n', '\r'], " "))
}

/// Entries from an upstream gateway, followed by those of this one.
struct Concatenated<'a, T>(Option<&'a Vec<Value>>, &'a [T]);

impl<T: Serialize> Serialize for Concatenated<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeSeq;
        let mut list = serializer.serialize_seq(None)?;
        self.0.into_iter().flatten().try_for_each(|value| list.serialize_element(value))?;
        self.1.iter().try_for_each(|value| list.serialize_element(value))?;
        list.end()
    }
}

/// Parts that are serialized as one string.
struct JoinedText<'r, 'a>(&'r [&'a str]);

impl fmt::Display for JoinedText<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| f.write_str(part))
    }
}

impl Serialize for JoinedText<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns a payload as JSON text, borrowed if it is raw JSON.
pub(super) fn json_text(payload: &Payload) -> Cow<'_, str> {
    match payload.as_raw() {
        Some(raw) => Cow::Borrowed(raw.get().trim()),
        None => Cow::Owned(serde_json::to_string(payload).expect("payloads serialize")),
    }
}

/// Returns the name of the member of a tool result for a key in envelope meta.
fn result_member(key: &str) -> &str {
    RESERVED_MEMBERS.iter().find(|(_, reserved)| *reserved == key).map_or(key, |(name, _)| name)
}

fn write_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("JSON values serialize");
}
