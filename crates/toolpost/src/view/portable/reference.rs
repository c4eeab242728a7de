//! Resolves `$ref` within a document.

use std::cell::OnceCell;
use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use serde_json::Value;

use crate::json::{JsonObject, escape_token, unescape_token};

/// Maximum depth of the search for anchors.
const MAX_DEPTH: u32 = 128;
/// Maximum length of the JSON Pointer to an anchor, in bytes.
const MAX_POINTER_LEN: usize = 4_096;

/// Resolves the references of a document. References to other documents are not followed.
pub(crate) struct References<'a> {
    document: &'a Value,
    /// The `$id` of the document.
    id: Option<&'a str>,
    /// Whether siblings of `$ref` are ignored, as in draft 7 and earlier.
    pub(crate) ignores_ref_siblings: bool,
    /// Set by the first reference to an anchor; most documents have none.
    anchors: OnceCell<HashMap<&'a str, RefTarget<'a>>>,
}

/// A schema in the document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RefTarget<'a> {
    pub(crate) schema: &'a Value,
    /// Decoded JSON Pointer to the schema.
    pub(crate) pointer: String,
    /// Whether the schema is inside a part with its own `$id`.
    pub(crate) is_foreign: bool,
}

impl<'a> References<'a> {
    pub(crate) fn new(document: &'a Value) -> Self {
        Self {
            document,
            id: id(document),
            ignores_ref_siblings: is_draft_7_or_older(document),
            anchors: OnceCell::new(),
        }
    }

    /// Whether a schema has its own `$id`, which changes the base of the references inside it.
    pub(crate) fn is_foreign(&self, schema: &Value) -> bool {
        !std::ptr::eq(schema, self.document) && id(schema).is_some()
    }

    /// Resolves a reference to a location in the document, if there is one.
    pub(crate) fn resolve(&self, reference: &str) -> Option<RefTarget<'a>> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if !base.is_empty() && self.id != Some(base) {
            return None;
        }
        let fragment = percent_decode_str(fragment).decode_utf8().ok()?.into_owned();
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.resolve_pointer(fragment);
        }
        self.anchors().get(fragment.as_str()).cloned()
    }

    fn resolve_pointer(&self, pointer: String) -> Option<RefTarget<'a>> {
        let (mut schema, mut is_foreign) = (self.document, false);
        for token in pointer.split('/').skip(1) {
            let token = unescape_token(token);
            schema = match schema {
                Value::Object(members) => members.get(&token)?,
                Value::Array(items) => items.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            is_foreign |= id(schema).is_some();
        }
        let is_schema = matches!(schema, Value::Object(_) | Value::Bool(_));
        is_schema.then_some(RefTarget { schema, pointer, is_foreign })
    }

    fn anchors(&self) -> &HashMap<&'a str, RefTarget<'a>> {
        self.anchors.get_or_init(|| {
            let mut anchors = HashMap::new();
            collect_anchors(self.document, &mut String::new(), false, MAX_DEPTH, &mut anchors);
            anchors
        })
    }
}

/// Whether the document declares a draft in which `$ref` ignores its siblings.
fn is_draft_7_or_older(document: &Value) -> bool {
    let draft = document.get("$schema").and_then(Value::as_str).unwrap_or_default();
    ["draft-07", "draft-06", "draft-04", "draft-03"].iter().any(|old| draft.contains(old))
}

/// Returns the `$id` of a schema. In older drafts, one that starts with `#` is an anchor.
fn id(schema: &Value) -> Option<&str> {
    let id = schema.get("$id").and_then(Value::as_str)?;
    let id = id.strip_suffix('#').unwrap_or(id);
    (!id.is_empty() && !id.starts_with('#')).then_some(id)
}

/// Collects the anchors below the value at `pointer`, which is restored before returning.
fn collect_anchors<'a>(
    value: &'a Value,
    pointer: &mut String,
    is_foreign: bool,
    depth: u32,
    anchors: &mut HashMap<&'a str, RefTarget<'a>>,
) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let length = pointer.len();
    match value {
        Value::Array(items) => {
            for (position, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&position.to_string());
                collect_anchors(item, pointer, is_foreign, depth, anchors);
                pointer.truncate(length);
            }
        }
        Value::Object(members) => {
            let is_foreign = is_foreign || (length > 0 && id(value).is_some());
            for anchor in anchor_names(members).filter(|_| length <= MAX_POINTER_LEN) {
                let target = RefTarget { schema: value, pointer: pointer.clone(), is_foreign };
                anchors.entry(anchor).or_insert(target);
            }
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(&escape_token(name));
                collect_anchors(member, pointer, is_foreign, depth, anchors);
                pointer.truncate(length);
            }
        }
        _ => {}
    }
}

/// Returns the anchors of a schema in the notation of any draft.
fn anchor_names(members: &JsonObject) -> impl Iterator<Item = &str> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let old = text("$id").and_then(|id| id.strip_prefix('#'));
    [text("$anchor"), text("$dynamicAnchor"), old].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_resolve_within_document() {
        let document = json!({
            "$id": "https://example.org/s",
            "$defs": {"a b": {"type": "string"}, "c/d": {"$anchor": "here"}, "n": 5,
                "own": {"$id": "other", "$defs": {"x": {}}}},
            "anyOf": [{"$id": "#old"}],
        });
        let references = References::new(&document);
        for (reference, expected) in [
            ("#", Some(("", false))),
            ("", Some(("", false))),
            ("https://example.org/s", Some(("", false))),
            ("https://example.org/s#/$defs/a%20b", Some(("/$defs/a b", false))),
            ("#/$defs/a b", Some(("/$defs/a b", false))),
            ("#/$defs/c~1d", Some(("/$defs/c~1d", false))),
            ("#here", Some(("/$defs/c~1d", false))),
            ("#old", Some(("/anyOf/0", false))),
            ("#/anyOf/0", Some(("/anyOf/0", false))),
            ("#/$defs/own/$defs/x", Some(("/$defs/own/$defs/x", true))),
            ("#/$defs/n", None),
            ("#/$defs/none", None),
            ("#nowhere", None),
            ("#/%zz", None),
            ("other", None),
            ("https://example.org/t", None),
        ] {
            let target = references.resolve(reference);
            let found = target.as_ref().map(|target| (&*target.pointer, target.is_foreign));
            assert_eq!(found, expected, "{reference}");
        }
    }
}
