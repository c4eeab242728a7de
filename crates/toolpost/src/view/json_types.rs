//! Infers which JSON types a schema admits, without a value.

use serde_json::Value;

use super::portable::References;
use crate::json::JsonObject;
use crate::schema::{IntegerRule, TypeSet};

/// Maximum number of schemas to inspect; beyond it all types count as possible.
const MAX_SCHEMAS: u32 = 1_000;
const MAX_DEPTH: u32 = 64;
/// Maximum length of an `enum` or `type` list that is inspected.
const MAX_VALUES: usize = 1_000;

/// Returns a set of JSON types that contains all types a schema admits, and possibly more.
pub(super) fn infer_types(document: &Value) -> TypeSet {
    TypeInference { references: References::new(document), budget: MAX_SCHEMAS }
        .infer(document, MAX_DEPTH)
}

fn type_of(value: &Value) -> TypeSet {
    TypeSet::of_value(value, IntegerRule::ByValue)
}

fn type_from_name(name: &str) -> TypeSet {
    match TypeSet::from_name(name) {
        TypeSet::NONE => TypeSet::ANY,
        types => types,
    }
}

struct TypeInference<'a> {
    references: References<'a>,
    budget: u32,
}

impl TypeInference<'_> {
    fn infer(&mut self, schema: &Value, depth: u32) -> TypeSet {
        let (Some(remaining), Some(depth)) = (self.budget.checked_sub(1), depth.checked_sub(1))
        else {
            return TypeSet::ANY;
        };
        self.budget = remaining;
        match schema {
            Value::Bool(false) => TypeSet::NONE,
            _ if self.references.is_foreign(schema) => TypeSet::ANY,
            Value::Object(members) => self.infer_keywords(members, depth),
            _ => TypeSet::ANY,
        }
    }

    fn infer_keywords(&mut self, members: &JsonObject, depth: u32) -> TypeSet {
        let mut types = TypeSet::ANY;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let target = self.references.resolve(reference).filter(|target| !target.is_foreign);
            types = target.map_or(TypeSet::ANY, |target| self.infer(target.schema, depth));
            if self.references.ignores_ref_siblings {
                return types;
            }
        }
        types = types.intersection(type_keyword(members));
        if let Some(value) = members.get("const") {
            types = types.intersection(type_of(value));
        }
        let values = members.get("enum").and_then(Value::as_array);
        if let Some(values) = values.filter(|values| values.len() <= MAX_VALUES) {
            types =
                types.intersection(values.iter().map(type_of).fold(TypeSet::NONE, TypeSet::union));
        }
        for schema in list(members, "allOf") {
            types = types.intersection(self.infer(schema, depth));
        }
        for keyword in ["anyOf", "oneOf"] {
            if members.get(keyword).is_some_and(Value::is_array) {
                let some = list(members, keyword).map(|schema| self.infer(schema, depth));
                types = types.intersection(some.fold(TypeSet::NONE, TypeSet::union));
            }
        }
        types
    }
}

fn type_keyword(members: &JsonObject) -> TypeSet {
    let types = match members.get("type") {
        Some(Value::String(name)) => type_from_name(name),
        Some(Value::Array(names)) if names.len() <= MAX_VALUES => {
            let names = names.iter().map(|name| name.as_str().map_or(TypeSet::ANY, type_from_name));
            names.fold(TypeSet::NONE, TypeSet::union)
        }
        _ => TypeSet::ANY,
    };
    if members.get("nullable") == Some(&Value::Bool(true)) {
        types.union(TypeSet::NULL)
    } else {
        types
    }
}

fn list<'a>(members: &'a JsonObject, keyword: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    members.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_types_infers_object_only_when_certain() {
        let cycle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"},
            "b": {"$ref": "#/$defs/a"}}});
        let deep = (0..300).fold(json!({"type": "object"}), |inner, _| json!({"allOf": [inner]}));
        let draft_7 = "http://json-schema.org/draft-07/schema#";
        for (schema, only_objects, has_object, has_null) in [
            (json!(true), false, true, true),
            (json!(false), true, false, false),
            (json!({}), false, true, true),
            (json!({"type": "object"}), true, true, false),
            (json!({"type": ["object", "null"]}), false, true, true),
            (json!({"type": "object", "nullable": true}), false, true, true),
            (json!({"type": "array"}), false, false, false),
            (json!({"properties": {}}), false, true, true),
            (json!({"const": {"a": 1}}), true, true, false),
            (json!({"enum": [{}, null]}), false, true, true),
            (json!({"oneOf": [{"type": "object"}, {"const": {}}]}), true, true, false),
            (json!({"anyOf": [{"type": "object"}, {"type": "null"}]}), false, true, true),
            (
                json!({"allOf": [{"type": ["object", "string"]}, {"type": ["object", "null"]}]}),
                true,
                true,
                false,
            ),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}), true, true, false),
            (json!({"$ref": "#/$defs/none"}), false, true, true),
            (json!({"$ref": "#"}), false, true, true),
            (
                json!({"$schema": draft_7, "type": "object", "$ref": "#/definitions/a",
                "definitions": {"a": {"type": "string"}}}),
                false,
                false,
                false,
            ),
            (cycle, false, true, true),
            (deep, false, true, true),
        ] {
            let types = infer_types(&schema);
            let found = (
                TypeSet::OBJECT.contains(types),
                types.overlaps(TypeSet::OBJECT),
                types.overlaps(TypeSet::NULL),
            );
            assert_eq!(found, (only_objects, has_object, has_null), "{schema}");
        }
    }
}
