//! Multipart bodies (RFC 2046) and multipart forms (RFC 7578).

use std::borrow::Cow;

use memchr::memmem;
use reqwest::header::HeaderName;
use serde_json::Value;

use super::super::super::media_type::{self, MediaKind};
use super::super::super::plan::{BodyContent, PropertyEncoding};
use super::super::binary::{BINARY_HINT, BinaryValue, OCTET_STREAM, contains_binary};
use super::super::escape::PercentEscape;
use super::super::header::to_header_value;
use super::super::style::ValueSerializer;
use super::super::value::{scalar_text, type_with_article};
use super::{EncodedBody, encoded_body, with_charset};
use crate::json::ValuePath;
use crate::schema::Issue;

const FORM_DATA: &str = "multipart/form-data";

/// One part of a multipart body.
struct MultipartPart<'v> {
    /// Name of the form field. `None` in an array of parts, which are identified by their order.
    name: Option<Cow<'v, str>>,
    filename: Option<Cow<'v, str>>,
    media_type: Cow<'v, str>,
    headers: &'v [(String, String)],
    bytes: Cow<'v, [u8]>,
}

/// Whether the body is sent as `multipart/form-data`. This includes ranges and invalid types.
pub(super) fn is_form_data(content: &BodyContent) -> bool {
    !media_type::is_concrete(&content.media_type)
        || media_type::covers(&content.media_type, FORM_DATA)
}

pub(super) fn encode(
    content: &BodyContent,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<EncodedBody, Issue> {
    let mut parts = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let encoding = content.encodings.iter().find(|encoding| encoding.property == *name);
        push_property_parts(&mut parts, encoding, name, value, &path.member(name))?;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        parts.push(build_part(None, None, item, &path.item(index))?);
    }
    let boundary = boundary(&parts).map_err(|reason| path.issue(reason))?;
    let essence = if is_form_data(content) { FORM_DATA } else { content.media_type.as_str() };
    let media_type = format!("{essence}; boundary={boundary}");
    encoded_body(&media_type, assemble(&parts, &boundary), path)
}

/// Adds the parts of a property. An array becomes one part per item.
fn push_property_parts<'v>(
    parts: &mut Vec<MultipartPart<'v>>,
    encoding: Option<&'v PropertyEncoding>,
    name: &'v str,
    value: &'v Value,
    path: &ValuePath<'_>,
) -> Result<(), Issue> {
    if let Some((style, explode, _)) = encoding.and_then(|encoding| encoding.style)
        && !contains_binary(value)
    {
        let serializer = ValueSerializer { style, explode, escape: PercentEscape::None };
        serializer.for_each_pair(name, value, |name, value| {
            parts.push(styled_part(encoding, name, value));
        });
        return Ok(());
    }
    match value {
        Value::Null => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                parts.push(build_part(encoding, Some(name), item, &path.item(index))?);
            }
        }
        one => parts.push(build_part(encoding, Some(name), one, path)?),
    }
    Ok(())
}

fn styled_part<'v>(
    encoding: Option<&'v PropertyEncoding>,
    name: &str,
    value: &str,
) -> MultipartPart<'v> {
    let media_type = with_charset("text/plain", value).unwrap_or("text/plain".into());
    MultipartPart {
        name: Some(name.to_owned().into()),
        filename: None,
        media_type: media_type.into_owned().into(),
        headers: encoding.map(|encoding| encoding.headers.as_slice()).unwrap_or_default(),
        bytes: value.as_bytes().to_vec().into(),
    }
}

