//! Checks bounds, sizes and patterns of a single value, without its children.

use super::error::{CastCode, CastError, CastResult};
use super::node::{CountRange, NumberRules, NumericLimit, StringRules};
use super::pattern::JsRegex;

pub(super) fn is_valid_number(rules: &NumberRules, value: f64) -> bool {
    let holds = |limit: &Option<NumericLimit>, test: fn(f64, f64) -> bool| {
        limit.as_ref().is_none_or(|limit| test(value, limit.number))
    };
    holds(&rules.exclusive_maximum, |value, limit| value < limit)
        && holds(&rules.exclusive_minimum, |value, limit| value > limit)
        && holds(&rules.maximum, |value, limit| value <= limit)
        && holds(&rules.minimum, |value, limit| value >= limit)
        && holds(&rules.multiple_of, |value, limit| value % limit == 0.0)
}

pub(super) fn is_valid_string(rules: &StringRules, text: &str) -> CastResult<bool> {
    let CountRange { min, max } = &rules.length;
    if (min.is_some() || max.is_some()) && !rules.length.contains(text.encode_utf16().count()) {
        return Ok(false);
    }
    match &rules.pattern {
        Some(pattern) => matches_pattern(pattern, text),
        None => Ok(true),
    }
}

pub(super) fn matches_pattern(pattern: &JsRegex, text: &str) -> CastResult<bool> {
    pattern.matches(text).ok_or_else(|| CastError::with_detail(CastCode::Regex, pattern.source()))
}
