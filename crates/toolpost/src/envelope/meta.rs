//! Source-specific metadata of a result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::block::ContentBlock;
use super::members::{as_integer, is_string_array, take, take_value};
use crate::clock;
use crate::json::JsonObject;

/// Members of envelope meta that a server must not be able to set, and the keys of the members of a
/// tool result with these names.
pub(crate) const RESERVED_MEMBERS: [(&str, &str); 4] = [
    ("source", "toolpost/source"),
    ("operationId", "toolpost/operationId"),
    ("timestamp", "toolpost/timestamp"),
    ("via", "toolpost/via"),
];

/// Metadata of a result, by source. On the wire, `source` is the tag.
///
/// The large variants are boxed because every stage of a call moves the envelope.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "source", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Meta {
    /// A local handler in this process.
    Local(LocalMeta),
    /// An HTTP service.
    Http(Box<HttpMeta>),
    /// A tool of an MCP server.
    Mcp(Box<McpMeta>),
}

/// Metadata of a result from a local handler.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LocalMeta {
    /// Id of the operation.
    pub operation_id: Arc<str>,
    /// Time at which the envelope was created, in milliseconds since the Unix epoch.
    pub timestamp: i64,
    /// Unknown members.
    #[serde(flatten)]
    pub extra: Option<Box<JsonObject>>,
}

/// Metadata of a response from an HTTP service.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HttpMeta {
    /// HTTP status code of the response.
    pub status_code: u16,
    /// Response headers. Names are lowercase; the values of repeated headers are joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The `Content-Type` header as received.
    pub content_type: String,
    /// `Set-Cookie` headers, kept separate because they cannot be joined.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_cookie: Vec<String>,
    /// Fields of the server-sent event, if the result is an event of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sse: Option<SseMeta>,
    /// Id of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<Arc<str>>,
    /// Time at which the envelope was created, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// Unknown members.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Fields of one server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct SseMeta {
    /// The `event` field; `message` if the stream does not set it.
    pub event_type: String,
    /// The most recent `id` of the stream, which need not be from this event.
    pub last_event_id: String,
    /// The `retry` field, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<u64>,
}

/// Metadata of a result from a tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct McpMeta {
    /// Whether the tool reported a failure. The call itself succeeded, so this is not a
    /// [`CallError`](crate::CallError).
    pub is_error: bool,
    /// All content blocks, whether or not there is structured content.
    pub content: Vec<ContentBlock>,
    /// The structured output as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Value>,
    /// The `_meta` object of the result.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<JsonObject>,
    /// Id of the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<Arc<str>>,
    /// Time at which the envelope was created, in milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
    /// Unknown members.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl Meta {
    /// Returns the value of the `source` member.
    pub fn source(&self) -> &'static str {
        match self {
            Self::Local(_) => "local",
            Self::Http(_) => "http",
            Self::Mcp(_) => "mcp",
        }
    }

    /// Adds the id of the operation and the current time, unless the metadata has its own.
    pub(crate) fn stamp(&mut self, operation_id: &Arc<str>) {
        let (id, timestamp, extra) = match self {
            Self::Local(_) => return,
            Self::Http(meta) => (&mut meta.operation_id, &mut meta.timestamp, &meta.extra),
            Self::Mcp(meta) => (&mut meta.operation_id, &mut meta.timestamp, &meta.extra),
        };
        // Members of another type stay in `extra`.
        if !extra.contains_key("operationId") {
            id.get_or_insert_with(|| Arc::clone(operation_id));
        }
        if !extra.contains_key("timestamp") {
            timestamp.get_or_insert_with(clock::epoch_ms);
        }
    }

    /// Whether the members are valid metadata: a known source with its required fields.
    pub(super) fn recognizes(members: &JsonObject) -> bool {
        match members.get("source").and_then(Value::as_str) {
            Some("local") => LocalMeta::recognizes(members),
            Some("http") => HttpMeta::recognizes(members),
            Some("mcp") => McpMeta::recognizes(members),
            _ => false,
        }
    }

    /// Parses the members, or returns them unchanged as the error.
    pub(crate) fn from_members(mut members: JsonObject) -> Result<Self, JsonObject> {
        if !Self::recognizes(&members) {
            return Err(members);
        }
        let source: Option<String> = take(&mut members, "source", Value::is_string);
        Ok(match source.as_deref() {
            Some("http") => Self::Http(Box::new(HttpMeta::from_members(members))),
            Some("mcp") => Self::Mcp(Box::new(McpMeta::from_members(members))),
            _ => Self::Local(LocalMeta::from_members(members)),
        })
    }
}

