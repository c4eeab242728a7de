//! JSON Schemas of the envelope and its parts, for validation by clients.

use std::sync::LazyLock;

use serde_json::{Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// JSON Schema of an envelope, with its parts in `$defs`.
pub static ENVELOPE_SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "$schema": DIALECT,
        "title": "ResponseEnvelope",
        "description": "The result of an operation and where it came from.",
        "type": "object",
        "required": ["data", "meta"],
        "properties": {
            "data": {"description": "The output of the operation."},
            "meta": {"$ref": "#/$defs/Meta"},
        },
        "$defs": definitions(),
    })
});

/// Schema of the metadata of any source.
pub static META_SCHEMA: LazyLock<Value> = LazyLock::new(|| standalone("Meta"));
/// Schema of the metadata of a local result.
pub static LOCAL_META_SCHEMA: LazyLock<Value> = LazyLock::new(|| standalone("LocalMeta"));
/// Schema of the metadata of an HTTP result.
pub static HTTP_META_SCHEMA: LazyLock<Value> = LazyLock::new(|| standalone("HttpMeta"));
/// Schema of the metadata of an MCP result.
pub static MCP_META_SCHEMA: LazyLock<Value> = LazyLock::new(|| standalone("McpMeta"));
/// Schema of one MCP content block.
pub static CONTENT_BLOCK_SCHEMA: LazyLock<Value> = LazyLock::new(|| standalone("ContentBlock"));

fn standalone(name: &str) -> Value {
    json!({"$schema": DIALECT, "$ref": format!("#/$defs/{name}"), "$defs": definitions()})
}

fn definitions() -> Value {
    json!({
        "Meta": {
            "oneOf": [
                {"$ref": "#/$defs/LocalMeta"},
                {"$ref": "#/$defs/HttpMeta"},
                {"$ref": "#/$defs/McpMeta"},
            ],
        },
        "LocalMeta": {
            "type": "object",
            "required": ["source", "operationId", "timestamp"],
            "properties": {
                "source": {"const": "local"},
                "operationId": operation_id(),
                "timestamp": timestamp(),
            },
        },
        "HttpMeta": {
            "type": "object",
            "required": ["source", "statusCode", "headers", "contentType"],
            "properties": {
                "source": {"const": "http"},
                "statusCode": {"type": "integer", "minimum": 0, "maximum": 65535},
                "headers": {
                    "type": "object",
                    "description": "Lower-case names; repeated headers joined with `, `.",
                    "additionalProperties": {"type": "string"},
                },
                "contentType": {"type": "string"},
                "setCookie": {"type": "array", "items": {"type": "string"}},
                "sse": {"$ref": "#/$defs/SseMeta"},
                "operationId": operation_id(),
                "timestamp": timestamp(),
            },
        },
        "SseMeta": {
            "type": "object",
            "required": ["eventType", "lastEventId"],
            "properties": {
                "eventType": {"type": "string"},
                "lastEventId": {"type": "string"},
                "retry": {"type": "integer", "minimum": 0},
            },
        },
        "McpMeta": {
            "type": "object",
            "required": ["source", "isError", "content"],
            "properties": {
                "source": {"const": "mcp"},
                "isError": {"type": "boolean"},
                "content": {"type": "array", "items": {"$ref": "#/$defs/ContentBlock"}},
                "structuredContent": {},
                "_meta": {"type": "object"},
                "operationId": operation_id(),
                "timestamp": timestamp(),
            },
        },
        "ContentBlock": {
            "oneOf": [
                {"$ref": "#/$defs/TextBlock"},
                {"$ref": "#/$defs/ImageBlock"},
                {"$ref": "#/$defs/AudioBlock"},
                {"$ref": "#/$defs/ResourceBlock"},
                {"$ref": "#/$defs/ResourceLinkBlock"},
            ],
        },
        "TextBlock": block("text", &["text"]),
        "ImageBlock": block("image", &["data", "mimeType"]),
        "AudioBlock": block("audio", &["data", "mimeType"]),
        "ResourceBlock": {
            "type": "object",
            "required": ["type", "resource"],
            "properties": {
                "type": {"const": "resource"},
                "resource": {"$ref": "#/$defs/ResourceContents"},
                "annotations": {"$ref": "#/$defs/Annotations"},
            },
        },
        "ResourceContents": {
            "type": "object",
            "required": ["uri"],
            "properties": {
                "uri": {"type": "string"},
                "mimeType": {"type": "string"},
                "text": {"type": "string"},
                "blob": {"type": "string"},
            },
        },
        "ResourceLinkBlock": block("resource_link", &["uri", "name"]),
        "Annotations": {
            "type": "object",
            "properties": {
                "audience": {"type": "array", "items": {"type": "string"}},
                "priority": {"type": "number"},
                "lastModified": {"type": "string"},
            },
        },
    })
}

fn operation_id() -> Value {
    json!({"type": "string", "description": "`namespace.name`"})
}

fn timestamp() -> Value {
    json!({"type": "integer", "description": "Milliseconds since 1970."})
}

fn block(kind: &str, strings: &[&str]) -> Value {
    let mut required = vec!["type"];
    required.extend(strings);
    let mut schema = json!({
        "type": "object",
        "required": required,
        "properties": {"type": {"const": kind}, "annotations": {"$ref": "#/$defs/Annotations"}},
    });
    for name in strings {
        schema["properties"][*name] = json!({"type": "string"});
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{ContentBlock, Envelope, HttpMeta, McpMeta, SseMeta};
    use crate::schema::Schema;

    #[test]
    fn serialized_envelopes_match_exported_schema() {
        let schema = Schema::new(ENVELOPE_SCHEMA.clone()).unwrap();
        let mut http = HttpMeta::new(200, [("Content-Type", "a/b"), ("Set-Cookie", "c=1")]);
        http.sse = Some(SseMeta { retry: Some(3), ..SseMeta::new("message", "7") });
        let blocks =
            vec![ContentBlock::text("t"), ContentBlock::from_value(json!({"type": "odd"}))];
        let mut mcp = McpMeta::new(blocks);
        mcp.structured_content = Some(json!({}));
        for envelope in [
            Envelope::local(json!(null), "demo.add"),
            Envelope::http(json!([1]), http),
            Envelope::mcp(json!({}), mcp),
        ] {
            let wire = serde_json::to_value(&envelope).unwrap();
            assert_eq!(schema.validate(&wire).unwrap(), [], "{wire}");
        }
    }

    #[test]
    fn exported_schema_rejects_non_envelopes() {
        let schema = Schema::new(ENVELOPE_SCHEMA.clone()).unwrap();
        for wire in [
            json!({"data": 1}),
            json!({"data": 1, "meta": {"source": "local"}}),
            json!({"data": 1, "meta": {"source": "rss", "operationId": "a.b", "timestamp": 1}}),
        ] {
            assert_ne!(schema.validate(&wire).unwrap(), [], "{wire}");
        }
    }

    #[test]
    fn exported_schema_parts_compile_standalone() {
        for part in [
            &META_SCHEMA,
            &LOCAL_META_SCHEMA,
            &HTTP_META_SCHEMA,
            &MCP_META_SCHEMA,
            &CONTENT_BLOCK_SCHEMA,
        ] {
            Schema::new((*part).clone()).unwrap().compile().unwrap();
        }
    }
}
