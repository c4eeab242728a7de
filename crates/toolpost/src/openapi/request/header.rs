//! Header values. There is no escaping, so values that a header cannot contain are rejected.

use reqwest::header::HeaderValue;
use serde_json::Value;

use super::super::media_type;
use super::super::plan::{Parameter, ParameterSerialization};
use super::binary::parameter_bytes;
use super::escape::PercentEscape;
use super::style::ValueSerializer;
use super::value::scalar_text;
use crate::json::ValuePath;
use crate::schema::Issue;

/// Headers that control routing and framing; from the input, they allow request smuggling.
const RESERVED_HEADERS: [&str; 11] = [
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

/// Whether only the HTTP client may set a header.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// Encodes the value of a header parameter.
pub(super) fn encode_header(parameter: &Parameter, value: &Value) -> Result<HeaderValue, Issue> {
    if let Some(bytes) = parameter_bytes(parameter, value)? {
        // Bytes that are not ASCII are rejected, as in a string.
        let text = String::from_utf8_lossy(&bytes);
        return to_header_value(&text)
            .map_err(|reason| ValuePath::ROOT.member(&parameter.input).issue(reason));
    }
    let mut out = String::new();
    match &parameter.serialization {
        ParameterSerialization::Style { style, explode, .. } => {
            let serializer =
                ValueSerializer { style: *style, explode: *explode, escape: PercentEscape::None };
            serializer.append_inline(&mut out, &parameter.name, value);
        }
        ParameterSerialization::Content(media_type) if media_type::is_json(media_type) => {
            out = ascii_json(value);
        }
        ParameterSerialization::Content(_) => out.push_str(&scalar_text(value)),
    }
    to_header_value(&out).map_err(|reason| ValuePath::ROOT.member(&parameter.input).issue(reason))
}

/// Converts text to a header value. Fails if the service would not receive it unchanged.
pub(super) fn to_header_value(value: &str) -> Result<HeaderValue, &'static str> {
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return Err("a header value cannot start or end with white space");
    }
    if !value.is_ascii() {
        return Err("a header value must be ASCII; encode it as the service expects");
    }
    HeaderValue::from_str(value).map_err(|_| "a header value cannot contain control characters")
}

/// Formats a value as JSON with only printable ASCII characters.
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
