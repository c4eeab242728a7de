//! Names of the properties of an object schema.

use serde_json::Value;

/// The names of the properties of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PropertyNames {
    /// Properties that an object must have.
    pub required: Vec<String>,
    /// All other properties.
    pub optional: Vec<String>,
    /// Properties of the properties that are objects.
    pub nested: Vec<String>,
}

impl PropertyNames {
    /// Reads the names from a schema. Of its references, only one at the root is followed.
    pub fn of(schema: &Value) -> Self {
        let target = schema.get("$ref").and_then(Value::as_str);
        let target = target.and_then(|reference| schema.pointer(reference.strip_prefix('#')?));
        let schema = target.unwrap_or(schema);
        let required = schema.get("required").and_then(Value::as_array);
        let mut names = Self::default();
        for (name, property) in properties(schema) {
            let is_required = required.is_some_and(|all| all.iter().any(|one| one == name));
            names.push(name, is_required);
            names.nested.extend(properties(property).map(|(name, _)| name.clone()));
        }
        names
    }

    /// Adds a property.
    pub fn push(&mut self, name: &str, is_required: bool) {
        let names = if is_required { &mut self.required } else { &mut self.optional };
        names.push(name.to_owned());
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn property_names_are_read_from_root_schema() {
        let point = json!({"properties": {"x": {}, "y": {"properties": {"z": true}}},
            "required": ["y", "none"]});
        for (schema, expected) in [
            (json!(true), [vec![], vec![], vec![]]),
            (json!({"type": "string"}), [vec![], vec![], vec![]]),
            (point.clone(), [vec!["y"], vec!["x"], vec!["z"]]),
            (
                json!({"$ref": "#/$defs/p", "$defs": {"p": point}}),
                [vec!["y"], vec!["x"], vec!["z"]],
            ),
            (json!({"$ref": "other.json"}), [vec![], vec![], vec![]]),
        ] {
            let names = PropertyNames::of(&schema);
            assert_eq!([names.required, names.optional, names.nested], expected, "{schema}");
        }
    }
}
