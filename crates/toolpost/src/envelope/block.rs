//! MCP content blocks: typed where the type is known, otherwise kept as JSON.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::members::{is_string_array, take};
use crate::json::JsonObject;

/// A content block of a tool result.
///
/// Unknown members, and members with an unexpected type, are kept in `extra` and serialized
/// unchanged.
///
/// ```
/// use toolpost::ContentBlock;
/// use serde_json::json;
///
/// let wire = json!({"type": "text", "text": "hello", "mood": {"newer": true}});
/// assert_eq!(ContentBlock::from_value(wire.clone()).into_value(), wire);
///
/// let unknown = ContentBlock::from_value(json!({"type": "hologram", "size": 3}));
/// assert_eq!(unknown, ContentBlock::text(r#"{"type":"hologram","size":3}"#));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextBlock),
    /// An image.
    Image(MediaBlock),
    /// Audio.
    Audio(MediaBlock),
    /// An embedded resource.
    Resource(ResourceBlock),
    /// A link to a resource.
    ResourceLink(ResourceLinkBlock),
}

/// A text block.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TextBlock {
    /// The text.
    pub text: String,
    /// Audience and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// An image or audio block.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MediaBlock {
    /// The content, base64-encoded.
    pub data: String,
    /// Media type of the content.
    pub mime_type: String,
    /// Audience and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// A block that embeds the contents of a resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceBlock {
    /// The embedded contents.
    pub resource: ResourceContents,
    /// Audience and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// The contents of a resource: text, or base64-encoded bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI of the resource.
    pub uri: String,
    /// Media type of the contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The contents, if they are text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The contents, if they are binary, base64-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// A block that links to a resource.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceLinkBlock {
    /// URI of the resource.
    pub uri: String,
    /// Name of the resource.
    pub name: String,
    /// Description of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type of the contents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Audience and priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

/// Hints from the server on how to use a block.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Annotations {
    /// `user`, `assistant`, or a value from a newer protocol version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<Vec<String>>,
    /// Priority from 0 to 1, written as received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<serde_json::Number>,
    /// Time of the last modification, in ISO 8601.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Unknown members, preserved as received.
    #[serde(flatten)]
    pub extra: JsonObject,
}

impl ContentBlock {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextBlock { text: text.into(), ..TextBlock::default() })
    }

    /// Parses a content block. A block of an unknown type, or without the members that its type
    /// requires, becomes a text block that contains its JSON.
    pub fn from_value(value: Value) -> Self {
        match value {
            Value::Object(members) if has_required_members(&members) => {
                Self::from_supported(members)
            }
            other => Self::text(other.to_string()),
        }
    }

    /// Whether the block has a known type and the members its type requires.
    #[cfg(feature = "mcp")]
    pub(crate) fn is_supported(value: &Value) -> bool {
        value.as_object().is_some_and(has_required_members)
    }

    /// Converts the block back to the JSON it was parsed from.
    pub fn into_value(self) -> Value {
        serde_json::to_value(&self).unwrap_or_default()
    }

    fn from_supported(mut members: JsonObject) -> Self {
        let kind: Option<String> = take(&mut members, "type", Value::is_string);
        match kind.as_deref() {
            Some("image") => Self::Image(MediaBlock::from_members(members)),
            Some("audio") => Self::Audio(MediaBlock::from_members(members)),
            Some("resource") => Self::Resource(ResourceBlock::from_members(members)),
            Some("resource_link") => Self::ResourceLink(ResourceLinkBlock::from_members(members)),
            _ => Self::Text(TextBlock::from_members(members)),
        }
    }
}

/// Whether the type is known and its required members have the right type.
fn has_required_members(members: &JsonObject) -> bool {
    let has = |key: &str| members.get(key).is_some_and(Value::is_string);
    match members.get("type").and_then(Value::as_str) {
        Some("text") => has("text"),
        Some("image" | "audio") => has("data") && has("mimeType"),
        Some("resource") => members
            .get("resource")
            .and_then(|resource| resource.get("uri"))
            .is_some_and(Value::is_string),
        Some("resource_link") => has("uri") && has("name"),
        _ => false,
    }
}

