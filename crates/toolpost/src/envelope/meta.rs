//! Source-specific metadata of a result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::block::ContentBlock;
use super::members::{JsonMembers, as_integer};

/// Name under which the own `source` member of a tool result is stored. In the meta of an envelope,
/// `source` names the kind of source, which no server may set.
pub(crate) const SOURCE_MEMBER: &str = "toolpost/source";

/// Source of a result with its metadata; `source` is the tag on the wire.
///
/// The large variants are boxed, because an envelope is moved at every stage of a call.
#[derive(Debug, Clone, PartialEq)]
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
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LocalMeta {
    /// Id of the operation.
    pub operation_id: Arc<str>,
    /// Time at which the result was wrapped, in milliseconds since the Unix epoch.
    pub timestamp: i64,
    /// Unknown members, if there are any.
    pub extra: Option<Box<Map<String, Value>>>,
}

/// Metadata of a response from an HTTP service.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HttpMeta {
    /// HTTP status code of the response.
    pub status_code: u16,
    /// Response headers. Names are lowercase; the values of repeated headers are joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The `Content-Type` header as received.
    pub content_type: String,
    /// `Set-Cookie` headers, kept separate because they cannot be joined.
    pub set_cookie: Vec<String>,
    /// Fields of the server-sent event, if the result is an event of a stream.
    pub sse: Option<SseMeta>,
    /// Unknown members.
    pub extra: Map<String, Value>,
}

/// Fields of one server-sent event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SseMeta {
    /// The `event` field; `message` if the stream does not set it.
    pub event_type: String,
    /// The last `id` of the stream. It stays the same until an event changes it.
    pub last_event_id: String,
    /// The `retry` field, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<u64>,
}

/// Metadata of a result from a tool of an MCP server.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct McpMeta {
    /// Whether the tool ran and reported a failure. This is a result, not a
    /// [`CallError`](crate::CallError).
    pub is_error: bool,
    /// All content blocks, with or without structured content.
    pub content: Vec<ContentBlock>,
    /// The structured output as received.
    pub structured_content: Option<Value>,
    /// The `_meta` object of the result.
    pub meta: Option<Map<String, Value>>,
    /// Unknown members.
    pub extra: Map<String, Value>,
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

    /// Whether the members are valid metadata: a known source with its required fields and the
    /// right types.
    pub(super) fn recognizes(members: &Map<String, Value>) -> bool {
        match members.get("source").and_then(Value::as_str) {
            Some("local") => LocalMeta::recognizes(members),
            Some("http") => HttpMeta::recognizes(members),
            Some("mcp") => McpMeta::recognizes(members),
            _ => false,
        }
    }

    /// Parses the members, or returns them unchanged as the error.
    pub(super) fn from_members(members: Map<String, Value>) -> Result<Self, Map<String, Value>> {
        if !Self::recognizes(&members) {
            return Err(members);
        }
        let mut members = JsonMembers::new(members);
        Ok(match members.take_string("source").as_deref() {
            Some("http") => Self::Http(Box::new(HttpMeta::from_members(members))),
            Some("mcp") => Self::Mcp(Box::new(McpMeta::from_members(members))),
            _ => Self::Local(LocalMeta::from_members(members)),
        })
    }
}

impl LocalMeta {
    /// Creates the metadata of a result that was wrapped at `timestamp`.
    pub fn new(operation_id: impl Into<Arc<str>>, timestamp: i64) -> Self {
        Self { operation_id: operation_id.into(), timestamp, extra: None }
    }

    fn recognizes(members: &Map<String, Value>) -> bool {
        members.get("operationId").is_some_and(Value::is_string)
            && members.get("timestamp").is_some_and(|time| as_integer(time).is_some())
    }

    fn from_members(mut members: JsonMembers) -> Self {
        Self {
            operation_id: members.take_string("operationId").unwrap_or_default().into(),
            timestamp: members.take_integer("timestamp").unwrap_or_default(),
            extra: Some(members.into_rest()).filter(|rest| !rest.is_empty()).map(Box::new),
        }
    }
}

impl HttpMeta {
    /// Creates the metadata of a response. Header names are lowercased, repeated headers are
    /// joined, and cookies are kept separate.
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
            extra: Map::new(),
        };
        for (name, value) in headers {
            meta.add_header(name.as_ref().to_ascii_lowercase(), value.as_ref());
        }
        meta.content_type = meta.headers.get("content-type").cloned().unwrap_or_default();
        meta
    }

    /// Adds the fields of the server-sent event that carried the data.
    #[must_use]
    pub fn with_sse(mut self, sse: SseMeta) -> Self {
        self.sse = Some(sse);
        self
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

    fn recognizes(members: &Map<String, Value>) -> bool {
        members.get("statusCode").is_some_and(|status| as_status(status).is_some())
            && members.get("contentType").is_some_and(Value::is_string)
            && members
                .get("headers")
                .and_then(Value::as_object)
                .is_some_and(|headers| headers.values().all(Value::is_string))
    }

    fn from_members(mut members: JsonMembers) -> Self {
        let status_code = members.take_value("statusCode").as_ref().and_then(as_status);
        let headers =
            members.take_value("headers").and_then(|headers| serde_json::from_value(headers).ok());
        Self {
            status_code: status_code.unwrap_or_default(),
            headers: headers.unwrap_or_default(),
            content_type: members.take_string("contentType").unwrap_or_default(),
            set_cookie: members.take_nonempty_strings("setCookie").unwrap_or_default(),
            sse: SseMeta::take_from_members(&mut members),
            extra: members.into_rest(),
        }
    }
}

