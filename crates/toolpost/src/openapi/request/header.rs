//! Values of headers. No style escapes anything here, so what a header cannot carry is refused.

use reqwest::header::HeaderValue;
use serde_json::Value;

use super::super::plan::{Notation, Parameter};
use super::escape::Escape;
use super::media;
use super::place::Place;
use super::style::Manner;
use super::value::text;
use crate::schema::Issue;

/// Those that say where a message goes and where it ends; a caller who could set them would set the
/// next message too.
const OWN: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether a header is the business of whoever sends the request.
pub(super) fn is_own(name: &str) -> bool {
    OWN.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The value of a header parameter.
pub(super) fn header(parameter: &Parameter, value: &Value) -> Result<HeaderValue, Issue> {
    let mut out = String::new();
    match &parameter.notation {
        Notation::Style { style, explode, .. } => {
            let manner = Manner { style: *style, explode: *explode, escape: Escape::Nothing };
            manner.inline(&mut out, &parameter.name, value);
        }
        Notation::Content(media_type) if media::is_json(media_type) => out = ascii_json(value),
        Notation::Content(_) => out.push_str(&text(value)),
    }
    sendable(&out).map_err(|reason| Place::of(&parameter.input).issue(reason))
}

/// A text as the value of a header, if it arrives as it was.
pub(super) fn sendable(value: &str) -> Result<HeaderValue, &'static str> {
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return Err("a header loses the white space around its value, so this cannot be sent");
    }
    if !value.is_ascii() {
        return Err("a header carries only ASCII; encode it in the way that the service expects");
    }
    HeaderValue::from_str(value).map_err(|_| "a header carries no control characters")
}

/// JSON without a character that a header cannot carry.
fn ascii_json(value: &Value) -> String {
    let json = value.to_string();
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            out.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}
