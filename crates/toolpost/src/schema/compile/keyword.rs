//! Keywords without subschemas.

use std::cmp::Ordering;

use referencing::Draft;
use serde_json::{Number, Value};

use super::super::SchemaError;
use super::super::budget::ValueSize;
use super::super::equality::equal;
use super::super::issue::truncate;
use super::super::program::{
    Bound, ContentRule, IntegerRule, Multiple, NumberRules, PatternMatcher, StringRules, TypeSet,
};
use super::SchemaCompiler;
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

impl SchemaCompiler<'_> {
    /// Returns the values that both `const` and `enum` admit.
    pub(super) fn literals(
        &self,
        schema: &JsonObject,
        draft: Draft,
    ) -> Result<Option<Box<[Value]>>, SchemaError> {
        for keyword in ["const", "enum"] {
            if let Some(value) = schema.get(keyword) {
                let size = ValueSize::of(value);
                self.budget.allocate(size.bytes);
                self.spend(size.nodes)?;
            }
        }
        Ok(literals(schema, draft))
    }

    pub(super) fn string(
        &self,
        schema: &JsonObject,
        draft: Draft,
    ) -> Result<Option<StringRules>, SchemaError> {
        let rules = StringRules {
            min: size(schema, "minLength").unwrap_or(0),
            max: size(schema, "maxLength"),
            pattern: match schema.get("pattern").and_then(Value::as_str) {
                Some(pattern) => Some(self.pattern(pattern)?),
                None => None,
            },
            content: content(schema, draft),
        };
        let has_constraints = rules.min > 0 || rules.max.is_some() || rules.pattern.is_some();
        Ok((has_constraints || rules.content.is_some()).then_some(rules))
    }

    pub(super) fn pattern(&self, pattern: &str) -> Result<PatternMatcher, SchemaError> {
        PatternMatcher::compile(pattern, self.budget).ok_or_else(|| {
            match self.budget.is_exceeded() {
                true => SchemaError::over_budget(self.budget),
                false => SchemaError::at_root(format!(
                    "`{}` is not a regular expression, or is too large",
                    truncate(pattern, 100)
                )),
            }
        })
    }
}

fn literals(schema: &JsonObject, draft: Draft) -> Option<Box<[Value]>> {
    let constant = schema.get("const").filter(|_| draft != Draft::Draft4);
    let listed = schema.get("enum").and_then(Value::as_array);
    match (constant, listed) {
        (Some(constant), None) => Some(Box::new([constant.clone()])),
        (None, Some(listed)) => Some(listed.clone().into()),
        (Some(constant), Some(listed)) => {
            let is_constant = |value: &&Value| equal(value, constant);
            Some(listed.iter().filter(is_constant).cloned().collect())
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
    let integer_divisor =
        divisor.as_u64().filter(|divisor| (1..=MAX_EXACT_INTEGER).contains(divisor));
    Some(Multiple { integer: integer_divisor, divisor: divisor.as_number()?.clone() })
}

fn content(schema: &JsonObject, draft: Draft) -> Option<ContentRule> {
    if !matches!(draft, Draft::Draft6 | Draft::Draft7) {
        return None;
    }
    let text = |name| schema.get(name).and_then(Value::as_str);
    ContentRule::new(text("contentEncoding"), text("contentMediaType"))
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
