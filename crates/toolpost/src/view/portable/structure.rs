//! Writes the keywords of one schema, in particular those that contain schemas.

use serde_json::{Map, Value, json};

use super::keyword::{self, INHERITED_MEMBERS, KeywordMapping, count};
use super::pattern::{self, PatternPortability};
use super::relaxed;
use super::writer::{PortableWriter, WalkContext, WrittenSchema};
use crate::json::JsonObject;

/// A schema under construction.
pub(super) struct SchemaBuilder<'w, 'a> {
    writer: &'w mut PortableWriter<'a>,
    /// The keywords of the original.
    members: &'a JsonObject,
    context: WalkContext,
    /// Whether types also admit null.
    adds_null: bool,
    keywords: JsonObject,
    /// Additional constraints, written under `allOf`.
    all_of: Vec<Value>,
    is_weaker: bool,
}

impl<'w, 'a> SchemaBuilder<'w, 'a> {
    pub(super) fn new(
        writer: &'w mut PortableWriter<'a>,
        members: &'a JsonObject,
        context: WalkContext,
        adds_null: bool,
    ) -> Self {
        let (keywords, all_of) = (Map::new(), Vec::new());
        Self { writer, members, context, adds_null, keywords, all_of, is_weaker: false }
    }

    pub(super) fn write(mut self) -> WrittenSchema {
        if let Some(reference) = self.members.get("$ref") {
            let written = self.writer.write_ref(reference, self.context);
            if self.writer.references.ignores_ref_siblings {
                return written;
            }
            let reference = self.weaken(written);
            self.all_of.push(reference);
        }
        for (keyword, value) in self.members {
            if self.writer.is_relaxed && relaxed::is_omitted(keyword) {
                continue;
            }
            match keyword::map_keyword(keyword, value, self.members) {
                Some(KeywordMapping::Exact(types)) if keyword == "type" && self.adds_null => {
                    self.insert(keyword, relaxed::with_null(types));
                }
                Some(KeywordMapping::Exact(value)) => self.insert(keyword, value),
                Some(KeywordMapping::Weaker(value)) => {
                    self.insert(keyword, value);
                    self.is_weaker = true;
                }
                Some(KeywordMapping::Ignored) => {}
                Some(KeywordMapping::Unsupported) => self.omit(keyword),
                None => self.write_keyword(keyword, value),
            }
        }
        self.write_items();
        self.finish()
    }

    fn insert(&mut self, keyword: &str, value: Value) {
        self.keywords.insert(keyword.to_owned(), value);
    }

    /// Omits a keyword, which makes the schema weaker.
    fn omit(&mut self, keyword: &str) {
        self.writer.omit(keyword);
        self.is_weaker = true;
    }

    /// Returns the schema, and records whether it is weaker than the original.
    fn weaken(&mut self, written: WrittenSchema) -> Value {
        self.is_weaker |= !written.is_exact;
        written.schema
    }

    fn schema(&mut self, schema: &'a Value) -> WrittenSchema {
        self.writer.schema(schema, self.context)
    }

    fn weakened_schema(&mut self, schema: &'a Value) -> Value {
        let written = self.schema(schema);
        self.weaken(written)
    }

    fn set_schema(&mut self, keyword: &str, schema: &'a Value) {
        let written = self.weakened_schema(schema);
        self.insert(keyword, written);
    }

    /// Like `set_schema`, for keywords where all clients support booleans.
    fn set_schema_or_boolean(&mut self, keyword: &str, value: &'a Value) {
        match value {
            Value::Bool(_) if self.writer.is_relaxed => {}
            Value::Bool(_) => self.insert(keyword, value.clone()),
            _ => self.set_schema(keyword, value),
        }
    }

