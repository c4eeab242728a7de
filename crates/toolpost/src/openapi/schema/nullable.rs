//! Translates `nullable` to JSON Schema.

use serde_json::{Value, json};

use crate::json::JsonObject;

/// Keywords other than `type` and `enum` that may exclude null.
const CONSTRAINT_KEYWORDS: [&str; 9] =
    ["$ref", "allOf", "anyOf", "oneOf", "not", "const", "if", "then", "else"];

/// Keywords that do not constrain the value.
const ANNOTATION_KEYWORDS: [&str; 8] = [
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$comment",
];

/// Changes a schema to also allow null, with `anyOf` if it has other constraints.
pub(super) fn allow_null(schema: &mut JsonObject) {
    if CONSTRAINT_KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
        return wrap_any_of(schema);
    }
    match schema.get_mut("type") {
        Some(Value::Array(types)) if !types.contains(&"null".into()) => types.push("null".into()),
        Some(Value::String(name)) if name != "null" => {
            let both = json!([name, "null"]);
            schema.insert("type".to_owned(), both);
        }
        _ => {}
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

fn wrap_any_of(schema: &mut JsonObject) {
    let (outside, inside) = std::mem::take(schema)
        .into_iter()
        .partition(|(keyword, _)| ANNOTATION_KEYWORDS.contains(&keyword.as_str()));
    *schema = outside;
    let inside: JsonObject = inside;
    schema.insert("anyOf".to_owned(), json!([inside, {"type": "null"}]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nullable_admits_null_past_all_constraints() {
        for (schema, expected) in [
            (json!({}), json!({})),
            (json!({"type": "string"}), json!({"type": ["string", "null"]})),
            (json!({"type": "null"}), json!({"type": "null"})),
            (json!({"type": ["null", "string"]}), json!({"type": ["null", "string"]})),
            (
                json!({"type": "string", "enum": ["a"]}),
                json!({"type": ["string", "null"], "enum": ["a", null]}),
            ),
            (json!({"enum": ["a", null]}), json!({"enum": ["a", null]})),
            (
                json!({"allOf": [{"$ref": "#/$defs/a"}], "description": "d"}),
                json!({"description": "d",
                    "anyOf": [{"allOf": [{"$ref": "#/$defs/a"}]}, {"type": "null"}]}),
            ),
            (
                json!({"type": "object", "oneOf": [true], "default": null}),
                json!({"default": null,
                    "anyOf": [{"type": "object", "oneOf": [true]}, {"type": "null"}]}),
            ),
            (
                json!({"$ref": "#/$defs/a"}),
                json!({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}),
            ),
        ] {
            let Value::Object(mut members) = schema.clone() else { panic!("{schema}") };
            allow_null(&mut members);
            assert_eq!(Value::Object(members), expected, "{schema}");
        }
    }
}