fn as_status(value: &Value) -> Option<u16> {
    as_integer(value).and_then(|status| u16::try_from(status).ok())
}

impl SseMeta {
    /// Creates the fields of an event without `retry`.
    pub fn new(event_type: impl Into<String>, last_event_id: impl Into<String>) -> Self {
        Self { event_type: event_type.into(), last_event_id: last_event_id.into(), retry: None }
    }

    /// Sets the reconnection time, in milliseconds.
    #[must_use]
    pub fn with_retry(mut self, milliseconds: u64) -> Self {
        self.retry = Some(milliseconds);
        self
    }

    /// Taken only if all of its members are known; otherwise it stays in `extra` unchanged.
    fn take_from_members(members: &mut JsonMembers) -> Option<Self> {
        let fields = members.take_object("sse")?;
        let mut known = JsonMembers::new(fields.clone());
        let read = known.take_string("eventType").zip(known.take_string("lastEventId")).map(
            |(event_type, last_event_id)| Self {
                event_type,
                last_event_id,
                retry: known.take_unsigned("retry"),
            },
        );
        if read.is_none() || !known.into_rest().is_empty() {
            members.restore("sse", fields);
            return None;
        }
        read
    }
}

impl McpMeta {
    /// Creates the metadata of a result with these content blocks.
    pub fn new(content: Vec<ContentBlock>) -> Self {
        Self { content, ..Self::default() }
    }

    /// Marks the result as a tool failure.
    #[must_use]
    pub fn with_error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Sets the structured output.
    #[must_use]
    pub fn with_structured_content(mut self, structured: Value) -> Self {
        self.structured_content = Some(structured);
        self
    }

    /// Sets the `_meta` object.
    #[must_use]
    pub fn with_meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(meta);
        self
    }

    fn recognizes(members: &Map<String, Value>) -> bool {
        members.get("isError").is_some_and(Value::is_boolean)
            && members
                .get("content")
                .and_then(Value::as_array)
                .is_some_and(|blocks| blocks.iter().all(Value::is_object))
    }

    fn from_members(mut members: JsonMembers) -> Self {
        let blocks = members.take_array("content").unwrap_or_default();
        Self {
            is_error: members.take_bool("isError").unwrap_or_default(),
            content: blocks.into_iter().map(ContentBlock::from_value).collect(),
            structured_content: members.take_value("structuredContent"),
            meta: members.take_object("_meta"),
            extra: members.into_rest(),
        }
    }
}

impl Serialize for Meta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", self.source())?;
        match self {
            Self::Local(meta) => meta.serialize_members(&mut map)?,
            Self::Http(meta) => meta.serialize_members(&mut map)?,
            Self::Mcp(meta) => meta.serialize_members(&mut map)?,
        }
        map.end()
    }
}

impl LocalMeta {
    fn serialize_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("operationId", &*self.operation_id)?;
        map.serialize_entry("timestamp", &self.timestamp)?;
        self.extra.as_ref().map_or(Ok(()), |extra| serialize_extra(map, extra))
    }
}

impl HttpMeta {
    fn serialize_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("statusCode", &self.status_code)?;
        map.serialize_entry("headers", &self.headers)?;
        map.serialize_entry("contentType", &self.content_type)?;
        if !self.set_cookie.is_empty() {
            map.serialize_entry("setCookie", &self.set_cookie)?;
        }
        if let Some(sse) = &self.sse {
            map.serialize_entry("sse", sse)?;
        }
        serialize_extra(map, &self.extra)
    }
}

impl McpMeta {
    fn serialize_members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("isError", &self.is_error)?;
        map.serialize_entry("content", &self.content)?;
        if let Some(structured) = &self.structured_content {
            map.serialize_entry("structuredContent", structured)?;
        }
        if let Some(meta) = &self.meta {
            map.serialize_entry("_meta", meta)?;
        }
        serialize_extra(map, &self.extra)
    }
}

pub(super) fn serialize_extra<M: SerializeMap>(
    map: &mut M,
    extra: &Map<String, Value>,
) -> Result<(), M::Error> {
    extra.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))
}