    /// Writes a keyword that contains schemas, or an `x-` extension.
    fn write_keyword(&mut self, keyword: &str, value: &'a Value) {
        match keyword {
            "properties" | "patternProperties" => self.properties(keyword, value),
            "additionalProperties" if has_portable_patterns(self.members) => {
                self.set_schema_or_boolean(keyword, value);
            }
            "propertyNames" => self.set_schema(keyword, value),
            "allOf" | "anyOf" | "oneOf" => self.schema_list(keyword, value),
            "not" => match self.schema(value) {
                written if written.is_exact => self.insert(keyword, written.schema),
                _ => self.omit(keyword),
            },
            "if" => self.conditional(value),
            // Draft 7 has no counts and requires at least one match.
            "contains" => match self.members.get("minContains").map_or(Some(1), count) {
                None | Some(0) => self.omit(keyword),
                Some(_) => self.set_schema(keyword, value),
            },
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                self.dependencies(keyword, value);
            }
            "unevaluatedProperties" | "unevaluatedItems" if value == &Value::Bool(true) => {}
            "additionalProperties"
            | "minContains"
            | "maxContains"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "$dynamicRef"
            | "$recursiveRef" => self.omit(keyword),
            _ if keyword.starts_with("x-") => self.insert(keyword, value.clone()),
            _ => {}
        }
    }

    /// Writes a map of schemas. Patterns that clients interpret differently are omitted, because
    /// clients would apply different schemas to a property.
    fn properties(&mut self, keyword: &str, value: &'a Value) {
        let Value::Object(schemas) = value else { return self.omit(keyword) };
        let mut mapped = Map::new();
        for (name, schema) in schemas {
            if keyword == "properties" && INHERITED_MEMBERS.contains(&name.as_str()) {
                // A client would apply the schema to the inherited member of an object without it.
                self.omit(name);
                mapped.insert(name.clone(), Value::Object(Map::new()));
            } else if keyword == "properties" || is_exact_pattern(name) {
                mapped.insert(name.clone(), self.weakened_schema(schema));
            } else {
                self.omit(keyword);
            }
        }
        self.insert(keyword, mapped.into());
    }

    fn schema_list(&mut self, keyword: &str, value: &'a Value) {
        let schemas = value.as_array().filter(|schemas| !schemas.is_empty());
        let Some(schemas) = schemas else { return self.omit(keyword) };
        if self.writer.is_relaxed {
            return self.relaxed_list(keyword, schemas);
        }
        let mut is_exact = true;
        let mapped = schemas.iter().map(|schema| {
            let written = self.schema(schema);
            is_exact &= written.is_exact;
            written.schema
        });
        let schema = Value::Array(mapped.collect());
        if keyword == "oneOf" && !is_exact {
            // Branches that admit more values can overlap, so `oneOf` becomes `anyOf`.
            self.omit(keyword);
            return self.all_of.push(json!({"anyOf": schema}));
        }
        self.is_weaker |= !is_exact;
        self.insert(keyword, schema);
    }

    /// Writes a list of schemas in relaxed form, where `oneOf` becomes `anyOf`.
    fn relaxed_list(&mut self, keyword: &str, schemas: &'a [Value]) {
        let mut written: Vec<Value> =
            schemas.iter().map(|schema| self.weakened_schema(schema)).collect();
        if keyword == "allOf" {
            return self.all_of.append(&mut written);
        }
        // Schemas often differ only in constraints that are omitted.
        written.dedup();
        if written.iter().any(relaxed::is_unconstrained) {
            return;
        }
        match self.keywords.get("anyOf") {
            None => self.insert("anyOf", written.into()),
            Some(_) => self.all_of.push(json!({"anyOf": written})),
        }
    }

    /// Writes `items`, for a tuple with any of the item schemas.
    fn write_items(&mut self) {
        let (tuple, rest) = match (self.members.get("prefixItems"), self.members.get("items")) {
            (Some(Value::Array(tuple)), rest) => (Some(tuple), rest),
            (_, Some(Value::Array(tuple))) => (Some(tuple), self.members.get("additionalItems")),
            (_, rest) => (None, rest),
        };
        let Some(tuple) = tuple.filter(|tuple| !tuple.is_empty()) else {
            if let Some(rest) = rest {
                self.set_schema_or_boolean("items", rest);
            }
            return;
        };
        self.omit("prefixItems");
        let length = tuple.len() as u64;
        let max_items = self.members.get("maxItems").and_then(count);
        let ends = rest == Some(&Value::Bool(false));
        if ends && !self.writer.is_relaxed {
            self.insert("maxItems", max_items.map_or(length, |max| max.min(length)).into());
        }
        let is_closed = ends || max_items.is_some_and(|max| max <= length);
        let rest = rest.filter(|_| !is_closed);
        if !is_closed && rest.is_none_or(|rest| *rest == Value::Bool(true)) {
            return;
        }
        let mut kinds: Vec<Value> = Vec::new();
        for schema in tuple.iter().chain(rest) {
            let mapped = self.schema(schema).schema;
            // Merge equal adjacent schemas.
            if kinds.last() != Some(&mapped) {
                kinds.push(mapped);
            }
        }
        let is_single = kinds.len() == 1;
        self.insert(
            "items",
            if is_single { kinds.swap_remove(0) } else { json!({"anyOf": kinds}) },
        );
    }

    fn conditional(&mut self, condition: &'a Value) {
        let written = self.schema(condition);
        if !written.is_exact {
            return self.omit("if");
        }
        self.insert("if", written.schema);
        for branch in ["then", "else"] {
            if let Some(schema) = self.members.get(branch) {
                self.set_schema(branch, schema);
            }
        }
    }

    /// Writes dependencies with keywords that both drafts support.
    fn dependencies(&mut self, keyword: &str, value: &'a Value) {
        let Value::Object(dependencies) = value else { return self.omit(keyword) };
        for (property, then) in dependencies {
            let then = match then {
                _ if !keyword::is_testable(property) => None,
                Value::Array(_) => self.required(then),
                schema => Some(self.weakened_schema(schema)),
            };
            match then {
                Some(then) => {
                    let has = json!({"required": [property], "type": "object"});
                    self.all_of.push(json!({"anyOf": [{"not": has}, then]}));
                }
                None => self.omit(keyword),
            }
        }
    }

    /// Returns a schema that requires the named properties.
    fn required(&mut self, names: &Value) -> Option<Value> {
        match keyword::map_keyword("required", names, &Map::new())? {
            KeywordMapping::Exact(names) => Some(json!({"required": names})),
            KeywordMapping::Weaker(names) => {
                self.is_weaker = true;
                Some(json!({"required": names}))
            }
            KeywordMapping::Ignored | KeywordMapping::Unsupported => None,
        }
    }

    fn finish(self) -> WrittenSchema {
        let Self { keywords: mut members, all_of: mut also, is_weaker, .. } = self;
        let is_annotated = members.keys().all(|keyword| is_annotation(keyword));
        if let [Value::Object(only)] = also.as_mut_slice()
            && is_annotated
        {
            // Annotations can be placed next to a `$ref`, although draft 7 ignores them there.
            only.append(&mut members);
            return WrittenSchema { schema: also.swap_remove(0), is_exact: !is_weaker };
        }
        also.retain(|schema| schema.as_object().is_none_or(|members| !members.is_empty()));
        if !also.is_empty() {
            let all = members.entry("allOf").or_insert_with(|| Value::Array(Vec::new()));
            all.as_array_mut().into_iter().for_each(|all| all.append(&mut also));
        }
        WrittenSchema { schema: members.into(), is_exact: !is_weaker }
    }
}

/// Whether all clients agree on which properties are additional.
fn has_portable_patterns(members: &JsonObject) -> bool {
    let patterns = members.get("patternProperties").map(Value::as_object);
    members.get("properties").is_none_or(Value::is_object)
        && patterns.is_none_or(|patterns| {
            patterns.is_some_and(|patterns| patterns.keys().all(|it| is_exact_pattern(it)))
        })
}

fn is_exact_pattern(pattern: &str) -> bool {
    pattern::classify(pattern) == PatternPortability::Exact
}

/// Whether a keyword constrains nothing.
pub(super) fn is_annotation(keyword: &str) -> bool {
    let annotations =
        ["title", "description", "$comment", "default", "examples", "deprecated", "readOnly"];
    annotations.contains(&keyword) || keyword == "writeOnly" || keyword.starts_with("x-")
}
