//! Bodies in parts (RFC 2046), and forms in parts (RFC 7578).

use std::borrow::Cow;

use memchr::memmem;
use reqwest::header::HeaderName;
use serde_json::Value;

use super::super::super::plan::{Content, Encoding};
use super::super::escape::Escape;
use super::super::header::sendable;
use super::super::media;
use super::super::place::Place;
use super::super::style::Manner;
use super::super::value::{kind, text};
use super::binary::Binary;
use super::{Written, typed, with_charset};
use crate::schema::Issue;

const FORM: &str = "multipart/form-data";
const BYTES: &str = "application/octet-stream";

/// One part, before it is written.
struct Part<'v> {
    /// None in a list of parts, where only the order counts.
    name: Option<Cow<'v, str>>,
    filename: Option<Cow<'v, str>>,
    media_type: Cow<'v, str>,
    headers: &'v [(String, String)],
    bytes: Cow<'v, [u8]>,
}

/// Whether the parts are the fields of a form.
pub(super) fn is_form_data(content: &Content) -> bool {
    let is_valid = media::is_valid(&content.media_type) && !media::is_range(&content.media_type);
    !is_valid || media::covers(&content.media_type, FORM)
}

pub(super) fn write(content: &Content, value: &Value, place: &Place<'_>) -> Result<Written, Issue> {
    let mut parts = Vec::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let encoding = content.encodings.iter().find(|encoding| encoding.property == *name);
        property(&mut parts, encoding, name, value, &place.member(name))?;
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        parts.push(part(None, None, item, &place.item(index))?);
    }
    let boundary = boundary(&parts).map_err(|reason| place.issue(reason))?;
    let essence = if is_form_data(content) { FORM } else { content.media_type.as_str() };
    let media_type = format!("{essence}; boundary={boundary}");
    typed(&media_type, assemble(&parts, &boundary), place)
}

/// The parts of a property: a list is one part for each item.
fn property<'v>(
    parts: &mut Vec<Part<'v>>,
    encoding: Option<&'v Encoding>,
    name: &'v str,
    value: &'v Value,
    place: &Place<'_>,
) -> Result<(), Issue> {
    if let Some((style, explode, _)) = encoding.and_then(|encoding| encoding.style) {
        let manner = Manner { style, explode, escape: Escape::Nothing };
        manner.pairs(name, value, |name, value| parts.push(styled(encoding, name, value)));
        return Ok(());
    }
    match value {
        Value::Null => {}
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
                parts.push(part(encoding, Some(name), item, &place.item(index))?);
            }
        }
        one => parts.push(part(encoding, Some(name), one, place)?),
    }
    Ok(())
}

fn styled<'v>(encoding: Option<&'v Encoding>, name: &str, value: &str) -> Part<'v> {
    let media_type = with_charset("text/plain", value).unwrap_or("text/plain".into());
    Part {
        name: Some(name.to_owned().into()),
        filename: None,
        media_type: media_type.into_owned().into(),
        headers: encoding.map(|encoding| encoding.headers.as_slice()).unwrap_or_default(),
        bytes: value.as_bytes().to_vec().into(),
    }
}

fn part<'v>(
    encoding: Option<&'v Encoding>,
    name: Option<&'v str>,
    value: &'v Value,
    place: &Place<'_>,
) -> Result<Part<'v>, Issue> {
    let declared = encoding.and_then(|encoding| declared(encoding.content_type.as_deref()?));
    let headers = encoding.map(|encoding| encoding.headers.as_slice()).unwrap_or_default();
    let new = |filename, media_type, bytes| Part {
        name: name.map(Cow::from),
        filename,
        media_type,
        headers,
        bytes,
    };
    // Without a name of its own a file is taken for a field, by most who read forms.
    let usual_name = name.map(Cow::from);
    if let Some(binary) = Binary::of(value) {
        let media_type = binary.stated(place)?.or(declared).unwrap_or(BYTES);
        let filename = binary.filename.map(Cow::from).or(usual_name);
        return Ok(new(filename, media_type.into(), binary.decode(place)?.into()));
    }
    let is_file = encoding.is_some_and(|encoding| encoding.is_binary);
    match (value, declared) {
        (Value::String(text), _) if is_file => {
            Ok(new(usual_name, declared.unwrap_or(BYTES).into(), text.as_bytes().into()))
        }
        (value, Some(declared)) if media::is_json(declared) => {
            Ok(new(None, declared.into(), value.to_string().into_bytes().into()))
        }
        (Value::Array(_) | Value::Object(_), None) => {
            Ok(new(None, "application/json".into(), value.to_string().into_bytes().into()))
        }
        (Value::Array(_) | Value::Object(_), Some(declared)) => {
            let what = kind(value);
            Err(place.issue(format!("{what} cannot be sent as `{declared}`; give it as text")))
        }
        (one, declared) => {
            let text = text(one);
            let media_type = with_charset(declared.unwrap_or("text/plain"), &text);
            let media_type = media_type.map_err(|reason| place.issue(reason))?;
            Ok(new(None, media_type, bytes(text)))
        }
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

/// The first type of a list that is one.
fn declared(list: &str) -> Option<&str> {
    let mut types = list.split(',').map(str::trim);
    types.find(|one| media::is_valid(one) && !media::is_range(one))
}

/// A line that is in none of the parts, and that nobody can guess who writes one of them.
fn boundary(parts: &[Part<'_>]) -> Result<String, &'static str> {
    loop {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| "there is no randomness for a boundary")?;
        let boundary = format!("toolpost-{}", data_encoding::HEXLOWER.encode(&random));
        let finder = memmem::Finder::new(&boundary);
        if parts.iter().all(|part| finder.find(&part.bytes).is_none()) {
            return Ok(boundary);
        }
    }
}

fn assemble(parts: &[Part<'_>], boundary: &str) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.bytes.len() + 200).sum();
    let mut out = Vec::with_capacity(length);
    for part in parts {
        out.extend_from_slice(format!("--{boundary}\r\n{}\r\n", head(part)).as_bytes());
        out.extend_from_slice(&part.bytes);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    out
}

fn head(part: &Part<'_>) -> String {
    let mut head = String::new();
    if let Some(name) = &part.name {
        head.push_str(&format!("Content-Disposition: form-data; name=\"{}\"", quoted(name)));
    } else if part.filename.is_some() {
        head.push_str("Content-Disposition: attachment");
    }
    if let Some(filename) = &part.filename {
        head.push_str(&format!("; filename=\"{}\"", quoted(filename)));
    }
    head.push_str(if head.is_empty() { "" } else { "\r\n" });
    head.push_str(&format!("Content-Type: {}\r\n", part.media_type));
    for (name, value) in part.headers.iter().filter(|(name, value)| may_stand(name, value)) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head
}

/// Whether a header of the document may stand in a part: what describes the part is settled.
fn may_stand(name: &str, value: &str) -> bool {
    let is_settled = ["content-type", "content-disposition"]
        .iter()
        .any(|settled| settled.eq_ignore_ascii_case(name));
    !is_settled && name.parse::<HeaderName>().is_ok() && sendable(value).is_ok()
}

/// Names in quotes, with what would end them escaped as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
