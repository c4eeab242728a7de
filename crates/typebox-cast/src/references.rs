//! Resolves `$ref` within a document.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

use super::js;

/// Index of a document by `$id`, and by `$anchor` with a leading `#`.
pub(super) struct AnchorIndex<'s> {
    root: &'s Value,
    anchors: HashMap<String, &'s Value, RandomState>,
}

impl<'s> AnchorIndex<'s> {
    pub(super) fn new(root: &'s Value) -> Self {
        let mut anchors = HashMap::default();
        let mut waiting = vec![root];
        // Use an explicit stack, because the document can nest to any depth.
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(map) => {
                    let id = value["$id"].as_str().map(str::to_owned);
                    let anchor = value["$anchor"].as_str().map(|anchor| format!("#{anchor}"));
                    for name in id.into_iter().chain(anchor) {
                        anchors.entry(name).or_insert(value);
                    }
                    let members: Vec<_> = js::entries(map).map(|(_, member)| member).collect();
                    waiting.extend(members.into_iter().rev());
                }
                Value::Array(items) => waiting.extend(items.iter().rev()),
                _ => {}
            }
        }
        Self { root, anchors }
    }

    /// Resolves a reference: `#`, a JSON Pointer, an `$id` or an anchor.
    pub(super) fn resolve(&self, reference: &str) -> Option<&'s Value> {
        if reference == "#" {
            return Some(self.root);
        }
        match reference.strip_prefix("#/") {
            Some(pointer) => pointer.split('/').try_fold(self.root, pointer_step),
            None => self.anchors.get(reference).copied(),
        }
    }
}

fn pointer_step<'s>(value: &'s Value, raw: &str) -> Option<&'s Value> {
    let token = percent_decode(raw)?.replace("~1", "/").replace("~0", "~");
    match value {
        Value::Object(map) => map.get(&token),
        Value::Array(items) => items.get(js::array_index(&token)? as usize),
        _ => None,
    }
}

/// Decodes percent-encoding in a URI fragment. Returns `None` if it is malformed.
pub(super) fn percent_decode(raw: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut pieces = raw.split('%');
    bytes.extend_from_slice(pieces.next()?.as_bytes());
    for piece in pieces {
        let code = piece.get(..2)?;
        if !code.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn anchor_index_resolves_every_ref_form() {
        let document = json!({
            "$defs": {"a/b": 1, "c~d": 2, "é f": 3, "list": [4, 5]},
            "x": {"$id": "urn:x", "mark": 6},
            "y": [{"$anchor": "y", "mark": 7}],
            "": 8,
        });
        let cases = [
            ("#/$defs/a~1b", json!(1)),
            ("#/$defs/c~0d", json!(2)),
            ("#/$defs/%C3%A9%20f", json!(3)),
            ("#/$defs/list/1", json!(5)),
            ("urn:x", document["x"].clone()),
            ("#y", document["y"][0].clone()),
            ("#/", json!(8)),
            ("#", document.clone()),
        ];
        let names = AnchorIndex::new(&document);
        for (reference, expected) in cases {
            assert_eq!(names.resolve(reference), Some(&expected), "{reference}");
        }
        for reference in ["#/$defs/none", "#/$defs/list/01", "#/$defs/%zz", "#z", "y", "#/x/mark/0"]
        {
            assert_eq!(names.resolve(reference), None, "{reference}");
        }
    }
}
