//! Keywords without subschemas.

use std::cmp::Ordering;

use referencing::Draft;
use serde_json::{Number, Value, json};

use super::super::program::{
    Bound, ContentRule, IntegerRule, Multiple, NumberRules, PatternMatcher, StringRules, TypeSet,
};
use crate::json::JsonObject;

/// Largest divisor for which integer and float arithmetic agree; floats are exact up to it.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

pub(super) fn types(schema: &JsonObject) -> TypeSet {
    match schema.get("type") {
        Some(Value::String(name)) => TypeSet::from_name(name),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .fold(TypeSet::NONE, |types, name| types.union(TypeSet::from_name(name))),
        _ => TypeSet::ANY,
    }
}

/// Returns the values that both `const` and `enum` admit.
pub(super) fn literals(schema: &JsonObject, draft: Draft) -> Option<Box<[Value]>> {
    let constant = schema.get("const").filter(|_| draft != Draft::Draft4);
    let listed = schema.get("enum").and_then(Value::as_array);
    match (constant, listed) {
        (Some(constant), None) => Some(Box::new([constant.clone()])),
        (None, Some(listed)) => Some(listed.clone().into()),
        (Some(constant), Some(listed)) => {
            let equal = |value: &&Value| jsonschema::json::cmp::equal(value, constant);
            Some(listed.iter().filter(equal).cloned().collect())
        }
        (None, None) => None,
    }
}

/// Returns the types of the literals. Every number is a `number`, whatever its notation.
pub(super) fn types_of(literals: &[Value]) -> TypeSet {
    literals.iter().fold(TypeSet::NONE, |types, literal| {
        types.union(match literal {
            Value::Number(_) => TypeSet::NUMBER,
            other => TypeSet::of_value(other, IntegerRule::ByValue),
        })
    })
}

pub(super) fn number(schema: &JsonObject, draft: Draft) -> Option<NumberRules> {
    let mut bounds = Vec::new();
    let sides = [
        ("minimum", "exclusiveMinimum", Ordering::Greater),
        ("maximum", "exclusiveMaximum", Ordering::Less),
    ];
    for (plain, exclusive, side) in sides {
        let strict = schema.get(exclusive) == Some(&Value::Bool(true)) && draft == Draft::Draft4;
        if let Some(Value::Number(limit)) = schema.get(plain) {
            bounds.push(Bound { limit: limit.clone(), side, inclusive: !strict });
        }
        if let Some(Value::Number(limit)) = schema.get(exclusive)
            && draft != Draft::Draft4
        {
            bounds.push(Bound { limit: limit.clone(), side, inclusive: false });
        }
    }
    let multiple = schema.get("multipleOf").and_then(multiple);
    let rules = NumberRules { bounds: bounds.into(), multiple };
    (!rules.bounds.is_empty() || rules.multiple.is_some()).then_some(rules)
}

fn multiple(divisor: &Value) -> Option<Multiple> {
    let exact = jsonschema::options().build(&json!({ "multipleOf": divisor })).ok()?;
    let integer_divisor =
        divisor.as_u64().filter(|divisor| (1..=MAX_EXACT_INTEGER).contains(divisor));
    Some(Multiple { integer: integer_divisor, fallback: Box::new(exact) })
}

pub(super) fn string(schema: &JsonObject, draft: Draft) -> Option<StringRules> {
    let rules = StringRules {
        min: size(schema, "minLength").unwrap_or(0),
        max: size(schema, "maxLength"),
        pattern: schema.get("pattern").and_then(Value::as_str).and_then(PatternMatcher::compile),
        content: content(schema, draft),
    };
    let has_constraints = rules.min > 0 || rules.max.is_some() || rules.pattern.is_some();
    (has_constraints || rules.content.is_some()).then_some(rules)
}

fn content(schema: &JsonObject, draft: Draft) -> Option<ContentRule> {
    if !matches!(draft, Draft::Draft6 | Draft::Draft7) {
        return None;
    }
    let asserted: JsonObject = ["contentEncoding", "contentMediaType"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), schema.get(name)?.clone())))
        .collect();
    if asserted.is_empty() {
        return None;
    }
    let validator = jsonschema::options().with_draft(draft).build(&Value::Object(asserted)).ok()?;
    Some(ContentRule(Box::new(validator)))
}

/// Returns the value of a size keyword, which can be a float. Values beyond `usize::MAX` saturate.
pub(super) fn size(schema: &JsonObject, keyword: &str) -> Option<usize> {
    let number = schema.get(keyword)?.as_number()?;
    Some(saturating_size(number))
}

fn saturating_size(number: &Number) -> usize {
    match (number.as_u64(), number.as_f64()) {
        (Some(size), _) => usize::try_from(size).unwrap_or(usize::MAX),
        // The cast saturates. Sizes are never negative.
        (None, Some(size)) => size as usize,
        (None, None) => usize::MAX,
    }
}
