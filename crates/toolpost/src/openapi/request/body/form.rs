//! Forms: names with values, as in a query.

use serde_json::Value;

use super::super::super::plan::{Content, Encoding};
use super::super::escape::Escape;
use super::super::media;
use super::super::place::Place;
use super::super::query::form_pairs;
use super::super::style::Manner;
use super::binary::Binary;
use crate::schema::Issue;

pub(super) fn write(content: &Content, value: &Value, place: &Place<'_>) -> Result<String, Issue> {
    let mut out = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let encoding = content.encodings.iter().find(|encoding| encoding.property == *name);
        property(&mut out, encoding, name, value, &place.member(name))?;
    }
    Ok(out)
}

fn property(
    out: &mut String,
    encoding: Option<&Encoding>,
    name: &str,
    value: &Value,
    place: &Place<'_>,
) -> Result<(), Issue> {
    let media_type = encoding.and_then(|encoding| encoding.content_type.as_deref());
    match encoding.and_then(|encoding| encoding.style) {
        _ if value.is_null() => {}
        Some((style, explode, allow_reserved)) => {
            let escape = if allow_reserved { Escape::ReservedInQuery } else { Escape::All };
            Manner { style, explode, escape }.pairs(name, value, |name, value| {
                out.push_str(if out.is_empty() { "" } else { "&" });
                out.extend([name, "=", value]);
            });
        }
        None => return unstyled(out, media_type, name, value, place),
    }
    Ok(())
}

/// A property without a style. A list is repeated, item by item.
fn unstyled(
    out: &mut String,
    media_type: Option<&str>,
    name: &str,
    value: &Value,
    place: &Place<'_>,
) -> Result<(), Issue> {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                single(out, media_type, name, item, &place.item(index))?;
            }
            Ok(())
        }
        one => single(out, media_type, name, one, place),
    }
}

fn single(
    out: &mut String,
    media_type: Option<&str>,
    name: &str,
    value: &Value,
    place: &Place<'_>,
) -> Result<(), Issue> {
    if let Some(binary) = Binary::of(value) {
        form_pairs(out, name, &Value::from(""));
        Escape::Form.push_bytes(out, &binary.decode(place)?);
    } else if value.is_array() || media_type.is_some_and(media::is_json) {
        form_pairs(out, name, &Value::from(value.to_string()));
    } else {
        form_pairs(out, name, value);
    }
    Ok(())
}