fn take_string(members: &mut JsonObject, key: &str) -> Option<String> {
    take(members, key, Value::is_string)
}

impl TextBlock {
    fn from_members(mut members: JsonObject) -> Self {
        Self {
            text: take_string(&mut members, "text").unwrap_or_default(),
            annotations: Annotations::take_from_members(&mut members),
            extra: members,
        }
    }
}

impl MediaBlock {
    fn from_members(mut members: JsonObject) -> Self {
        Self {
            data: take_string(&mut members, "data").unwrap_or_default(),
            mime_type: take_string(&mut members, "mimeType").unwrap_or_default(),
            annotations: Annotations::take_from_members(&mut members),
            extra: members,
        }
    }
}

impl ResourceBlock {
    fn from_members(mut members: JsonObject) -> Self {
        let mut resource: JsonObject =
            take(&mut members, "resource", Value::is_object).unwrap_or_default();
        Self {
            resource: ResourceContents {
                uri: take_string(&mut resource, "uri").unwrap_or_default(),
                mime_type: take_string(&mut resource, "mimeType"),
                text: take_string(&mut resource, "text"),
                blob: take_string(&mut resource, "blob"),
                extra: resource,
            },
            annotations: Annotations::take_from_members(&mut members),
            extra: members,
        }
    }
}

impl ResourceLinkBlock {
    fn from_members(mut members: JsonObject) -> Self {
        Self {
            uri: take_string(&mut members, "uri").unwrap_or_default(),
            name: take_string(&mut members, "name").unwrap_or_default(),
            description: take_string(&mut members, "description"),
            mime_type: take_string(&mut members, "mimeType"),
            annotations: Annotations::take_from_members(&mut members),
            extra: members,
        }
    }
}

impl Annotations {
    fn take_from_members(members: &mut JsonObject) -> Option<Self> {
        let mut hints: JsonObject = take(members, "annotations", Value::is_object)?;
        Some(Self {
            audience: take(&mut hints, "audience", is_string_array),
            priority: take(&mut hints, "priority", Value::is_number),
            last_modified: take_string(&mut hints, "lastModified"),
            extra: hints,
        })
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_block_supported_types_round_trip() {
        for wire in [
            json!({"type": "text", "text": "a"}),
            json!({"type": "text", "text": "a", "annotations": {"priority": 1, "x": 2}, "_meta": {}}),
            json!({"type": "text", "text": "a", "annotations": null}),
            json!({"type": "text", "text": "a", "annotations": {"audience": [1], "priority": "high"}}),
            json!({"type": "image", "data": "AA==", "mimeType": "image/png", "alt": [null]}),
            json!({"type": "audio", "data": "", "mimeType": "audio/wav"}),
            json!({"type": "resource", "resource": {"uri": "a:b", "text": "t", "mimeType": 5, "z": 1}, "k": {}}),
            json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}),
            json!({"type": "resource_link", "uri": "a:b", "name": "n", "title": "T", "size": 12}),
            json!({"type": "resource_link", "uri": "a:b", "name": "n", "description": null,
                   "annotations": {"audience": ["user", "robot"], "lastModified": "2026-01-01T00:00:00Z"}}),
        ] {
            let block = ContentBlock::from_value(wire.clone());
            assert_eq!(block.into_value(), wire);
        }
    }

    #[test]
    fn content_block_unsupported_becomes_json_text() {
        for wire in [
            json!({"type": "hologram", "text": "a"}),
            json!({"text": "no type"}),
            json!({"type": 5}),
            json!({"type": "text"}),
            json!({"type": "text", "text": 5}),
            json!({"type": "image", "data": "AA=="}),
            json!({"type": "resource", "resource": {"text": "no uri"}}),
            json!({"type": "resource_link", "uri": "a:b"}),
            json!("bare"),
            json!(null),
        ] {
            let ContentBlock::Text(block) = ContentBlock::from_value(wire.clone()) else {
                panic!("{wire} is not text")
            };
            assert_eq!(serde_json::from_str::<Value>(&block.text).unwrap(), wire);
        }
    }
}
