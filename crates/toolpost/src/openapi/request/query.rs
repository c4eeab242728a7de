//! Query strings: one pair after another in parameter order, or one value for the whole query.

use serde_json::Value;

use super::super::media_type::{self, MediaKind};
use super::super::plan::{Parameter, ParameterLocation, ParameterSerialization};
use super::binary::parameter_bytes;
use super::escape::PercentEscape;
use super::style::ValueSerializer;
use super::value::scalar_text;
use crate::schema::Issue;

/// Appends a parameter to a query, which may be empty.
pub(super) fn append_parameter(
    query: &mut String,
    parameter: &Parameter,
    value: &Value,
) -> Result<(), Issue> {
    if let Some(bytes) = parameter_bytes(parameter, value)? {
        let mut escaped = String::new();
        PercentEscape::All.push_bytes(&mut escaped, &bytes);
        push_pair(query, &PercentEscape::All.escaped(&parameter.name), &escaped);
        return Ok(());
    }
    match &parameter.serialization {
        ParameterSerialization::Style { style, explode, allow_reserved } => {
            let escape = PercentEscape::for_query(*allow_reserved);
            let serializer = ValueSerializer { style: *style, explode: *explode, escape };
            serializer.for_each_pair(&parameter.name, value, |name, value| {
                push_pair(query, name, value);
            });
        }
        ParameterSerialization::Content(media_type)
            if parameter.location == ParameterLocation::QueryString =>
        {
            let encoded = encode_content(media_type, value, PercentEscape::All);
            query.push_str(if query.is_empty() || encoded.is_empty() { "" } else { "&" });
            query.push_str(&encoded);
        }
        ParameterSerialization::Content(media_type) => {
            let plain = encode_content(media_type, value, PercentEscape::None);
            let escape = |text: &str| PercentEscape::All.escaped(text);
            push_pair(query, &escape(&parameter.name), &escape(&plain));
        }
    }
    Ok(())
}

/// Appends an encoded pair to a query or form, which may be empty.
pub(super) fn push_pair(out: &mut String, name: &str, value: &str) {
    out.push_str(if out.is_empty() { "" } else { "&" });
    out.extend([name, "=", value]);
}

/// Serializes a value as a media type and escapes it. A form uses form escaping.
pub(super) fn encode_content(media_type: &str, value: &Value, escape: PercentEscape) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if MediaKind::from_content_type(media_type) == MediaKind::Form => {
            for (name, value) in members {
                append_form_pairs(&mut out, name, value);
            }
        }
        Value::String(plain) if !media_type::is_json(media_type) => escape.push(&mut out, plain),
        other if media_type::is_json(media_type) => escape.push(&mut out, &other.to_string()),
        other => escape.push(&mut out, &scalar_text(other)),
    }
    out
}

/// Appends a form field without an encoding. Arrays are repeated; what they nest is JSON.
pub(super) fn append_form_pairs(out: &mut String, name: &str, value: &Value) {
    let items = match value {
        Value::Null => &[],
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    for item in items.iter().filter(|item| !item.is_null()) {
        out.push_str(if out.is_empty() { "" } else { "&" });
        PercentEscape::Form.push(out, name);
        out.push('=');
        PercentEscape::Form.push(out, &scalar_text(item));
    }
}
