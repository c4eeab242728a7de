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
    /// A picture.
    Image(MediaBlock),
    /// Sound.
    Audio(MediaBlock),
    /// An embedded resource.
    Resource(ResourceBlock),
    /// A link to a resource.
    ResourceLink(ResourceLinkBlock),
}

/// Defines an object of a content block: required members, optional members, and `extra` for all
/// others. A member that fails its check stays in `extra`.
macro_rules! block_object {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$required_doc:meta])* $required:ident: $required_type:ty = $required_name:literal, $required_check:path;)*
        } optional {
            $($(#[$optional_doc:meta])* $optional:ident: $optional_type:ty = $optional_name:literal, $optional_check:path;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
        #[serde(from = "JsonObject")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$required_doc])* #[serde(rename = $required_name)] pub $required: $required_type,)*
            $(
                $(#[$optional_doc])*
                #[serde(rename = $optional_name, skip_serializing_if = "Option::is_none")]
                pub $optional: Option<$optional_type>,
            )*
            /// Unknown members, preserved as received.
            #[serde(flatten)]
            pub extra: JsonObject,
        }

        impl From<JsonObject> for $name {
            fn from(mut members: JsonObject) -> Self {
                Self {
                    $($required: take(&mut members, $required_name, $required_check).unwrap_or_default(),)*
                    $($optional: take(&mut members, $optional_name, $optional_check),)*
                    extra: members,
                }
            }
        }
    };
}

block_object! {
    /// A text block.
    TextBlock {
        /// The text.
        text: String = "text", Value::is_string;
    } optional {
        /// Audience and priority.
        annotations: Annotations = "annotations", Value::is_object;
    }
}

block_object! {
    /// An image or audio block.
    MediaBlock {
        /// The content, base64-encoded.
        data: String = "data", Value::is_string;
        /// Media type of the content.
        mime_type: String = "mimeType", Value::is_string;
    } optional {
        /// Audience and priority.
        annotations: Annotations = "annotations", Value::is_object;
    }
}

block_object! {
    /// A block that embeds the contents of a resource.
    ResourceBlock {
        /// The embedded contents.
        resource: ResourceContents = "resource", Value::is_object;
    } optional {
        /// Audience and priority.
        annotations: Annotations = "annotations", Value::is_object;
    }
}

block_object! {
    /// The contents of a resource: text, or base64-encoded bytes.
    ResourceContents {
        /// URI of the resource.
        uri: String = "uri", Value::is_string;
    } optional {
        /// Media type of the contents.
        mime_type: String = "mimeType", Value::is_string;
        /// The contents, if they are text.
        text: String = "text", Value::is_string;
        /// The contents, if they are binary, base64-encoded.
        blob: String = "blob", Value::is_string;
    }
}

block_object! {
    /// A block that links to a resource.
    ResourceLinkBlock {
        /// URI of the resource.
        uri: String = "uri", Value::is_string;
        /// Its name.
        name: String = "name", Value::is_string;
    } optional {
        /// Description of the resource.
        description: String = "description", Value::is_string;
        /// Media type of the contents.
        mime_type: String = "mimeType", Value::is_string;
        /// Audience and priority.
        annotations: Annotations = "annotations", Value::is_object;
    }
}

block_object! {
    /// Hints from the server on how to use a block.
    Annotations {} optional {
        /// `user`, `assistant`, or a value of a newer protocol version.
        audience: Vec<String> = "audience", is_string_array;
        /// From 0 to 1, with its original notation.
        priority: serde_json::Number = "priority", Value::is_number;
        /// ISO 8601.
        last_modified: String = "lastModified", Value::is_string;
    }
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

    fn from_supported(mut members: JsonObject) -> Self {
        let kind: Option<String> = take(&mut members, "type", Value::is_string);
        match kind.as_deref() {
            Some("image") => Self::Image(members.into()),
            Some("audio") => Self::Audio(members.into()),
            Some("resource") => Self::Resource(members.into()),
            Some("resource_link") => Self::ResourceLink(members.into()),
            _ => Self::Text(members.into()),
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
