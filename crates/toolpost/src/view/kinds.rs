//! Which kinds of JSON a schema leaves possible, as far as that can be told without a value.

use serde_json::{Map, Value};

use super::portable::References;

/// A set of kinds; never smaller than what really fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kinds(u8);

const NULL: Kinds = Kinds(1);
const OBJECT: Kinds = Kinds(2);
const NONE: Kinds = Kinds(0);
const ALL: Kinds = Kinds(0b11_1111);

/// How many schemas are looked at; beyond that everything counts as possible.
const MOST_LOOKS: u32 = 1_000;
const DEEPEST: u32 = 64;
/// How many values of a list are looked at each time.
const MOST_VALUES: usize = 1_000;

impl Kinds {
    pub(super) fn of(document: &Value) -> Self {
        Look { references: References::new(document), left: MOST_LOOKS }.at(document, DEEPEST)
    }

    pub(super) fn only_objects(self) -> bool {
        self.and(OBJECT) == self
    }

    pub(super) fn has_object(self) -> bool {
        self.and(OBJECT) != NONE
    }

    pub(super) fn has_null(self) -> bool {
        self.and(NULL) != NONE
    }

    pub(super) fn only_null(self) -> bool {
        self == NULL
    }

    /// Whether nothing fits.
    pub(super) fn is_empty(self) -> bool {
        self == NONE
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
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

    fn named(name: &str) -> Self {
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

struct Look<'a> {
    references: References<'a>,
    left: u32,
}

impl Look<'_> {
    fn at(&mut self, schema: &Value, depth: u32) -> Kinds {
        let (Some(left), Some(depth)) = (self.left.checked_sub(1), depth.checked_sub(1)) else {
            return ALL;
        };
        self.left = left;
        match schema {
            Value::Bool(false) => NONE,
            _ if self.references.is_foreign(schema) => ALL,
            Value::Object(members) => self.members(members, depth),
            _ => ALL,
        }
    }

    fn members(&mut self, members: &Map<String, Value>, depth: u32) -> Kinds {
        let mut kinds = ALL;
        if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
            let target = self.references.target(reference).filter(|target| !target.is_foreign);
            kinds = target.map_or(ALL, |target| self.at(target.schema, depth));
            if self.references.stand_alone {
                return kinds;
            }
        }
        kinds = kinds.and(types(members));
        if let Some(value) = members.get("const") {
            kinds = kinds.and(Kinds::of_value(value));
        }
        let values = members.get("enum").and_then(Value::as_array);
        if let Some(values) = values.filter(|values| values.len() <= MOST_VALUES) {
            kinds = kinds.and(values.iter().map(Kinds::of_value).fold(NONE, Kinds::or));
        }
        for schema in list(members, "allOf") {
            kinds = kinds.and(self.at(schema, depth));
        }
        for keyword in ["anyOf", "oneOf"] {
            if members.get(keyword).is_some_and(Value::is_array) {
                let some = list(members, keyword).map(|schema| self.at(schema, depth));
                kinds = kinds.and(some.fold(NONE, Kinds::or));
            }
        }
        kinds
    }
}

fn types(members: &Map<String, Value>) -> Kinds {
    let kinds = match members.get("type") {
        Some(Value::String(name)) => Kinds::named(name),
        Some(Value::Array(names)) if names.len() <= MOST_VALUES => {
            let names = names.iter().map(|name| name.as_str().map_or(ALL, Kinds::named));
            names.fold(NONE, Kinds::or)
        }
        _ => ALL,
    };
    if members.get("nullable") == Some(&Value::Bool(true)) { kinds.or(NULL) } else { kinds }
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
    fn a_root_is_an_object_only_where_that_is_certain() {
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
            let kinds = Kinds::of(&schema);
            let found = (kinds.only_objects(), kinds.has_object(), kinds.has_null());
            assert_eq!(found, (only_objects, has_object, has_null), "{schema}");
        }
    }
}
