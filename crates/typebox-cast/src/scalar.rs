//! Checks bounds, sizes and patterns of a single value, without its children.

use serde_json::{Map, Value};

use super::error::{CastCode, CastError, CastResult};
use super::node::{NumberRules, NumericLimit, SizeRules, StringRules};
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
    if rules.min_length.is_some() || rules.max_length.is_some() {
        let units = text.encode_utf16().count();
        if !is_valid_count(units, rules.min_length.as_ref(), rules.max_length.as_ref()) {
            return Ok(false);
        }
    }
    match &rules.pattern {
        Some(pattern) => matches_pattern(pattern, text),
        None => Ok(true),
    }
}

pub(super) fn matches_pattern(pattern: &JsRegex, text: &str) -> CastResult<bool> {
    pattern.matches(text).ok_or_else(|| CastError::with_detail(CastCode::Regex, pattern.source()))
}

pub(super) fn is_valid_size(rules: &SizeRules, map: &Map<String, Value>) -> bool {
    is_valid_count(map.len(), rules.min.as_ref(), rules.max.as_ref())
}

pub(super) fn is_valid_count(
    count: usize,
    min: Option<&NumericLimit>,
    max: Option<&NumericLimit>,
) -> bool {
    // Counts are far below 2^53, where f64 is exact.
    let count = count as f64;
    min.is_none_or(|min| count >= min.number) && max.is_none_or(|max| count <= max.number)
}
