//! Request bodies: selects the media type for a value and encodes it.

mod form;
mod multipart;

use bytes::Bytes;
use reqwest::header::HeaderValue;
use serde_json::Value;

use super::super::media_type::{self, MediaKind};
use super::super::plan::{BodyContent, RequestBody};
use super::binary::{BINARY_HINT, BinaryValue, contains_binary};
use super::value::{scalar_text, type_with_article};
use crate::json::{JsonObject, ValuePath};
use crate::schema::Issue;

/// An encoded body with its content type.
#[derive(Debug)]
pub(super) struct EncodedBody {
    pub(super) content_type: HeaderValue,
    pub(super) bytes: Bytes,
}

/// Encodes the body of an input, if there is one.
pub(super) fn encode_body(
    body: &RequestBody,
    input: &JsonObject,
) -> Result<Option<EncodedBody>, Issue> {
    let path = ValuePath::ROOT.member(&body.input);
    let value = match input.get(&body.input) {
        Some(Value::Null) | None if !body.required => return Ok(None),
        Some(value) => value,
        None => return Err(path.issue("required property is missing")),
    };
    let content = select_content(&body.contents, value)
        .ok_or_else(|| path.issue(no_content_message(&body.contents, value)))?;
    encode(content, value, &path).map(Some)
}

/// Selects the first media type for a value. A `$binary` value prefers the type it states.
fn select_content<'c>(contents: &'c [BodyContent], value: &Value) -> Option<&'c BodyContent> {
    let Some(binary) = BinaryValue::from_value(value) else {
        // A value that contains files prefers multipart; in JSON a file would be sent as an object.
        let parts = contents.iter().find(|content| content.kind == MediaKind::Multipart);
        let parts = parts.filter(|content| contains_file(value) && accepts(content, value));
        return parts.or_else(|| contents.iter().find(|content| accepts(content, value)));
    };
    let stated = binary.content_type.and_then(|stated| {
        contents.iter().find(|content| media_type::covers(&content.media_type, stated))
    });
    let of_kind = |kind| contents.iter().find(|content| content.kind == kind);
    let bytes = || of_kind(MediaKind::Binary).or_else(|| of_kind(MediaKind::Text));
    // If only JSON is declared, the `$binary` object is sent as plain JSON.
    stated.or_else(bytes).or_else(|| of_kind(MediaKind::Json))
}

/// Whether a member of an object is a file or an array that contains one.
fn contains_file(value: &Value) -> bool {
    value.as_object().is_some_and(|members| members.values().any(contains_binary))
}

fn accepts(content: &BodyContent, value: &Value) -> bool {
    match content.kind {
        MediaKind::Json => true,
        MediaKind::JsonLines | MediaKind::JsonSequence => value.is_array(),
        MediaKind::Form => value.is_object(),
        MediaKind::Multipart => {
            value.is_object() || (value.is_array() && !multipart::is_form_data(content))
        }
        MediaKind::Text | MediaKind::EventStream => {
            value.is_string() || value.is_number() || value.is_boolean()
        }
        MediaKind::Binary | MediaKind::Unknown => false,
    }
}

fn no_content_message(contents: &[BodyContent], value: &Value) -> String {
    let types: Vec<String> = contents.iter().map(|one| format!("`{}`", one.media_type)).collect();
    let has_kind = |kind| contents.iter().any(|one| one.kind == kind);
    let hint = match () {
        () if has_kind(MediaKind::Text) => "; pass it as a string in its serialized form",
        () if has_kind(MediaKind::Binary) => BINARY_HINT,
        () => "",
    };
    format!("{} cannot be sent as {}{hint}", type_with_article(value), types.join(" or "))
}

fn encode(
    content: &BodyContent,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<EncodedBody, Issue> {
    let declared = content.media_type.as_str();
    // In JSON, bytes have no meaning, and the object is sent as it is.
    let is_json = content.kind == MediaKind::Json
        && (media_type::is_json(declared) || !media_type::is_range(declared));
    if let Some(binary) = BinaryValue::from_value(value)
        && (!is_json || binary.has_type(declared))
    {
        let bytes = binary.decode(path)?;
        return encoded_body(&binary.content_type_for(declared, path)?, bytes, path);
    }
    let or_default = |default| declared_or_default(declared, default);
    match content.kind {
        MediaKind::Json => encoded_body(or_default("application/json"), json_bytes(value), path),
        MediaKind::JsonLines | MediaKind::JsonSequence => {
            encoded_body(or_default("application/jsonl"), json_list(declared, value), path)
        }
        MediaKind::Form => {
            let form = form::encode(content, value, path)?;
            encoded_body(or_default("application/x-www-form-urlencoded"), form, path)
        }
        MediaKind::Multipart => multipart::encode(content, value, path),
        MediaKind::Text | MediaKind::EventStream => {
            encode_text(or_default("text/plain"), value, path)
        }
        MediaKind::Binary | MediaKind::Unknown => {
            Err(path.issue(no_content_message(std::slice::from_ref(content), value)))
        }
    }
}

/// Encodes each item on a line, for `json-seq` after a record separator (RFC 7464).
fn json_list(media_type: &str, value: &Value) -> Vec<u8> {
    let is_sequence = media_type::essence(media_type).to_ascii_lowercase().ends_with("json-seq");
    let separator = if is_sequence { "\x1e" } else { "" };
    let items = value.as_array().into_iter().flatten();
    items.map(|item| format!("{separator}{item}\n")).collect::<String>().into_bytes()
}

/// Returns the declared type, or the default if the declared type is a range or invalid.
fn declared_or_default<'m>(declared: &'m str, default: &'m str) -> &'m str {
    if media_type::is_concrete(declared) { declared } else { default }
}

fn json_bytes(value: &Value) -> Vec<u8> {
    serde_json::to_vec(value).expect("a JSON value serializes")
}

fn encode_text(
    media_type: &str,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<EncodedBody, Issue> {
    let text = scalar_text(value);
    let media_type = with_charset(media_type, &text).map_err(|reason| path.issue(reason))?;
    encoded_body(&media_type, text.into_owned().into_bytes(), path)
}

/// Adds `charset=utf-8` to a `text/*` type if needed. Fails for another declared charset.
fn with_charset<'m>(
    media_type: &'m str,
    text: &str,
) -> Result<std::borrow::Cow<'m, str>, &'static str> {
    if text.is_ascii() {
        return Ok(media_type.into());
    }
    match media_type::parameter(media_type, "charset") {
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

fn encoded_body(
    media_type: &str,
    bytes: impl Into<Bytes>,
    path: &ValuePath<'_>,
) -> Result<EncodedBody, Issue> {
    let content_type = HeaderValue::from_str(media_type)
        .map_err(|_| path.issue("its content type is not a valid header value"))?;
    Ok(EncodedBody { content_type, bytes: bytes.into() })
}
