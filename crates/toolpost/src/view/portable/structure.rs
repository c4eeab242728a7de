//! Keywords that hold schemas.

use serde_json::{Map, Value};

use super::keyword::{self, KeywordMapping, count};
use super::pattern::{self, PatternPortability};
use super::writer::{PortableWriter, SchemaBuilder, WalkContext, WrittenSchema};

/// Says a keyword that holds schemas; one that nobody knows says nothing.
pub(super) fn write_keyword<'a>(
    writer: &mut PortableWriter<'a>,
    keyword: &str,
    value: &'a Value,
    siblings: &'a Map<String, Value>,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    match keyword {
        "properties" => match value {
            Value::Object(schemas) => {
                let mapped = schemas.iter().map(|(name, schema)| {
                    let written = writer.schema(schema, context);
                    builder.is_weaker |= !written.is_exact;
                    (name.clone(), written.schema)
                });
                let mapped: Map<String, Value> = mapped.collect();
                builder.keywords.insert(keyword.to_owned(), mapped.into());
            }
            _ => writer.omit_keyword(builder, keyword),
        },
        "patternProperties" => pattern_properties(writer, value, builder, context),
        "additionalProperties" if has_portable_patterns(siblings) => {
            let written = schema_or_boolean(writer, value, context);
            builder.set(keyword, written);
        }
        "propertyNames" => {
            let written = writer.schema(value, context);
            builder.set(keyword, written);
        }
        "allOf" | "anyOf" => match schema_list(writer, value, context) {
            Some(written) => builder.set(keyword, written),
            None => writer.omit_keyword(builder, keyword),
        },
        "oneOf" => match schema_list(writer, value, context) {
            Some(written) if written.is_exact => builder.set(keyword, written),
            // Where the branches admit more, a value may fit two of them.
            Some(written) => {
                writer.omit_keyword(builder, keyword);
                builder.all_of.push(single("anyOf", written.schema));
            }
            None => writer.omit_keyword(builder, keyword),
        },
        "not" => match writer.schema(value, context) {
            written if written.is_exact => builder.set(keyword, written),
            _ => writer.omit_keyword(builder, keyword),
        },
        "if" => conditional(writer, value, siblings, builder, context),
        "contains" => contains(writer, value, siblings, builder, context),
        "dependentRequired" | "dependentSchemas" | "dependencies" => {
            dependencies(writer, keyword, value, builder, context);
        }
        "unevaluatedProperties" | "unevaluatedItems" if value == &Value::Bool(true) => {}
        "additionalProperties"
        | "minContains"
        | "maxContains"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "$dynamicRef"
        | "$recursiveRef" => writer.omit_keyword(builder, keyword),
        _ if keyword.starts_with("x-") => {
            builder.keywords.insert(keyword.to_owned(), value.clone());
        }
        _ => {}
    }
}

/// `items` for everything after `prefixItems`, which is not portable: each item fits one of them.
pub(super) fn write_items<'a>(
    writer: &mut PortableWriter<'a>,
    members: &'a Map<String, Value>,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    let (tuple, rest) = match (members.get("prefixItems"), members.get("items")) {
        (Some(Value::Array(tuple)), rest) => (Some(tuple), rest),
        (_, Some(Value::Array(tuple))) => (Some(tuple), members.get("additionalItems")),
        (_, rest) => (None, rest),
    };
    let Some(tuple) = tuple.filter(|tuple| !tuple.is_empty()) else {
        if let Some(rest) = rest {
            let written = schema_or_boolean(writer, rest, context);
            builder.set("items", written);
        }
        return;
    };
    writer.omit_keyword(builder, "prefixItems");
    let max_items = members.get("maxItems").and_then(count);
    let ends = rest == Some(&Value::Bool(false));
    let is_closed = ends || max_items.is_some_and(|max_items| max_items <= tuple.len() as u64);
    if ends {
        let max_items =
            max_items.map_or(tuple.len() as u64, |max_items| max_items.min(tuple.len() as u64));
        builder.keywords.insert("maxItems".to_owned(), max_items.into());
    }
    let rest = if is_closed { None } else { Some(rest.unwrap_or(&Value::Bool(true))) };
    if rest == Some(&Value::Bool(true)) {
        return;
    }
    let mut kinds: Vec<Value> = Vec::new();
    for schema in tuple.iter().chain(rest.filter(|_| !is_closed)) {
        let mapped = writer.schema(schema, context).schema;
        // A tuple of many alike is as easily read as one.
        if kinds.last() != Some(&mapped) {
            kinds.push(mapped);
        }
    }
    let items = if kinds.len() == 1 { kinds.swap_remove(0) } else { single("anyOf", kinds.into()) };
    builder.keywords.insert("items".to_owned(), items);
}

