//! Infers which JSON types a schema admits, without a value.

use serde_json::{Map, Value};

use super::portable::References;

/// A set of JSON types. It contains all types that a schema admits, and possibly more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonTypes(u8);

const NULL: JsonTypes = JsonTypes(1);
const OBJECT: JsonTypes = JsonTypes(2);
const NONE: JsonTypes = JsonTypes(0);
const ALL: JsonTypes = JsonTypes(0b11_1111);

/// Maximum number of schemas to inspect; beyond it all types count as possible.
const MAX_SCHEMAS: u32 = 1_000;
const MAX_DEPTH: u32 = 64;
/// Maximum length of an `enum` or `type` list that is inspected.
const MAX_VALUES: usize = 1_000;

impl JsonTypes {
    pub(super) fn infer(document: &Value) -> Self {
        TypeInference { references: References::new(document), budget: MAX_SCHEMAS }
            .infer(document, MAX_DEPTH)
    }

    pub(super) fn is_only_object(self) -> bool {
        self.intersection(OBJECT) == self
    }

    pub(super) fn has_object(self) -> bool {
        self.intersection(OBJECT) != NONE
    }

    pub(super) fn has_null(self) -> bool {
        self.intersection(NULL) != NONE
    }

    pub(super) fn is_only_null(self) -> bool {
        self == NULL
    }

    /// Whether no type is possible.
    pub(super) fn is_empty(self) -> bool {
        self == NONE
    }

    fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => NULL,
            Value::Object(_) => OBJECT,
            Value::Array(_) => Self(4),
            Value::String(_) => Self(8),
            Value::Bool(_) => Self(16),
            Value::Number(_) => Self(32),
        }
    }

    fn from_name(name: &str) -> Self {
        match name {
            "null" => NULL,
            "object" => OBJECT,
            "array" => Self(4),
            "string" => Self(8),
            "boolean" => Self(16),
            "number" | "integer" => Self(32),
            _ => ALL,
        }
    }
}

struct TypeInference<'a> {
    references: References<'a>,
    budget: u32,
}

impl TypeInference<'_> {
    fn infer(&mut self, schema: &Value, depth: u32) -> JsonTypes {
        let (Some(remaining), Some(depth)) = (self.budget.checked_sub(1), depth.checked_sub(1))
        else {
            return ALL;
        };
        self.budget = remaining;
        match schema {
            Value::Bool(false) => NONE,
            _ if self.references.is_foreign(schema) => ALL,
            Value::Object(members) => self.infer_keywords(members, depth),
            _ => ALL,
        }
    }

    fn infer_keywords(&mut self, members: &Map<String, Value>, depth: u32) -> JsonTypes {
        let mut types = ALL;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let target = self.references.resolve(reference).filter(|target| !target.is_foreign);
            types = target.map_or(ALL, |target| self.infer(target.schema, depth));
            if self.references.ignores_ref_siblings {
                return types;
            }
        }
        types = types.intersection(type_keyword(members));
        if let Some(value) = members.get("const") {
            types = types.intersection(JsonTypes::of_value(value));
        }
        let values = members.get("enum").and_then(Value::as_array);
        if let Some(values) = values.filter(|values| values.len() <= MAX_VALUES) {
            types = types
                .intersection(values.iter().map(JsonTypes::of_value).fold(NONE, JsonTypes::union));
        }
        for schema in list(members, "allOf") {
            types = types.intersection(self.infer(schema, depth));
        }
        for keyword in ["anyOf", "oneOf"] {
            if members.get(keyword).is_some_and(Value::is_array) {
                let some = list(members, keyword).map(|schema| self.infer(schema, depth));
                types = types.intersection(some.fold(NONE, JsonTypes::union));
            }
        }
        types
    }
}

fn type_keyword(members: &Map<String, Value>) -> JsonTypes {
    let types = match members.get("type") {
        Some(Value::String(name)) => JsonTypes::from_name(name),
        Some(Value::Array(names)) if names.len() <= MAX_VALUES => {
            let names = names.iter().map(|name| name.as_str().map_or(ALL, JsonTypes::from_name));
            names.fold(NONE, JsonTypes::union)
        }
        _ => ALL,
    };
    if members.get("nullable") == Some(&Value::Bool(true)) { types.union(NULL) } else { types }
}

fn list<'a>(
    members: &'a Map<String, Value>,
    keyword: &str,
) -> impl Iterator<Item = &'a Value> + use<'a> {
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
            let types = JsonTypes::infer(&schema);
            let found = (types.is_only_object(), types.has_object(), types.has_null());
            assert_eq!(found, (only_objects, has_object, has_null), "{schema}");
        }
    }
}
