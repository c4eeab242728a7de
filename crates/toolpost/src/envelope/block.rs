//! MCP content blocks: typed where the type is known, otherwise kept as JSON.

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::members::JsonMembers;
use super::meta::serialize_extra;

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
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ContentBlock {
    /// Text.
    Text(TextBlock),
    /// A picture.
    Image(MediaBlock),
    /// Sound.
    Audio(MediaBlock),
    /// An embedded resource.
    Resource(ResourceBlock),
    /// A link to a resource.
    ResourceLink(ResourceLinkBlock),
}

/// A text block.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TextBlock {
    /// The text.
    pub text: String,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
}

/// An image or audio block.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct MediaBlock {
    /// The content, base64-encoded.
    pub data: String,
    /// Media type of the content.
    pub mime_type: String,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
}

/// A block that embeds the contents of a resource.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ResourceBlock {
    /// The embedded contents.
    pub resource: ResourceContents,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
}

/// The contents of a resource: text, or base64-encoded bytes.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI of the resource.
    pub uri: String,
    /// Media type of the contents.
    pub mime_type: Option<String>,
    /// The contents, if they are text.
    pub text: Option<String>,
    /// The contents, if they are binary, base64-encoded.
    pub blob: Option<String>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
}

/// A block that links to a resource.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct ResourceLinkBlock {
    /// URI of the resource.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Description of the resource.
    pub description: Option<String>,
    /// Media type of the contents.
    pub mime_type: Option<String>,
    /// Audience and priority.
    pub annotations: Option<Annotations>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
}

/// Hints from the server on how to use a block.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Annotations {
    /// `user`, `assistant`, or a value of a newer protocol version.
    pub audience: Option<Vec<String>>,
    /// From 0 to 1, with its original notation.
    pub priority: Option<serde_json::Number>,
    /// ISO 8601.
    pub last_modified: Option<String>,
    /// Unknown members, preserved as received.
    pub extra: Map<String, Value>,
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

    /// Converts the block to JSON, equal to the JSON it was read from.
    pub fn into_value(self) -> Value {
        serde_json::to_value(&self).unwrap_or_default()
    }

    /// Returns the value of the `type` member.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Image(_) => "image",
            Self::Audio(_) => "audio",
            Self::Resource(_) => "resource",
            Self::ResourceLink(_) => "resource_link",
        }
    }

    fn from_supported(members: Map<String, Value>) -> Self {
        let mut members = JsonMembers::new(members);
        match members.take_string("type").as_deref() {
            Some("image") => Self::Image(MediaBlock::from_members(members)),
            Some("audio") => Self::Audio(MediaBlock::from_members(members)),
            Some("resource") => Self::Resource(ResourceBlock::from_members(members)),
            Some("resource_link") => Self::ResourceLink(ResourceLinkBlock::from_members(members)),
            _ => Self::Text(TextBlock::from_members(members)),
        }
    }
}

/// Whether the type is known and its required members have the right type.
fn has_required_members(members: &Map<String, Value>) -> bool {
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

impl TextBlock {
    fn from_members(mut members: JsonMembers) -> Self {
        Self {
            text: members.take_string("text").unwrap_or_default(),
            annotations: Annotations::take_from_members(&mut members),
            extra: members.into_rest(),
        }
    }
}

impl MediaBlock {
    fn from_members(mut members: JsonMembers) -> Self {
        Self {
            data: members.take_string("data").unwrap_or_default(),
            mime_type: members.take_string("mimeType").unwrap_or_default(),
            annotations: Annotations::take_from_members(&mut members),
            extra: members.into_rest(),
        }
    }
}

impl ResourceBlock {
    fn from_members(mut members: JsonMembers) -> Self {
        let mut resource = JsonMembers::new(members.take_object("resource").unwrap_or_default());
        Self {
            resource: ResourceContents {
                uri: resource.take_string("uri").unwrap_or_default(),
                mime_type: resource.take_string("mimeType"),
                text: resource.take_string("text"),
                blob: resource.take_string("blob"),
                extra: resource.into_rest(),
            },
            annotations: Annotations::take_from_members(&mut members),
            extra: members.into_rest(),
        }
    }
}

impl ResourceLinkBlock {
    fn from_members(mut members: JsonMembers) -> Self {
        Self {
            uri: members.take_string("uri").unwrap_or_default(),
            name: members.take_string("name").unwrap_or_default(),
            description: members.take_string("description"),
            mime_type: members.take_string("mimeType"),
            annotations: Annotations::take_from_members(&mut members),
            extra: members.into_rest(),
        }
    }
}

impl Annotations {
    fn take_from_members(members: &mut JsonMembers) -> Option<Self> {
        let mut hints = JsonMembers::new(members.take_object("annotations")?);
        Some(Self {
            audience: hints.take_strings("audience"),
            priority: hints.take_number("priority"),
            last_modified: hints.take_string("lastModified"),
            extra: hints.into_rest(),
        })
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", self.kind())?;
        let (annotations, extra) = match self {
            Self::Text(block) => {
                map.serialize_entry("text", &block.text)?;
                (&block.annotations, &block.extra)
            }
            Self::Image(block) | Self::Audio(block) => {
                map.serialize_entry("data", &block.data)?;
                map.serialize_entry("mimeType", &block.mime_type)?;
                (&block.annotations, &block.extra)
            }
            Self::Resource(block) => {
                map.serialize_entry("resource", &block.resource)?;
                (&block.annotations, &block.extra)
            }
            Self::ResourceLink(block) => {
                map.serialize_entry("uri", &block.uri)?;
                map.serialize_entry("name", &block.name)?;
                serialize_optional(&mut map, "description", block.description.as_ref())?;
                serialize_optional(&mut map, "mimeType", block.mime_type.as_ref())?;
                (&block.annotations, &block.extra)
            }
        };
        serialize_optional(&mut map, "annotations", annotations.as_ref())?;
        serialize_extra(&mut map, extra)?;
        map.end()
    }
}

impl Serialize for ResourceContents {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("uri", &self.uri)?;
        serialize_optional(&mut map, "mimeType", self.mime_type.as_ref())?;
        serialize_optional(&mut map, "text", self.text.as_ref())?;
        serialize_optional(&mut map, "blob", self.blob.as_ref())?;
        serialize_extra(&mut map, &self.extra)?;
        map.end()
    }
}

impl Serialize for Annotations {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        serialize_optional(&mut map, "audience", self.audience.as_ref())?;
        serialize_optional(&mut map, "priority", self.priority.as_ref())?;
        serialize_optional(&mut map, "lastModified", self.last_modified.as_ref())?;
        serialize_extra(&mut map, &self.extra)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

fn serialize_optional<M: SerializeMap, T: Serialize>(
    map: &mut M,
    key: &str,
    value: Option<&T>,
) -> Result<(), M::Error> {
    value.map_or(Ok(()), |value| map.serialize_entry(key, value))
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
            assert_eq!(block.kind(), wire["type"]);
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