/// Booleans stay where everybody expects them.
fn schema_or_boolean<'a>(
    writer: &mut PortableWriter<'a>,
    value: &'a Value,
    context: WalkContext,
) -> WrittenSchema {
    match value {
        Value::Bool(_) => WrittenSchema { schema: value.clone(), is_exact: true },
        _ => writer.schema(value, context),
    }
}

fn schema_list<'a>(
    writer: &mut PortableWriter<'a>,
    value: &'a Value,
    context: WalkContext,
) -> Option<WrittenSchema> {
    let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
    let mut is_exact = true;
    let mapped = schemas.iter().map(|schema| {
        let written = writer.schema(schema, context);
        is_exact &= written.is_exact;
        written.schema
    });
    let schema = Value::Array(mapped.collect());
    Some(WrittenSchema { schema, is_exact })
}

/// A name that one client takes for a match and another does not is judged by two schemas.
fn pattern_properties<'a>(
    writer: &mut PortableWriter<'a>,
    value: &'a Value,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    let Value::Object(schemas) = value else {
        return writer.omit_keyword(builder, "patternProperties");
    };
    let mut mapped = Map::new();
    for (pattern, schema) in schemas {
        if pattern::classify(pattern) == PatternPortability::Exact {
            let written = writer.schema(schema, context);
            builder.is_weaker |= !written.is_exact;
            mapped.insert(pattern.clone(), written.schema);
        } else {
            writer.omit_keyword(builder, "patternProperties");
        }
    }
    builder.keywords.insert("patternProperties".to_owned(), mapped.into());
}

/// Whether every client agrees on which properties are additional.
fn has_portable_patterns(siblings: &Map<String, Value>) -> bool {
    let is_sure = |pattern: &String| pattern::classify(pattern) == PatternPortability::Exact;
    let has_valid_properties = siblings.get("properties").is_none_or(Value::is_object);
    has_valid_properties
        && siblings.get("patternProperties").is_none_or(|patterns| {
            patterns.as_object().is_some_and(|patterns| patterns.keys().all(is_sure))
        })
}

fn conditional<'a>(
    writer: &mut PortableWriter<'a>,
    condition: &'a Value,
    siblings: &'a Map<String, Value>,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    let written = writer.schema(condition, context);
    if !written.is_exact {
        return writer.omit_keyword(builder, "if");
    }
    builder.set("if", written);
    for branch in ["then", "else"] {
        if let Some(schema) = siblings.get(branch) {
            let written = writer.schema(schema, context);
            builder.set(branch, written);
        }
    }
}

/// Draft 7 knows `contains` without counts: at least one.
fn contains<'a>(
    writer: &mut PortableWriter<'a>,
    value: &'a Value,
    siblings: &Map<String, Value>,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    let min = siblings.get("minContains").map_or(Some(1), count);
    if min.is_none_or(|min| min == 0) {
        return writer.omit_keyword(builder, "contains");
    }
    let written = writer.schema(value, context);
    builder.set("contains", written);
}

/// `if there is such a property, then` in words that both drafts have.
fn dependencies<'a>(
    writer: &mut PortableWriter<'a>,
    keyword: &str,
    value: &'a Value,
    builder: &mut SchemaBuilder,
    context: WalkContext,
) {
    let Value::Object(dependencies) = value else { return writer.omit_keyword(builder, keyword) };
    for (property, then) in dependencies {
        let then = match then {
            // Whether it is there cannot be asked of everybody.
            _ if property.is_empty() => None,
            Value::Array(_) => required(then, builder),
            schema => {
                let written = writer.schema(schema, context);
                builder.is_weaker |= !written.is_exact;
                Some(written.schema)
            }
        };
        let Some(then) = then else {
            writer.omit_keyword(builder, keyword);
            continue;
        };
        let mut has = single("required", Value::Array(vec![property.as_str().into()]));
        has["type"] = "object".into();
        let either = Value::Array(vec![single("not", has), then]);
        builder.all_of.push(single("anyOf", either));
    }
}

/// Says which properties must be there.
fn required(names: &Value, builder: &mut SchemaBuilder) -> Option<Value> {
    let mapped = keyword::map_keyword("required", names, &Map::new())?;
    builder.is_weaker |= matches!(mapped, KeywordMapping::Weaker(_));
    match mapped {
        KeywordMapping::Exact(names) | KeywordMapping::Weaker(names) => {
            Some(single("required", names))
        }
        KeywordMapping::Ignored | KeywordMapping::Unsupported => None,
    }
}

fn single(keyword: &str, value: Value) -> Value {
    Map::from_iter([(keyword.to_owned(), value)]).into()
}
