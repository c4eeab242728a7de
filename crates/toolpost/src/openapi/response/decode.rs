//! Decodes response bodies.

use data_encoding::BASE64;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::charset;
use crate::openapi::media_type::{self, MediaKind};
use crate::payload::Payload;
use crate::schema::Schema;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct DecodedBody {
    pub(crate) payload: Payload,
    /// Mismatch between the body and its content type.
    pub(crate) warning: Option<String>,
}

/// Whether JSON bodies are parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonMode {
    /// JSON stays text, which costs a tenth of parsing it into a tree.
    Raw,
    Parsed,
}

impl JsonMode {
    /// Returns the mode for a value of a schema. Without one, nothing needs the parsed value.
    pub(crate) fn for_schema(self, schema: &Schema) -> Self {
        if schema.is_unknown() { Self::Raw } else { self }
    }
}

/// Decodes a body by its content type: JSON to its value, text to a string, an empty body to null,
/// and anything else to `$binary`. A body that does not match its content type becomes text or
/// binary.
pub(crate) fn decode_body(body: Vec<u8>, content_type: &str, json_mode: JsonMode) -> DecodedBody {
    if body.is_empty() {
        return Value::Null.into();
    }
    let kind = MediaKind::from_content_type(content_type);
    if matches!(kind, MediaKind::Binary | MediaKind::Multipart) {
        return binary_value(&body, content_type).into();
    }
    let charset = media_type::parameter(content_type, "charset");
    let text = match charset::decode_text(body, charset) {
        Ok(text) => text,
        Err(body) => {
            let is_known = kind != MediaKind::Unknown;
            let content_type = if is_known { content_type } else { "application/octet-stream" };
            let warning = "the content type is JSON, but the body is not valid UTF-8";
            return DecodedBody {
                payload: binary_value(&body, content_type).into(),
                warning: (kind == MediaKind::Json).then(|| warning.to_owned()),
            };
        }
    };
    match kind {
        MediaKind::Json => decode_json(text, json_mode),
        MediaKind::JsonLines => decode_json_list(text, '\n'),
        MediaKind::JsonSequence => decode_json_list(text, '\u{1e}'),
        // Without a content type, JSON objects and arrays are decoded.
        MediaKind::Unknown if text.trim_start().starts_with(['{', '[']) => {
            match parse_json(&text, json_mode) {
                Ok(payload) => DecodedBody { payload, warning: None },
                Err(_) => Value::String(text).into(),
            }
        }
        _ => Value::String(text).into(),
    }
}

/// Parses a string as JSON.
pub(crate) fn parse_json(text: &str, json_mode: JsonMode) -> Result<Payload, serde_json::Error> {
    if json_mode == JsonMode::Parsed
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        return Ok(value.into());
    }
    // JSON that nests too deeply for a tree is kept as text.
    serde_json::from_str::<Box<RawValue>>(text).map(Payload::from)
}

fn decode_json(text: String, json_mode: JsonMode) -> DecodedBody {
    match parse_json(&text, json_mode) {
        Ok(payload) => DecodedBody { payload, warning: None },
        Err(_) if text.trim().is_empty() => Value::Null.into(),
        Err(error) => DecodedBody {
            warning: Some(format!(
                "the content type is JSON, but the body is not valid JSON: {error}"
            )),
            payload: Value::String(text).into(),
        },
    }
}

/// Decodes a complete sequence of JSON values as an array.
fn decode_json_list(text: String, separator: char) -> DecodedBody {
    let records = text.split(separator).filter(|record| !record.trim().is_empty());
    match records.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>() {
        Ok(values) => Value::Array(values).into(),
        Err(error) => DecodedBody {
            warning: Some(format!(
                "the content type is a JSON sequence, but a value is not valid JSON: {error}"
            )),
            payload: Value::String(text).into(),
        },
    }
}

fn binary_value(body: &[u8], content_type: &str) -> Value {
    json!({"$binary": BASE64.encode(body), "contentType": content_type, "size": body.len()})
}

impl From<Value> for DecodedBody {
    fn from(value: Value) -> Self {
        Self { payload: value.into(), warning: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_decode_by_content_type_or_stay_raw() {
        let json_type = "application/json";
        let rows: [(&[u8], &str, Value, bool); 20] = [
            (b"{\"a\": 1}", json_type, json!({"a": 1}), false),
            (b"\xef\xbb\xbf[1]", "application/problem+json", json!([1]), false),
            (b"[\0\x31\0]\0", "application/json; charset=utf-16", json!([1]), false),
            (b"\"\xfc\"", "application/json; charset=latin1", json!("ü"), false),
            (b"", json_type, Value::Null, false),
            (b" \n", json_type, Value::Null, false),
            (b"null", json_type, Value::Null, false),
            (b"<html>", json_type, json!("<html>"), true),
            (b"{\"a\": 1} {\"a\": 2}", json_type, json!("{\"a\": 1} {\"a\": 2}"), true),
            (
                b"\xff",
                json_type,
                json!({"$binary": "/w==", "contentType": json_type, "size": 1}),
                true,
            ),
            (b"{\"a\": 1}", "text/plain", json!("{\"a\": 1}"), false),
            (b"\xfc", "text/plain; charset=iso-8859-1", json!("ü"), false),
            (
                b"\xfc",
                "text/plain",
                json!({"$binary": "/A==", "contentType": "text/plain", "size": 1}),
                false,
            ),
            (
                b"abc",
                "image/png",
                json!({"$binary": "YWJj", "contentType": "image/png", "size": 3}),
                false,
            ),
            (b"{\"a\": 1}", "", json!({"a": 1}), false),
            (b"12", "", json!("12"), false),
            (b"1\n\n{\"a\": 2}\r\n", "application/jsonl", json!([1, {"a": 2}]), false),
            (b"\x1e[\n1]\n\x1e2\n", "application/json-seq", json!([[1], 2]), false),
            (b"1\nx", "application/x-ndjson", json!("1\nx"), true),
            (
                b"\xff",
                "",
                json!({"$binary": "/w==", "contentType": "application/octet-stream", "size": 1}),
                false,
            ),
        ];
        for (body, content_type, expected, is_odd) in rows {
            for json_mode in [JsonMode::Raw, JsonMode::Parsed] {
                let data = decode_body(body.to_vec(), content_type, json_mode);
                let row = format!("{} {content_type}", String::from_utf8_lossy(body));
                assert_eq!(data.warning.is_some(), is_odd, "{row}");
                assert_eq!(data.payload.into_value().unwrap(), expected, "{row}");
            }
        }
    }

    #[test]
    fn json_is_parsed_only_when_needed_and_valid() {
        let text = "{ \"a\":  1.0 }";
        let read = |text: &str, json_mode| {
            decode_body(text.as_bytes().to_vec(), "application/json", json_mode)
        };
        assert_eq!(read(text, JsonMode::Raw).payload.as_raw().unwrap().get(), text);
        assert!(read(text, JsonMode::Parsed).payload.as_value().is_some());
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        let data = read(&deep, JsonMode::Parsed);
        assert_eq!(data.payload.as_raw().unwrap().get(), deep);
        assert!(data.warning.is_none());
    }
}
