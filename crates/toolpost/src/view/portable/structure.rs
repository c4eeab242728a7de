//! Keywords that contain schemas.

use serde_json::{Map, Value};

use super::keyword::{self, KeywordMapping, count};
use super::pattern::{self, PatternPortability};
use super::writer::{PortableWriter, SchemaBuilder, WalkContext, WrittenSchema};

/// Writes a keyword that contains schemas. Unknown keywords are skipped, except `x-` extensions.
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
            // Branches that admit more values can overlap, so `oneOf` becomes `anyOf`.
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

/// Writes `items`. `prefixItems` is not portable, so each item of a tuple can match any of the item
/// schemas.
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
        // Merge equal adjacent schemas.
        if kinds.last() != Some(&mapped) {
            kinds.push(mapped);
        }
    }
    let items = if kinds.len() == 1 { kinds.swap_remove(0) } else { single("anyOf", kinds.into()) };
    builder.keywords.insert("items".to_owned(), items);
}

/// Writes a schema but keeps a boolean, for keywords where all clients support booleans.
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

/// Writes `patternProperties`. Patterns that clients interpret differently are omitted, because
/// clients would apply different schemas to a property.
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

/// Whether all clients agree on which properties are additional.
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

/// Writes `contains`. Draft 7 has no counts and requires at least one match.
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

/// Writes dependencies with keywords that both drafts support.
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
            // Not all clients can test for a property with an empty name.
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

/// Returns a schema that requires the named properties.
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
