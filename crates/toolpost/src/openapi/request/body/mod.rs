//! Bodies: which of the declared types a value is sent as, and the bytes that it becomes.

mod binary;
mod form;
mod lines;
mod multipart;

use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};

use super::super::plan::{Body, Content, ContentKind};
use super::media;
use super::place::Place;
use super::value::{kind, text};
use crate::schema::Issue;
use binary::Binary;

/// Bytes and what they are.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) content_type: HeaderValue,
    pub(super) bytes: Bytes,
}

/// The body for an input, if there is one.
pub(super) fn write(body: &Body, input: &Map<String, Value>) -> Result<Option<Written>, Issue> {
    let place = Place::of(&body.input);
    let value = match input.get(&body.input) {
        Some(Value::Null) | None if !body.required => return Ok(None),
        Some(value) => value,
        None => return Err(place.issue("this property is required and missing")),
    };
    let content =
        choose(&body.contents, value).ok_or_else(|| place.issue(unfit(&body.contents, value)))?;
    written(content, value, &place).map(Some)
}

/// The first type that a value can be sent as; bytes that say what they are go as that, if they may.
fn choose<'c>(contents: &'c [Content], value: &Value) -> Option<&'c Content> {
    let Some(binary) = Binary::of(value) else {
        // A file inside of a value is one only among parts; in JSON it would be words about a file.
        let parts = contents.iter().find(|content| content.kind == ContentKind::Multipart);
        let parts = parts.filter(|content| holds_file(value) && fits(content, value));
        return parts.or_else(|| contents.iter().find(|content| fits(content, value)));
    };
    let stated = binary.content_type.and_then(|stated| {
        contents.iter().find(|content| media::covers(&content.media_type, stated))
    });
    let of_kind = |kind| contents.iter().find(|content| content.kind == kind);
    let bytes = || of_kind(ContentKind::Binary).or_else(|| of_kind(ContentKind::Text));
    // Where nothing but JSON is expected, it is an object like any other.
    stated.or_else(bytes).or_else(|| of_kind(ContentKind::Json))
}

/// Whether a member of a value, or an item of one, is a file.
fn holds_file(value: &Value) -> bool {
    let is_file = |value: &Value| Binary::of(value).is_some();
    let Value::Object(members) = value else { return false };
    members.values().any(|member| match member {
        Value::Array(items) => items.iter().any(is_file),
        one => is_file(one),
    })
}

fn fits(content: &Content, value: &Value) -> bool {
    match content.kind {
        ContentKind::Json => true,
        ContentKind::JsonLines => value.is_array(),
        ContentKind::Form => value.is_object(),
        ContentKind::Multipart => {
            value.is_object() || (value.is_array() && !multipart::is_form_data(content))
        }
        ContentKind::Text => value.is_string() || value.is_number() || value.is_boolean(),
        ContentKind::Binary => value.is_string() || takes_json(content),
    }
}

/// Whether a range leaves room for a value that is nothing but JSON.
fn takes_json(content: &Content) -> bool {
    media::is_range(&content.media_type) && media::covers(&content.media_type, "application/json")
}

fn unfit(contents: &[Content], value: &Value) -> String {
    let types: Vec<String> = contents.iter().map(|one| format!("`{}`", one.media_type)).collect();
    let hint = if contents.iter().any(|one| one.kind == ContentKind::Text) {
        "; give it as text, as it is to be sent"
    } else {
        ""
    };
    format!("{} cannot be sent as {}{hint}", kind(value), types.join(" or "))
}

fn written(content: &Content, value: &Value, place: &Place<'_>) -> Result<Written, Issue> {
    let declared = content.media_type.as_str();
    if let Some(binary) = Binary::of(value)
        && (content.kind != ContentKind::Json || binary.is(declared))
    {
        let bytes = binary.decode(place)?;
        return typed(&binary.sent_as(declared, place)?, bytes, place);
    }
    match content.kind {
        ContentKind::Json => typed(declared_or(declared, "application/json"), json(value), place),
        ContentKind::JsonLines => {
            typed(declared_or(declared, "application/jsonl"), lines::write(declared, value), place)
        }
        ContentKind::Form => {
            let form = form::write(content, value, place)?;
            typed(declared_or(declared, "application/x-www-form-urlencoded"), form, place)
        }
        ContentKind::Multipart => multipart::write(content, value, place),
        ContentKind::Text => plain(declared_or(declared, "text/plain"), value, place),
        ContentKind::Binary => unlabeled(declared, value, place),
    }
}

/// A value where bytes are expected: a text is base64, unless anything may be sent.
fn unlabeled(declared: &str, value: &Value, place: &Place<'_>) -> Result<Written, Issue> {
    match value {
        Value::String(_) if media::essence(declared) == "*/*" => plain("text/plain", value, place),
        Value::String(encoded) => {
            let bytes = binary::decode(encoded, place)?;
            typed(declared_or(declared, "application/octet-stream"), bytes, place)
        }
        other => typed("application/json", json(other), place),
    }
}

/// The type of the document, unless it stands for several or is none.
fn declared_or<'m>(declared: &'m str, usual: &'m str) -> &'m str {
    if media::is_valid(declared) && !media::is_range(declared) { declared } else { usual }
}

fn json(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a value is JSON already")
}

fn plain(media_type: &str, value: &Value, place: &Place<'_>) -> Result<Written, Issue> {
    let text = text(value);
    let media_type = with_charset(media_type, &text).map_err(|reason| place.issue(reason))?;
    typed(&media_type, text.into_owned().into_bytes(), place)
}

/// The type of a text, which says how it is written where that matters.
fn with_charset<'m>(
    media_type: &'m str,
    text: &str,
) -> Result<std::borrow::Cow<'m, str>, &'static str> {
    if text.is_ascii() {
        return Ok(media_type.into());
    }
    match media::parameter(media_type, "charset") {
        Some(charset) if charset.eq_ignore_ascii_case("utf-8") => Ok(media_type.into()),
        Some(_) => {
            Err("the service expects another character set than UTF-8; send it as `$binary`")
        }
        None if media_type.to_ascii_lowercase().starts_with("text/") => {
            Ok(format!("{media_type}; charset=utf-8").into())
        }
        None => Ok(media_type.into()),
    }
}

fn typed(media_type: &str, bytes: impl Into<Bytes>, place: &Place<'_>) -> Result<Written, Issue> {
    let content_type = HeaderValue::from_str(media_type)
        .map_err(|_| place.issue("its content type does not fit a header"))?;
    Ok(Written { content_type, bytes: bytes.into() })
}
