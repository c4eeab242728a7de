//! Keywords that hold schemas.

use serde_json::{Map, Value};

use super::keyword::{self, Said, count};
use super::pattern::{self, Reading};
use super::writer::{Draft, Place, Writer, Written};

/// Says a keyword that holds schemas; one that nobody knows says nothing.
pub(super) fn say<'a>(
    writer: &mut Writer<'a>,
    keyword: &str,
    value: &'a Value,
    beside: &'a Map<String, Value>,
    draft: &mut Draft,
    place: Place,
) {
    match keyword {
        "properties" => match value {
            Value::Object(schemas) => {
                let said = schemas.iter().map(|(name, schema)| {
                    let written = writer.schema(schema, place);
                    draft.is_weaker |= !written.is_exact;
                    (name.clone(), written.schema)
                });
                let said: Map<String, Value> = said.collect();
                draft.members.insert(keyword.to_owned(), said.into());
            }
            _ => writer.weaken(draft, keyword),
        },
        "patternProperties" => patterns(writer, value, draft, place),
        "additionalProperties" if patterns_are_sure(beside) => {
            let written = or_boolean(writer, value, place);
            draft.set(keyword, written);
        }
        "propertyNames" => {
            let written = writer.schema(value, place);
            draft.set(keyword, written);
        }
        "allOf" | "anyOf" => match list(writer, value, place) {
            Some(written) => draft.set(keyword, written),
            None => writer.weaken(draft, keyword),
        },
        "oneOf" => match list(writer, value, place) {
            Some(written) if written.is_exact => draft.set(keyword, written),
            // Where the branches admit more, a value may fit two of them.
            Some(written) => {
                writer.weaken(draft, keyword);
                draft.also.push(single("anyOf", written.schema));
            }
            None => writer.weaken(draft, keyword),
        },
        "not" => match writer.schema(value, place) {
            written if written.is_exact => draft.set(keyword, written),
            _ => writer.weaken(draft, keyword),
        },
        "if" => conditional(writer, value, beside, draft, place),
        "contains" => contains(writer, value, beside, draft, place),
        "dependentRequired" | "dependentSchemas" | "dependencies" => {
            dependencies(writer, keyword, value, draft, place);
        }
        "unevaluatedProperties" | "unevaluatedItems" if value == &Value::Bool(true) => {}
        "additionalProperties"
        | "minContains"
        | "maxContains"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "$dynamicRef"
        | "$recursiveRef" => writer.weaken(draft, keyword),
        _ if keyword.starts_with("x-") => {
            draft.members.insert(keyword.to_owned(), value.clone());
        }
        _ => {}
    }
}

/// `items` for everything behind what `prefixItems` names by position, for which draft 7 has another
/// word: each item fits one of them.
pub(super) fn say_items<'a>(
    writer: &mut Writer<'a>,
    members: &'a Map<String, Value>,
    draft: &mut Draft,
    place: Place,
) {
    let (listed, rest) = match (members.get("prefixItems"), members.get("items")) {
        (Some(Value::Array(listed)), rest) => (Some(listed), rest),
        (_, Some(Value::Array(listed))) => (Some(listed), members.get("additionalItems")),
        (_, rest) => (None, rest),
    };
    let Some(listed) = listed.filter(|listed| !listed.is_empty()) else {
        if let Some(rest) = rest {
            let written = or_boolean(writer, rest, place);
            draft.set("items", written);
        }
        return;
    };
    writer.weaken(draft, "prefixItems");
    let most = members.get("maxItems").and_then(count);
    let ends = rest == Some(&Value::Bool(false));
    let is_closed = ends || most.is_some_and(|most| most <= listed.len() as u64);
    if ends {
        let most = most.map_or(listed.len() as u64, |most| most.min(listed.len() as u64));
        draft.members.insert("maxItems".to_owned(), most.into());
    }
    let rest = if is_closed { None } else { Some(rest.unwrap_or(&Value::Bool(true))) };
    if rest == Some(&Value::Bool(true)) {
        return;
    }
    let mut kinds: Vec<Value> = Vec::new();
    for schema in listed.iter().chain(rest.filter(|_| !is_closed)) {
        let said = writer.schema(schema, place).schema;
        // A tuple of many alike is as easily read as one.
        if kinds.last() != Some(&said) {
            kinds.push(said);
        }
    }
    let items = if kinds.len() == 1 { kinds.swap_remove(0) } else { single("anyOf", kinds.into()) };
    draft.members.insert("items".to_owned(), items);
}

