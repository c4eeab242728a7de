//! Independent decoder for serialization styles, from the text on the wire to a value.

use serde_json::{Map, Value, json};

use crate::openapi::plan::Style;

/// The expected kind of a value, which determines how its text is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    Scalar,
    Array,
    Object,
}

impl ValueKind {
    pub(super) fn of_value(value: &Value) -> Self {
        match value {
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
            _ => Self::Scalar,
        }
    }
}

/// Converts all scalars to strings, because the wire format has no types.
pub(super) fn stringify_scalars(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(stringify_scalars).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), stringify_scalars(value))).collect()
        }
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

/// Decodes a value from a path segment or header.
pub(super) fn decode_inline(
    style: Style,
    explode: bool,
    kind: ValueKind,
    name: &str,
    text: &str,
) -> Value {
    let (text, between) = match (style, explode) {
        (Style::Matrix, true) if kind != ValueKind::Scalar => {
            return decode_pairs(kind, name, text.strip_prefix(';').unwrap(), ";");
        }
        (Style::Matrix, _) => {
            let text = text.strip_prefix(';').unwrap().strip_prefix(name).unwrap();
            (text.strip_prefix('=').unwrap_or(text), ",")
        }
        (Style::Label, true) => (text.strip_prefix('.').unwrap(), "."),
        (Style::Label, false) => (text.strip_prefix('.').unwrap(), ","),
        (Style::SpaceDelimited, _) => (text, "%20"),
        (Style::PipeDelimited, _) => (text, "%7C"),
        (Style::TabDelimited, _) => (text, "%09"),
        _ => (text, ","),
    };
    decode_joined(kind, text, between, explode)
}

/// Decodes a value from a query, cookie or form.
pub(super) fn decode_query(
    style: Style,
    explode: bool,
    kind: ValueKind,
    name: &str,
    text: &str,
) -> Value {
    let (between, pair) = match style {
        Style::SpaceDelimited => ("%20", "&"),
        Style::PipeDelimited => ("%7C", "&"),
        Style::TabDelimited => ("%09", "&"),
        Style::Cookie => (",", "; "),
        _ => (",", "&"),
    };
    if style == Style::DeepObject && kind == ValueKind::Object {
        return decode_deep_object(name, text);
    }
    if explode && kind != ValueKind::Scalar {
        return decode_pairs(kind, name, text, pair);
    }
    let (key, text) = text.split_once('=').unwrap();
    assert_eq!(percent_decode(key), name);
    decode_joined(kind, text, between, false)
}

pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let pair = std::str::from_utf8(&after[..2]).unwrap();
            bytes.push(u8::from_str_radix(pair, 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn decode_joined(kind: ValueKind, text: &str, between: &str, explode: bool) -> Value {
    let pieces: Vec<&str> = text.split(between).collect();
    match kind {
        ValueKind::Scalar => json!(percent_decode(text)),
        ValueKind::Array => pieces.iter().map(|piece| json!(percent_decode(piece))).collect(),
        ValueKind::Object if explode => pieces.iter().map(|piece| decode_pair(piece)).collect(),
        ValueKind::Object => {
            let pairs = pieces.chunks(2);
            pairs.map(|pair| (percent_decode(pair[0]), json!(percent_decode(pair[1])))).collect()
        }
    }
}

fn decode_pair(text: &str) -> (String, Value) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (percent_decode(name), json!(percent_decode(value)))
}

fn decode_pairs(kind: ValueKind, name: &str, text: &str, between: &str) -> Value {
    let pairs = text.split(between).map(decode_pair);
    if kind == ValueKind::Object {
        return pairs.collect();
    }
    pairs
        .map(|(key, value)| {
            assert_eq!(key, name);
            value
        })
        .collect()
}

fn decode_deep_object(name: &str, text: &str) -> Value {
    let mut found = Map::new();
    for (key, value) in text.split('&').map(decode_pair) {
        let inner = key.strip_prefix(name).unwrap().strip_prefix('[').unwrap();
        found.insert(inner.strip_suffix(']').unwrap().to_owned(), value);
    }
    Value::Object(found)
}