impl LocalMeta {
    /// Creates metadata for a result of `operation_id` at `timestamp`.
    pub fn new(operation_id: impl Into<Arc<str>>, timestamp: i64) -> Self {
        Self { operation_id: operation_id.into(), timestamp, extra: None }
    }

    fn recognizes(members: &JsonObject) -> bool {
        members.get("operationId").is_some_and(Value::is_string)
            && members.get("timestamp").is_some_and(|time| as_integer(time).is_some())
    }

    fn from_members(mut members: JsonObject) -> Self {
        Self {
            operation_id: take_string(&mut members, "operationId").into(),
            timestamp: take_integer(&mut members, "timestamp").unwrap_or_default(),
            extra: Some(members).filter(|rest| !rest.is_empty()).map(Box::new),
        }
    }
}

impl HttpMeta {
    /// Creates metadata for a response. Lowercases header names and joins repeated headers.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(
        status_code: u16,
        headers: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let mut meta = Self {
            status_code,
            headers: BTreeMap::new(),
            content_type: String::new(),
            set_cookie: Vec::new(),
            sse: None,
            operation_id: None,
            timestamp: None,
            extra: Map::new(),
        };
        for (name, value) in headers {
            meta.add_header(name.as_ref().to_ascii_lowercase(), value.as_ref());
        }
        meta.content_type = meta.headers.get("content-type").cloned().unwrap_or_default();
        meta
    }

    fn add_header(&mut self, name: String, value: &str) {
        if name == "set-cookie" {
            self.set_cookie.push(value.to_owned());
            return;
        }
        let joined = self.headers.entry(name).or_default();
        if !joined.is_empty() {
            joined.push_str(", ");
        }
        joined.push_str(value);
    }

    fn recognizes(members: &JsonObject) -> bool {
        members
            .get("statusCode")
            .and_then(as_integer)
            .is_some_and(|status| u16::try_from(status).is_ok())
            && members.get("contentType").is_some_and(Value::is_string)
            && members
                .get("headers")
                .and_then(Value::as_object)
                .is_some_and(|headers| headers.values().all(Value::is_string))
    }

    fn from_members(mut members: JsonObject) -> Self {
        let status_code = take_integer(&mut members, "statusCode");
        // An empty list is not written, so it stays in `extra`.
        let is_nonempty = |value: &Value| is_string_array(value) && *value != Value::Array(vec![]);
        // Unknown members of the event, and a `null`, would be lost.
        let is_known_sse = |sse: &Value| {
            sse.get("retry") != Some(&Value::Null) && SseMeta::deserialize(sse).is_ok()
        };
        Self {
            status_code: status_code.and_then(|code| code.try_into().ok()).unwrap_or_default(),
            headers: take(&mut members, "headers", Value::is_object).unwrap_or_default(),
            content_type: take_string(&mut members, "contentType"),
            set_cookie: take(&mut members, "setCookie", is_nonempty).unwrap_or_default(),
            sse: take(&mut members, "sse", is_known_sse),
            operation_id: take(&mut members, "operationId", Value::is_string),
            timestamp: take_integer(&mut members, "timestamp"),
            extra: members,
        }
    }
}

impl SseMeta {
    /// Creates the fields of an event without `retry`.
    pub fn new(event_type: impl Into<String>, last_event_id: impl Into<String>) -> Self {
        Self { event_type: event_type.into(), last_event_id: last_event_id.into(), retry: None }
    }
}

impl McpMeta {
    /// Creates metadata for a result with these content blocks.
    pub fn new(content: Vec<ContentBlock>) -> Self {
        Self { content, ..Self::default() }
    }

    fn recognizes(members: &JsonObject) -> bool {
        members.get("isError").is_some_and(Value::is_boolean)
            && members
                .get("content")
                .and_then(Value::as_array)
                .is_some_and(|blocks| blocks.iter().all(Value::is_object))
    }

    fn from_members(mut members: JsonObject) -> Self {
        let blocks = match take_value(&mut members, "content", Value::is_array) {
            Some(Value::Array(blocks)) => blocks,
            _ => Vec::new(),
        };
        Self {
            is_error: take(&mut members, "isError", Value::is_boolean).unwrap_or_default(),
            content: blocks.into_iter().map(ContentBlock::from_value).collect(),
            structured_content: members.shift_remove("structuredContent"),
            meta: take(&mut members, "_meta", Value::is_object),
            operation_id: take(&mut members, "operationId", Value::is_string),
            timestamp: take_integer(&mut members, "timestamp"),
            extra: members,
        }
    }
}

fn take_string(members: &mut JsonObject, key: &str) -> String {
    take(members, key, Value::is_string).unwrap_or_default()
}

fn take_integer(members: &mut JsonObject, key: &str) -> Option<i64> {
    as_integer(&take_value(members, key, |value| as_integer(value).is_some())?)
}
