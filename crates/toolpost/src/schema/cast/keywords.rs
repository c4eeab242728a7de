//! Compiles a schema that names its `type`.

use serde_json::Value;

use super::compile::{Compiler, Defaults, Document, list};
use super::js::{self, MAX_WRITTEN_DEPTH};
use super::node::{
    ArrayRules, Contains, Kind, Limit, NodeId, NumberRules, ObjectRules, Properties, Property,
    RecordRules, SizeRules, StringRules,
};
use super::pattern::Pattern;

impl<'s> Compiler<'s> {
    pub(super) fn of_type(
        &mut self,
        name: &str,
        document: &'s Document,
        defaults: Defaults,
    ) -> NodeId {
        let kind = match name {
            "string" => Kind::String(Box::new(string_rules(document))),
            "number" => Kind::Number(Box::new(number_rules(document))),
            "integer" => Kind::Integer(Box::new(number_rules(document))),
            "boolean" => Kind::Boolean,
            "null" => Kind::Null,
            "object" => self.object(document),
            "array" => self.array(document),
            _ => Kind::Unknown,
        };
        self.with_default(kind, document, defaults)
    }

    fn object(&mut self, document: &'s Document) -> Kind {
        let size = SizeRules {
            min: limit(document, "minProperties"),
            max: limit(document, "maxProperties"),
        };
        let additional = self.rest(document, "additionalProperties");
        let properties = document.get("properties").and_then(Value::as_object);
        let patterns = document.get("patternProperties").and_then(Value::as_object);
        if let (None, Some(patterns)) = (properties, patterns)
            && let Some((pattern, schema)) = js::entries(patterns).next()
        {
            let value = self.later(schema);
            let pattern = Pattern::new(pattern.clone());
            return Kind::Record(Box::new(RecordRules { size, pattern, value, additional }));
        }
        let properties = self.properties(properties, document);
        Kind::Object(Box::new(ObjectRules { size, properties, additional }))
    }

    fn properties(&mut self, declared: Option<&'s Document>, document: &Document) -> Properties {
        let required: std::collections::HashSet<&str> =
            list(document, "required").into_iter().flatten().filter_map(Value::as_str).collect();
        let mut properties = Properties::default();
        for (key, schema) in declared.into_iter().flat_map(js::entries) {
            let node = self.later(schema);
            let required = required.contains(key.as_str());
            properties.push(Property { key: key.clone(), node, required });
        }
        properties
    }

    fn array(&mut self, document: &'s Document) -> Kind {
        let items = document.get("items");
        let (prefix, rest) = match (list(document, "prefixItems"), items) {
            (Some(prefix), rest) => (Some(prefix), rest),
            (None, Some(Value::Array(prefix))) => (Some(prefix), document.get("additionalItems")),
            (None, _) => (None, None),
        };
        if let (Some(prefix), None | Some(Value::Bool(false))) = (prefix, rest) {
            return Kind::Tuple(prefix.iter().map(|item| self.later(item)).collect());
        }
        let contains = document.get("contains").map(|schema| self.contains(schema, document));
        let items = match (prefix, items) {
            (None, Some(items)) => self.later(items),
            _ => self.add(Kind::Unknown),
        };
        Kind::Array(Box::new(ArrayRules {
            items,
            min_items: limit(document, "minItems"),
            max_items: limit(document, "maxItems"),
            unique: document.get("uniqueItems") == Some(&Value::Bool(true)),
            contains,
        }))
    }

    fn contains(&mut self, schema: &'s Value, document: &Document) -> Contains {
        let bound = |keyword| document.get(keyword).and_then(Value::as_f64);
        Contains { node: self.later(schema), min: bound("minContains"), max: bound("maxContains") }
    }
}

fn string_rules(document: &Document) -> StringRules {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        // JavaScript spells other scalars out; what it makes of the rest helps nobody.
        Value::Array(_) | Value::Object(_) => "[".to_owned(),
        scalar => scalar.to_string(),
    };
    StringRules {
        min_length: limit(document, "minLength"),
        max_length: limit(document, "maxLength"),
        pattern: document.get("pattern").map(|pattern| Pattern::new(text(pattern))),
        format: document.get("format").map(text),
    }
}

fn number_rules(document: &Document) -> NumberRules {
    NumberRules {
        minimum: limit(document, "minimum"),
        maximum: limit(document, "maximum"),
        exclusive_minimum: limit(document, "exclusiveMinimum"),
        exclusive_maximum: limit(document, "exclusiveMaximum"),
        multiple_of: limit(document, "multipleOf"),
    }
}

fn limit(document: &Document, keyword: &str) -> Option<Limit> {
    let written = document.get(keyword)?;
    // A bound that nests too deeply to be copied is no number either way.
    let raw = js::copy(written, MAX_WRITTEN_DEPTH).unwrap_or_default();
    Some(Limit { raw, number: js::number_of(written) })
}
