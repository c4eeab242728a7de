//! Extracts the part of a schema that describes errors at one value, without its children.

use serde_json::{Value, json};

use super::super::program::{AdditionalProperties, SchemaNode};
use crate::json::JsonObject;

/// Keywords that apply to the value itself, not to its children.
const LOCAL_KEYWORDS: [&str; 21] = [
    "type",
    "const",
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "contentEncoding",
    "contentMediaType",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "minItems",
    "maxItems",
    "uniqueItems",
    "format",
];

/// Returns the schema without constraints on children, if they can be separated.
pub(super) fn shallow_schema(schema: &JsonObject, node: &SchemaNode) -> Option<Value> {
    if let Some(applicators) = node.applicators.as_deref() {
        let union = applicators.only_union().filter(|_| !node.has_rules())?;
        let keyword = if union.exactly_one { "oneOf" } else { "anyOf" };
        return Some(json!({ keyword: [false] }));
    }
    let mixed = ["contains", "propertyNames", "dependencies"];
    if mixed.iter().any(|keyword| schema.contains_key(*keyword)) {
        return None;
    }
    let mut local: JsonObject = LOCAL_KEYWORDS
        .iter()
        .filter_map(|keyword| Some(((*keyword).to_owned(), schema.get(*keyword)?.clone())))
        .collect();
    let closed = node
        .object
        .as_deref()
        .is_some_and(|rules| rules.additional == AdditionalProperties::Forbidden);
    if closed {
        for keyword in ["properties", "patternProperties"] {
            if let Some(Value::Object(names)) = schema.get(keyword) {
                let open = names.keys().map(|name| (name.clone(), Value::Bool(true)));
                local.insert(keyword.to_owned(), Value::Object(open.collect()));
            }
        }
        local.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Some(Value::Object(local))
}
