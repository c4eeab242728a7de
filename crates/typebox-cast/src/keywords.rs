//! Compiles schemas that have a `type`.

use serde_json::Value;

use super::compile::{CastCompiler, DefaultOwner, SchemaObject, array_keyword};
use super::js::{self, MAX_LITERAL_DEPTH};
use super::node::{
    ArrayRules, CastKind, CastNodeId, Contains, CountRange, NumberRules, NumericLimit, ObjectRules,
    Properties, Property, RecordRules, StringRules,
};
use super::pattern::JsRegex;

impl<'s> CastCompiler<'s> {
    pub(super) fn compile_type(
        &mut self,
        name: &str,
        document: &'s SchemaObject,
        defaults: DefaultOwner,
    ) -> CastNodeId {
        let kind = match name {
            "string" => CastKind::String(Box::new(string_rules(document))),
            "number" => CastKind::Number(Box::new(number_rules(document))),
            "integer" => CastKind::Integer(Box::new(number_rules(document))),
            "boolean" => CastKind::Boolean,
            "null" => CastKind::Null,
            "object" => self.object(document),
            "array" => self.array(document),
            _ => CastKind::Unknown,
        };
        self.with_default(kind, document, defaults)
    }

    fn object(&mut self, document: &'s SchemaObject) -> CastKind {
        let size = count_range(document, "minProperties", "maxProperties");
        let additional = self.undeclared_rule(document, "additionalProperties");
        let properties = document.get("properties").and_then(Value::as_object);
        let patterns = document.get("patternProperties").and_then(Value::as_object);
        if let (None, Some(patterns)) = (properties, patterns)
            && let Some((pattern, schema)) = js::entries(patterns).next()
        {
            let value = self.enqueue(schema);
            let pattern = JsRegex::new(pattern.clone());
            return CastKind::Record(Box::new(RecordRules { size, pattern, value, additional }));
        }
        let properties = self.properties(properties, document);
        CastKind::Object(Box::new(ObjectRules { size, properties, additional }))
    }

    fn properties(
        &mut self,
        declared: Option<&'s SchemaObject>,
        document: &SchemaObject,
    ) -> Properties {
        let required: std::collections::HashSet<&str> = array_keyword(document, "required")
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut properties = Properties::default();
        for (key, schema) in declared.into_iter().flat_map(js::entries) {
            let required = required.contains(key.as_str());
            properties.insert(key.clone(), Property { node: self.enqueue(schema), required });
        }
        properties
    }

    fn array(&mut self, document: &'s SchemaObject) -> CastKind {
        let items = document.get("items");
        let (prefix, rest) = match (array_keyword(document, "prefixItems"), items) {
            (Some(prefix), rest) => (Some(prefix), rest),
            (None, Some(Value::Array(prefix))) => (Some(prefix), document.get("additionalItems")),
            (None, _) => (None, None),
        };
        if let (Some(prefix), None | Some(Value::Bool(false))) = (prefix, rest) {
            return CastKind::Tuple(prefix.iter().map(|item| self.enqueue(item)).collect());
        }
        let contains = document.get("contains").map(|schema| self.contains(schema, document));
        let items = match (prefix, items) {
            (None, Some(items)) => self.enqueue(items),
            _ => self.add(CastKind::Unknown),
        };
        CastKind::Array(Box::new(ArrayRules {
            items,
            length: count_range(document, "minItems", "maxItems"),
            unique: document.get("uniqueItems") == Some(&Value::Bool(true)),
            contains,
        }))
    }

    fn contains(&mut self, schema: &'s Value, document: &SchemaObject) -> Contains {
        let bound = |keyword| document.get(keyword).and_then(Value::as_f64);
        Contains {
            node: self.enqueue(schema),
            min: bound("minContains"),
            max: bound("maxContains"),
        }
    }
}

fn string_rules(document: &SchemaObject) -> StringRules {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        // JavaScript converts other scalars. Containers become `[`, an invalid pattern.
        Value::Array(_) | Value::Object(_) => "[".to_owned(),
        scalar => scalar.to_string(),
    };
    StringRules {
        length: count_range(document, "minLength", "maxLength"),
        pattern: document.get("pattern").map(|pattern| JsRegex::new(text(pattern))),
        format: document.get("format").map(text),
    }
}

fn number_rules(document: &SchemaObject) -> NumberRules {
    NumberRules {
        minimum: limit(document, "minimum"),
        maximum: limit(document, "maximum"),
        exclusive_minimum: limit(document, "exclusiveMinimum"),
        exclusive_maximum: limit(document, "exclusiveMaximum"),
        multiple_of: limit(document, "multipleOf"),
    }
}

fn count_range(document: &SchemaObject, min: &str, max: &str) -> CountRange {
    CountRange { min: limit(document, min), max: limit(document, max) }
}

fn limit(document: &SchemaObject, keyword: &str) -> Option<NumericLimit> {
    let written = document.get(keyword)?;
    // A bound that is too deep to copy is not a number, so null can replace it.
    let raw = js::copy_bounded(written, MAX_LITERAL_DEPTH).unwrap_or_default();
    Some(NumericLimit { raw, number: js::to_number(written) })
}
