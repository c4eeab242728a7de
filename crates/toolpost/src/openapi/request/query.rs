//! The query: pairs in the order of the parameters, or one value that is all of it.

use serde_json::Value;

use super::super::plan::{Notation, Parameter, Position};
use super::escape::Escape;
use super::media;
use super::style::Manner;
use super::value::text;

/// Appends a parameter to a query, which is empty or has pairs in it already.
pub(super) fn append(query: &mut String, parameter: &Parameter, value: &Value) {
    let mut give = |name: &str, value: &str| {
        query.push_str(if query.is_empty() { "" } else { "&" });
        query.extend([name, "=", value]);
    };
    match &parameter.notation {
        Notation::Style { style, explode, allow_reserved } => {
            let escape = if *allow_reserved { Escape::ReservedInQuery } else { Escape::All };
            let manner = Manner { style: *style, explode: *explode, escape };
            manner.pairs(&parameter.name, value, give);
        }
        Notation::Content(media_type) if parameter.position == Position::QueryString => {
            let whole = content(media_type, value, Escape::All);
            query.push_str(if query.is_empty() || whole.is_empty() { "" } else { "&" });
            query.push_str(&whole);
        }
        Notation::Content(media_type) => {
            let mut name = String::new();
            Escape::All.push(&mut name, &parameter.name);
            let (mut written, plain) = (String::new(), content(media_type, value, Escape::Nothing));
            Escape::All.push(&mut written, &plain);
            give(&name, &written);
        }
    }
}

/// A value as a document of a media type, escaped; a form is escaped as forms are.
pub(super) fn content(media_type: &str, value: &Value, escape: Escape) -> String {
    let mut out = String::new();
    match value {
        Value::Object(members) if media::is_form(media_type) => {
            for (name, value) in members {
                form_pairs(&mut out, name, value);
            }
        }
        Value::String(plain) if !media::is_json(media_type) => escape.push(&mut out, plain),
        other if media::is_json(media_type) => escape.push(&mut out, &other.to_string()),
        other => escape.push(&mut out, &text(other)),
    }
    out
}

/// A member of a form that says nothing else about itself: a list is repeated, and what has members
/// of its own is JSON.
pub(super) fn form_pairs(out: &mut String, name: &str, value: &Value) {
    let items = match value {
        Value::Null => &[],
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    for item in items.iter().filter(|item| !item.is_null()) {
        out.push_str(if out.is_empty() { "" } else { "&" });
        Escape::Form.push(out, name);
        out.push('=');
        Escape::Form.push(out, &text(item));
    }
}