/// Booleans stay where everybody expects them.
fn or_boolean<'a>(writer: &mut Writer<'a>, value: &'a Value, place: Place) -> Written {
    match value {
        Value::Bool(_) => Written { schema: value.clone(), is_exact: true },
        _ => writer.schema(value, place),
    }
}

fn list<'a>(writer: &mut Writer<'a>, value: &'a Value, place: Place) -> Option<Written> {
    let schemas = value.as_array().filter(|schemas| !schemas.is_empty())?;
    let mut is_exact = true;
    let said = schemas.iter().map(|schema| {
        let written = writer.schema(schema, place);
        is_exact &= written.is_exact;
        written.schema
    });
    let schema = Value::Array(said.collect());
    Some(Written { schema, is_exact })
}

/// A name that one client takes for a match and another does not is judged by two schemas.
fn patterns<'a>(writer: &mut Writer<'a>, value: &'a Value, draft: &mut Draft, place: Place) {
    let Value::Object(schemas) = value else {
        return writer.weaken(draft, "patternProperties");
    };
    let mut said = Map::new();
    for (pattern, schema) in schemas {
        if pattern::read(pattern) == Reading::Same {
            let written = writer.schema(schema, place);
            draft.is_weaker |= !written.is_exact;
            said.insert(pattern.clone(), written.schema);
        } else {
            writer.weaken(draft, "patternProperties");
        }
    }
    draft.members.insert("patternProperties".to_owned(), said.into());
}

/// Whether every client agrees on which properties are additional.
fn patterns_are_sure(beside: &Map<String, Value>) -> bool {
    let is_sure = |pattern: &String| pattern::read(pattern) == Reading::Same;
    let named = beside.get("properties").is_none_or(Value::is_object);
    named
        && beside.get("patternProperties").is_none_or(|patterns| {
            patterns.as_object().is_some_and(|patterns| patterns.keys().all(is_sure))
        })
}

fn conditional<'a>(
    writer: &mut Writer<'a>,
    condition: &'a Value,
    beside: &'a Map<String, Value>,
    draft: &mut Draft,
    place: Place,
) {
    let written = writer.schema(condition, place);
    if !written.is_exact {
        return writer.weaken(draft, "if");
    }
    draft.set("if", written);
    for branch in ["then", "else"] {
        if let Some(schema) = beside.get(branch) {
            let written = writer.schema(schema, place);
            draft.set(branch, written);
        }
    }
}

/// Draft 7 knows `contains` without counts: at least one.
fn contains<'a>(
    writer: &mut Writer<'a>,
    value: &'a Value,
    beside: &Map<String, Value>,
    draft: &mut Draft,
    place: Place,
) {
    let least = beside.get("minContains").map_or(Some(1), count);
    if least.is_none_or(|least| least == 0) {
        return writer.weaken(draft, "contains");
    }
    let written = writer.schema(value, place);
    draft.set("contains", written);
}

/// `if there is such a property, then` in words that both drafts have.
fn dependencies<'a>(
    writer: &mut Writer<'a>,
    keyword: &str,
    value: &'a Value,
    draft: &mut Draft,
    place: Place,
) {
    let Value::Object(dependencies) = value else { return writer.weaken(draft, keyword) };
    for (property, then) in dependencies {
        let then = match then {
            // Whether it is there cannot be asked of everybody.
            _ if property.is_empty() => None,
            Value::Array(_) => required(then, draft),
            schema => {
                let written = writer.schema(schema, place);
                draft.is_weaker |= !written.is_exact;
                Some(written.schema)
            }
        };
        let Some(then) = then else {
            writer.weaken(draft, keyword);
            continue;
        };
        let mut has = single("required", Value::Array(vec![property.as_str().into()]));
        has["type"] = "object".into();
        let either = Value::Array(vec![single("not", has), then]);
        draft.also.push(single("anyOf", either));
    }
}

/// Says which properties must be there.
fn required(names: &Value, draft: &mut Draft) -> Option<Value> {
    let said = keyword::say("required", names, &Map::new())?;
    draft.is_weaker |= matches!(said, Said::Weaker(_));
    match said {
        Said::Exactly(names) | Said::Weaker(names) => Some(single("required", names)),
        Said::Nothing | Said::Unsayable => None,
    }
}

fn single(keyword: &str, value: Value) -> Value {
    Map::from_iter([(keyword.to_owned(), value)]).into()
}
