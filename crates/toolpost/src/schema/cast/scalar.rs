//! Bounds and patterns, which look at one value and never below it.

use serde_json::{Map, Value};

use super::check::Outcome;
use super::error::{CastCode, Fault};
use super::node::{Limit, NumberRules, SizeRules, StringRules};
use super::pattern::Pattern;

pub(super) fn number_fits(rules: &NumberRules, value: f64) -> bool {
    let holds = |limit: &Option<Limit>, test: fn(f64, f64) -> bool| {
        limit.as_ref().is_none_or(|limit| test(value, limit.number))
    };
    holds(&rules.exclusive_maximum, |value, limit| value < limit)
        && holds(&rules.exclusive_minimum, |value, limit| value > limit)
        && holds(&rules.maximum, |value, limit| value <= limit)
        && holds(&rules.minimum, |value, limit| value >= limit)
        && holds(&rules.multiple_of, |value, limit| value % limit == 0.0)
}

pub(super) fn string_fits<'p>(rules: &'p StringRules, text: &str) -> Outcome<'p, bool> {
    if rules.min_length.is_some() || rules.max_length.is_some() {
        let units = text.encode_utf16().count();
        if !count_fits(units, rules.min_length.as_ref(), rules.max_length.as_ref()) {
            return Ok(false);
        }
    }
    match &rules.pattern {
        Some(pattern) => pattern_fits(pattern, text),
        None => Ok(true),
    }
}

pub(super) fn pattern_fits<'p>(pattern: &'p Pattern, text: &str) -> Outcome<'p, bool> {
    pattern.matches(text).ok_or_else(|| Fault::naming(CastCode::Regex, pattern.source()))
}

pub(super) fn size_fits(rules: &SizeRules, map: &Map<String, Value>) -> bool {
    count_fits(map.len(), rules.min.as_ref(), rules.max.as_ref())
}

pub(super) fn count_fits(count: usize, min: Option<&Limit>, max: Option<&Limit>) -> bool {
    // Counts are far below 2^53, where f64 is exact.
    let count = count as f64;
    min.is_none_or(|min| count >= min.number) && max.is_none_or(|max| count <= max.number)
}
