//! URL-encoded forms.

use serde_json::Value;

use super::super::super::media_type;
use super::super::super::plan::{BodyContent, PropertyEncoding};
use super::super::binary::{BinaryValue, contains_binary};
use super::super::escape::PercentEscape;
use super::super::query::{append_form_pairs, push_pair};
use super::super::style::ValueSerializer;
use crate::json::ValuePath;
use crate::schema::Issue;

pub(super) fn encode(
    content: &BodyContent,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<String, Issue> {
    let mut out = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let encoding = content.encodings.iter().find(|encoding| encoding.property == *name);
        encode_property(&mut out, encoding, name, value, &path.member(name))?;
    }
    Ok(out)
}

fn encode_property(
    out: &mut String,
    encoding: Option<&PropertyEncoding>,
    name: &str,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<(), Issue> {
    if let Some((style, explode, allow_reserved)) = encoding.and_then(|encoding| encoding.style)
        && !value.is_null()
        && !contains_binary(value)
    {
        let escape = PercentEscape::for_query(allow_reserved);
        let serializer = ValueSerializer { style, explode, escape };
        serializer.for_each_pair(name, value, |name, value| push_pair(out, name, value));
        return Ok(());
    }
    let media_type = encoding.and_then(|encoding| encoding.content_type.as_deref());
    match value {
        Value::Null => {}
        // Without a style, an array becomes one pair per item.
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                encode_single(out, media_type, name, item, &path.item(index))?;
            }
        }
        one => encode_single(out, media_type, name, one, path)?,
    }
    Ok(())
}

fn encode_single(
    out: &mut String,
    media_type: Option<&str>,
    name: &str,
    value: &Value,
    path: &ValuePath<'_>,
) -> Result<(), Issue> {
    if let Some(binary) = BinaryValue::from_value(value) {
        append_form_pairs(out, name, &Value::from(""));
        PercentEscape::Form.push_bytes(out, &binary.decode(path)?);
    } else if value.is_array() || media_type.is_some_and(media_type::is_json) {
        append_form_pairs(out, name, &Value::from(value.to_string()));
    } else {
        append_form_pairs(out, name, value);
    }
    Ok(())
}
