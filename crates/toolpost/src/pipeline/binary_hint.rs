//! Hints for strings in place of binary data, which is a `$binary` object.

use serde_json::Value;

use crate::json::unescape_token;
use crate::schema::{Issue, Schema};

/// Maximum number of schemas that are visited for an issue.
const MAX_SCHEMAS: u32 = 1_000;

/// Extends the messages about strings where the schema accepts a `$binary` object.
pub(super) fn add_hints(issues: &mut [Issue], schema: &Schema, input: &Value) {
    let is_string = |issue: &&mut Issue| input.pointer(&issue.path).is_some_and(Value::is_string);
    let mut issues = issues.iter_mut().filter(is_string).peekable();
    if issues.peek().is_none() {
        return;
    }
    let root = schema.json();
    for issue in issues {
        let path: Vec<String> = issue.path.split('/').skip(1).map(unescape_token).collect();
        if accepts_binary(&root, &root, &path, &mut { MAX_SCHEMAS }) {
            issue.message.push_str("; pass bytes as {\"$binary\": \"<base64>\"}");
        }
    }
}

/// Whether a schema accepts a `$binary` object at a path.
fn accepts_binary(root: &Value, schema: &Value, path: &[String], budget: &mut u32) -> bool {
    let Some(rest) = budget.checked_sub(1) else { return false };
    *budget = rest;
    let here = match path.split_first() {
        None => schema.pointer("/properties/$binary").is_some(),
        Some((name, rest)) => {
            let property = schema.get("properties").and_then(|properties| properties.get(name));
            let inner = property.or_else(|| schema.get("items"));
            inner.is_some_and(|inner| accepts_binary(root, inner, rest, budget))
        }
    };
    let reference = schema.get("$ref").and_then(Value::as_str);
    let target = reference.and_then(|reference| root.pointer(reference.strip_prefix('#')?));
    let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|keyword| schema.get(keyword));
    here || parts
        .filter_map(Value::as_array)
        .flatten()
        .chain(target)
        .any(|part| accepts_binary(root, part, path, budget))
}