fn build_part<'v>(
    encoding: Option<&'v PropertyEncoding>,
    name: Option<&'v str>,
    value: &'v Value,
    path: &ValuePath<'_>,
) -> Result<MultipartPart<'v>, Issue> {
    let declared =
        encoding.and_then(|encoding| first_declared_type(encoding.content_type.as_deref()?));
    let headers = encoding.map(|encoding| encoding.headers.as_slice()).unwrap_or_default();
    let new = |filename, media_type, bytes| MultipartPart {
        name: name.map(Cow::from),
        filename,
        media_type,
        headers,
        bytes,
    };
    if let Some(binary) = BinaryValue::from_value(value) {
        let media_type = binary.declared_type(path)?.or(declared).unwrap_or(OCTET_STREAM);
        // Most form parsers treat a file without a file name as a field.
        let filename = binary.filename.or(name).map(Cow::from);
        return Ok(new(filename, media_type.into(), binary.decode(path)?.into()));
    }
    match (value, declared) {
        (value, Some(declared)) if media_type::is_json(declared) => {
            Ok(new(None, declared.into(), value.to_string().into_bytes().into()))
        }
        (Value::Array(_) | Value::Object(_), None) => {
            Ok(new(None, "application/json".into(), value.to_string().into_bytes().into()))
        }
        (Value::Array(_) | Value::Object(_), Some(declared)) => {
            let what = type_with_article(value);
            Err(path.issue(format!("{what} cannot be sent as `{declared}`; pass it as a string")))
        }
        (Value::String(_), Some(declared))
            if MediaKind::of_request(declared) == MediaKind::Binary =>
        {
            Err(path.issue(format!("text cannot be sent as `{declared}`{BINARY_HINT}")))
        }
        (one, declared) => {
            let text = scalar_text(one);
            let media_type = with_charset(declared.unwrap_or("text/plain"), &text);
            let media_type = media_type.map_err(|reason| path.issue(reason))?;
            Ok(new(None, media_type, into_bytes(text)))
        }
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// Returns the first type of a comma-separated list that is valid and not a range.
fn first_declared_type(list: &str) -> Option<&str> {
    let mut types = list.split(',').map(str::trim);
    types.find(|one| media_type::is_concrete(one))
}

/// Returns a random boundary that occurs in none of the parts.
fn boundary(parts: &[MultipartPart<'_>]) -> Result<String, &'static str> {
    loop {
        let mut random = [0; 16];
        getrandom::fill(&mut random)
            .map_err(|_| "the system has no random bytes for the multipart boundary")?;
        let boundary = format!("toolpost-{}", data_encoding::HEXLOWER.encode(&random));
        let finder = memmem::Finder::new(&boundary);
        if parts.iter().all(|part| finder.find(&part.bytes).is_none()) {
            return Ok(boundary);
        }
    }
}

fn assemble(parts: &[MultipartPart<'_>], boundary: &str) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.bytes.len() + 200).sum();
    let mut out = Vec::with_capacity(length);
    for part in parts {
        out.extend_from_slice(format!("--{boundary}\r\n{}\r\n", part_headers(part)).as_bytes());
        out.extend_from_slice(&part.bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

fn part_headers(part: &MultipartPart<'_>) -> String {
    let mut head = String::new();
    if let Some(name) = &part.name {
        head.push_str(&format!("Content-Disposition: form-data; name=\"{}\"", escape_quoted(name)));
    } else if part.filename.is_some() {
        head.push_str("Content-Disposition: attachment");
    }
    if let Some(filename) = &part.filename {
        head.push_str(&format!("; filename=\"{}\"", escape_quoted(filename)));
    }
    head.push_str(if head.is_empty() { "" } else { "\r\n" });
    head.push_str(&format!("Content-Type: {}\r\n", part.media_type));
    for (name, value) in part.headers.iter().filter(|(name, value)| is_allowed_header(name, value))
    {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

/// Whether a declared header may be added to a part. Some are reserved.
fn is_allowed_header(name: &str, value: &str) -> bool {
    let is_reserved = ["content-type", "content-disposition"]
        .iter()
        .any(|reserved| reserved.eq_ignore_ascii_case(name));
    !is_reserved && name.parse::<HeaderName>().is_ok() && to_header_value(value).is_ok()
}

/// Escapes a quoted name as browsers do.
fn escape_quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
