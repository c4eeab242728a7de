//! An independent reading of what the styles write: from the text on the wire back to a value.

use serde_json::{Map, Value, json};

use crate::openapi::plan::Style;

/// What is expected to be read: a kind of value tells what the text may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    One,
    List,
    Object,
}

impl Kind {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
            _ => Self::One,
        }
    }
}

/// Everything as texts, because that is all that arrives.
pub(super) fn as_texts(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(as_texts).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), as_texts(value))).collect()
        }
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

/// A value in a path segment or a header.
pub(super) fn inline(style: Style, explode: bool, kind: Kind, name: &str, text: &str) -> Value {
    let (text, between) = match (style, explode) {
        (Style::Matrix, true) if kind != Kind::One => {
            return pairs(kind, name, text.strip_prefix(';').unwrap(), ";");
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
    joined(kind, text, between, explode)
}

/// A value in a query, a cookie or a form.
pub(super) fn query(style: Style, explode: bool, kind: Kind, name: &str, text: &str) -> Value {
    let (between, pair) = match style {
        Style::SpaceDelimited => ("%20", "&"),
        Style::PipeDelimited => ("%7C", "&"),
        Style::TabDelimited => ("%09", "&"),
        Style::Cookie => (",", "; "),
        _ => (",", "&"),
    };
    if style == Style::DeepObject && kind == Kind::Object {
        return deep(name, text);
    }
    if explode && kind != Kind::One {
        return pairs(kind, name, text, pair);
    }
    let (key, text) = text.split_once('=').unwrap();
    assert_eq!(decoded(key), name);
    joined(kind, text, between, false)
}

pub(super) fn decoded(text: &str) -> String {
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

fn joined(kind: Kind, text: &str, between: &str, explode: bool) -> Value {
    let pieces: Vec<&str> = text.split(between).collect();
    match kind {
        Kind::One => json!(decoded(text)),
        Kind::List => pieces.iter().map(|piece| json!(decoded(piece))).collect(),
        Kind::Object if explode => pieces.iter().map(|piece| pair(piece)).collect(),
        Kind::Object => {
            let pairs = pieces.chunks(2);
            pairs.map(|pair| (decoded(pair[0]), json!(decoded(pair[1])))).collect()
        }
    }
}

fn pair(text: &str) -> (String, Value) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (decoded(name), json!(decoded(value)))
}

fn pairs(kind: Kind, name: &str, text: &str, between: &str) -> Value {
    let pairs = text.split(between).map(pair);
    if kind == Kind::Object {
        return pairs.collect();
    }
    pairs
        .map(|(key, value)| {
            assert_eq!(key, name);
            value
        })
        .collect()
}

fn deep(name: &str, text: &str) -> Value {
    let mut found = Map::new();
    for (key, value) in text.split('&').map(pair) {
        let inner = key.strip_prefix(name).unwrap().strip_prefix('[').unwrap();
        found.insert(inner.strip_suffix(']').unwrap().to_owned(), value);
    }
    Value::Object(found)
}
