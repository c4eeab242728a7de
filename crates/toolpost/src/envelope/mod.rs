//! The response envelope: `data` and source-tagged `meta`.

mod binary;
mod block;
mod detect;
mod members;
mod meta;
mod page;
mod schemas;

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::clock;
use crate::error::CallError;
use crate::json::deserialize_present;
use crate::payload::{Payload, PayloadError};

pub use block::{
    Annotations, ContentBlock, MediaBlock, ResourceBlock, ResourceContents, ResourceLinkBlock,
    TextBlock,
};
pub(crate) use meta::RESERVED_MEMBERS;
pub use meta::{HttpMeta, LocalMeta, McpMeta, Meta, SseMeta};
pub use page::NextPage;
pub use schemas::{
    CONTENT_BLOCK_SCHEMA, ENVELOPE_SCHEMA, HTTP_META_SCHEMA, LOCAL_META_SCHEMA, MCP_META_SCHEMA,
    META_SCHEMA,
};

/// The data that a call returned, with metadata from its source. Every call at every endpoint
/// returns an envelope or a [`CallError`].
///
/// ```
/// use toolpost::Envelope;
///
/// let envelope = Envelope::local(5, "demo.add");
/// assert_eq!(envelope.meta.source(), "local");
/// assert_eq!(envelope.unwrap(), 5);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Envelope<T = Value> {
    /// The output of the operation.
    pub data: T,
    /// Metadata from the source.
    pub meta: Meta,
}

impl<T> Envelope<T> {
    /// Wraps the result of a local handler, with the current time as its timestamp.
    pub fn local(data: T, operation_id: impl Into<Arc<str>>) -> Self {
        let meta = LocalMeta::new(operation_id, clock::epoch_ms());
        Self { data, meta: Meta::Local(meta) }
    }

    /// Wraps the response of an HTTP service.
    pub fn http(data: T, meta: HttpMeta) -> Self {
        Self { data, meta: Meta::Http(Box::new(meta)) }
    }

    /// Wraps the result of an MCP server.
    pub fn mcp(data: T, meta: McpMeta) -> Self {
        Self { data, meta: Meta::Mcp(Box::new(meta)) }
    }

    /// Returns the data and drops the metadata.
    pub fn unwrap(self) -> T {
        self.data
    }

    /// Converts the data and keeps the metadata.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Envelope<U> {
        Envelope { data: convert(self.data), meta: self.meta }
    }

    /// Whether the envelope is from a tool that ran and reported a failure.
    pub fn is_error(&self) -> bool {
        matches!(&self.meta, Meta::Mcp(meta) if meta.is_error)
    }

    /// Returns the first text of a failed tool result.
    pub fn error_text(&self) -> Option<&str> {
        match &self.meta {
            Meta::Mcp(meta) if meta.is_error => first_text(meta),
            _ => None,
        }
    }

    /// Returns the data, or an error if the tool reported a failure.
    ///
    /// # Errors
    ///
    /// Returns `EXECUTION_ERROR` with the content blocks in its details if the `mcp` meta has
    /// `isError`.
    pub fn into_result(self) -> Result<T, CallError> {
        match self.tool_error() {
            Some(error) => Err(error),
            None => Ok(self.data),
        }
    }

    /// Returns the error for a failed tool call, or `None` if the tool did not fail.
    pub(crate) fn tool_error(&self) -> Option<CallError> {
        match &self.meta {
            Meta::Mcp(meta) if meta.is_error => Some(error_from_tool(meta)),
            _ => None,
        }
    }
}

fn first_text(meta: &McpMeta) -> Option<&str> {
    meta.content.iter().find_map(|block| match block {
        ContentBlock::Text(block) => Some(block.text.as_str()),
        _ => None,
    })
}

fn error_from_tool(meta: &McpMeta) -> CallError {
    let mut details = Map::new();
    details.insert("isError".to_owned(), Value::Bool(true));
    details.insert(
        "content".to_owned(),
        meta.content.iter().cloned().map(ContentBlock::into_value).collect(),
    );
    if let Some(structured) = &meta.structured_content {
        details.insert("structuredContent".to_owned(), structured.clone());
    }
    let message = first_text(meta).unwrap_or("the tool reported an error").to_owned();
    CallError::execution(message).with_details(details)
}

impl Envelope<Payload> {
    /// Parses the data.
    ///
    /// # Errors
    ///
    /// Returns an error if the data cannot be parsed; see [`Payload::value`].
    pub fn into_value(self) -> Result<Envelope<Value>, PayloadError> {
        Ok(Envelope { data: self.data.into_value()?, meta: self.meta })
    }

    /// Converts the data to a Rust type.
    ///
    /// # Errors
    ///
    /// Returns an error if the data does not match the type.
    pub fn into_typed<T: DeserializeOwned>(self) -> Result<Envelope<T>, PayloadError> {
        Ok(Envelope { data: self.data.into_typed()?, meta: self.meta })
    }
}

/// An envelope as it is sent. JavaScript omits `data` that is undefined.
#[derive(Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
struct EnvelopeIn<T> {
    #[serde(default, deserialize_with = "deserialize_present")]
    data: Option<T>,
    meta: Map<String, Value>,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Envelope<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = EnvelopeIn::deserialize(deserializer)?;
        let data = match wire.data {
            Some(data) => data,
            None => T::deserialize(Value::Null).map_err(serde::de::Error::custom)?,
        };
        match Meta::from_members(wire.meta) {
            Ok(meta) => Ok(Self { data, meta }),
            Err(_) => Err(serde::de::Error::custom(
                "`meta` is not that of a response envelope: `source` must be local, http or \
                 mcp, with the fields that the source requires",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn into_result_maps_tool_error_to_call_error() {
        let mut meta = McpMeta::new(vec![ContentBlock::text("no such file")]);
        meta.is_error = true;
        let envelope = Envelope::mcp(json!([]), meta);
        assert!(envelope.is_error());
        let error = envelope.into_result().unwrap_err();
        assert_eq!(error.message(), "no such file");
        assert_eq!(
            error.details(),
            Some(&json!({"isError": true, "content": [{"type": "text", "text": "no such file"}]}))
        );
    }

    #[test]
    fn into_result_returns_data_without_tool_error() {
        let meta = McpMeta::new(vec![]);
        assert_eq!(Envelope::mcp(json!(1), meta).into_result().unwrap(), json!(1));
        assert_eq!(Envelope::local((), "demo.note").into_result().unwrap(), ());
    }
}
