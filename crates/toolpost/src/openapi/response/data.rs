//! From the bytes of a body to data.

use data_encoding::BASE64;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::charset;
use super::media::{self, Media};
use crate::payload::Payload;

/// What a body is.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) payload: Payload,
    /// What is wrong with it.
    pub(crate) oddity: Option<String>,
}

/// Whether somebody is going to look into JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It stays text, which costs a tenth of what a tree does.
    Raw,
    Value,
}

/// Reads a body as what its service says it is: JSON as its value, text as text, everything else as
/// `$binary`, and nothing as null. What is not what it says it is stays what it is, text or bytes.
pub(crate) fn data(body: Vec<u8>, content_type: &str, reading: Reading) -> Data {
    if body.is_empty() {
        return Value::Null.into();
    }
    match Media::of(content_type) {
        Media::Binary => binary(&body, content_type).into(),
        Media::Unknown => unknown(body, reading),
        Media::Json => json(body, content_type, reading),
        Media::JsonLines => list(body, content_type, '\n'),
        Media::JsonSequence => list(body, content_type, '\u{1e}'),
        Media::Text | Media::Events => text(body, content_type),
    }
}

/// The value that a text is in JSON, if it is one.
pub(crate) fn parsed(text: &str, reading: Reading) -> Result<Payload, serde_json::Error> {
    if reading == Reading::Value
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        return Ok(value.into());
    }
    // What nests too deep for a tree may still be handed on.
    serde_json::from_str::<Box<RawValue>>(text).map(Payload::from)
}

fn json(body: Vec<u8>, content_type: &str, reading: Reading) -> Data {
    let text = match charset::text(body, media::charset(content_type)) {
        Ok(text) => text,
        Err(body) => {
            let oddity = "the service says that this is JSON, and it is no text".to_owned();
            let payload = binary(&body, content_type).into();
            return Data { payload, oddity: Some(oddity) };
        }
    };
    match parsed(&text, reading) {
        Ok(payload) => Data { payload, oddity: None },
        Err(_) if text.trim().is_empty() => Value::Null.into(),
        Err(error) => Data {
            oddity: Some(format!("the service says that this is JSON, and it is not: {error}")),
            payload: Value::String(text).into(),
        },
    }
}

fn text(body: Vec<u8>, content_type: &str) -> Data {
    match charset::text(body, media::charset(content_type)) {
        Ok(text) => Value::String(text).into(),
        Err(body) => binary(&body, content_type).into(),
    }
}

/// Values in a row that are all there are a list.
fn list(body: Vec<u8>, content_type: &str, separator: char) -> Data {
    let text = match charset::text(body, media::charset(content_type)) {
        Ok(text) => text,
        Err(body) => return binary(&body, content_type).into(),
    };
    let records = text.split(separator).filter(|record| !record.trim().is_empty());
    match records.map(serde_json::from_str).collect::<Result<Vec<Value>, _>>() {
        Ok(values) => Value::Array(values).into(),
        Err(error) => Data {
            oddity: Some(format!(
                "the service says that these are JSON values, and they are not: {error}"
            )),
            payload: Value::String(text).into(),
        },
    }
}

/// What a service says nothing about is JSON if it can be, else text if it can be.
fn unknown(body: Vec<u8>, reading: Reading) -> Data {
    let text = match charset::text(body, None) {
        Ok(text) => text,
        Err(body) => return binary(&body, "application/octet-stream").into(),
    };
    let is_document = text.trim_start().starts_with(['{', '[']);
    match parsed(&text, reading) {
        Ok(payload) if is_document => Data { payload, oddity: None },
        _ => Value::String(text).into(),
    }
}

fn binary(body: &[u8], content_type: &str) -> Value {
    json!({"$binary": BASE64.encode(body), "contentType": content_type, "size": body.len()})
}

impl From<Value> for Data {
    fn from(value: Value) -> Self {
        Self { payload: value.into(), oddity: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_what_they_say_they_are_or_stay_what_they_are() {
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
            for reading in [Reading::Raw, Reading::Value] {
                let data = data(body.to_vec(), content_type, reading);
                let row = format!("{} {content_type}", String::from_utf8_lossy(body));
                assert_eq!(data.oddity.is_some(), is_odd, "{row}");
                assert_eq!(data.payload.into_value().unwrap(), expected, "{row}");
            }
        }
    }

    #[test]
    fn json_is_a_tree_only_if_somebody_looks_at_it_and_it_can_be_one() {
        let text = "{ \"a\":  1.0 }";
        let read =
            |text: &str, reading| data(text.as_bytes().to_vec(), "application/json", reading);
        assert_eq!(read(text, Reading::Raw).payload.as_raw().unwrap().get(), text);
        assert!(read(text, Reading::Value).payload.as_value().is_some());
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        let data = read(&deep, Reading::Value);
        assert_eq!(data.payload.as_raw().unwrap().get(), deep);
        assert!(data.oddity.is_none());
    }
}
