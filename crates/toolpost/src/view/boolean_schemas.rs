//! Converts boolean schemas to objects, for clients that do not support booleans.

use serde_json::{Map, Value};

use crate::schema::subschemas_mut;

/// Converts a boolean schema, or all boolean subschemas of an object.
///
/// Booleans in `additionalProperties` and similar keywords are kept: clients support them.
pub(super) fn expand_booleans(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = Value::Object(Map::new()),
        Value::Bool(false) => {
            *schema = Map::from_iter([("not".to_owned(), Value::Object(Map::new()))]).into();
        }
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, value)| expand_keyword(name, value));
        }
        _ => {}
    }
}

/// Converts the boolean schemas in the value of a keyword.
pub(super) fn expand_keyword(keyword: &str, value: &mut Value) {
    let allows_booleans = matches!(
        keyword,
        "additionalProperties" | "additionalItems" | "unevaluatedProperties" | "unevaluatedItems"
    );
    if !(allows_booleans && value.is_boolean()) {
        subschemas_mut(keyword, value).for_each(expand_booleans);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn boolean_schemas_are_expanded_at_every_depth() {
        let never = json!({"not": {}});
        for (schema, expected) in [
            (json!(true), json!({})),
            (json!(false), never.clone()),
            (json!({"items": true}), json!({"items": {}})),
            (json!({"items": false}), json!({"items": never})),
            (json!({"items": [true, {}]}), json!({"items": [{}, {}]})),
            (
                json!({"properties": {"a": {"properties": {"b": false}}, "items": true}}),
                json!({"properties": {"a": {"properties": {"b": never}}, "items": {}}}),
            ),
            (json!({"$defs": {"a": true}}), json!({"$defs": {"a": {}}})),
            (json!({"anyOf": [true], "not": true}), json!({"anyOf": [{}], "not": {}})),
            (json!({"additionalProperties": false}), json!({"additionalProperties": false})),
            (
                json!({"additionalProperties": {"items": true}}),
                json!({"additionalProperties": {"items": {}}}),
            ),
            // Data and invalid keyword values are unchanged.
            (json!({"const": {"items": true}}), json!({"const": {"items": true}})),
            (
                json!({"uniqueItems": true, "required": true}),
                json!({"uniqueItems": true, "required": true}),
            ),
        ] {
            let mut expanded = schema.clone();
            expand_booleans(&mut expanded);
            assert_eq!(expanded, expected, "{schema}");
        }
    }
}
