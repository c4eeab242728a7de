//! Matches patterns against message payloads.
//!
//! Each node of a pattern is matched at most once against each node of a payload, so the time is
//! bounded by the product of their sizes. Results of nested descendant searches are cached.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::error::{CapabilityError, CompileBudget, MAX_DEPTH, MAX_DESCENDANT_SEARCHES};
use super::glob::{Glob, GlobSyntax};
use super::json_path::{JsonPathSegment, parse_json_path};
use super::string_pattern::StringPattern;

#[derive(Debug)]
pub(super) enum PatternNode {
    Null,
    Bool(bool),
    Number(Number),
    Text(StringPattern),
    /// At least one of these matches.
    AnyOf(Box<[PatternNode]>),
    /// The value is an object, and all of these match.
    Object(Box<[PatternNode]>),
    /// At least one selected value matches.
    Select(PatternSelector, Box<PatternNode>),
}

#[derive(Debug)]
pub(super) enum PatternSelector {
    Key(Box<str>),
    KeyGlob(Glob),
    Index(usize),
    AnyChild,
    /// The value itself and all its descendants. The number identifies the search in the cache.
    Descendant(usize),
}

#[derive(Debug)]
pub(super) struct PatternCompiler {
    pub(super) budget: CompileBudget,
    descendant_searches: usize,
}

impl PatternCompiler {
    pub(super) fn new() -> Self {
        Self { budget: CompileBudget::new(), descendant_searches: 0 }
    }

    pub(super) fn compile_node(
        &mut self,
        value: &Value,
        depth: usize,
    ) -> Result<PatternNode, CapabilityError> {
        if depth > MAX_DEPTH {
            return Err(CapabilityError::TooDeep);
        }
        self.budget.take_node()?;
        Ok(match value {
            Value::Null => PatternNode::Null,
            Value::Bool(value) => PatternNode::Bool(*value),
            Value::Number(value) => PatternNode::Number(value.clone()),
            Value::String(text) => {
                let glob = |text: &str| Ok(Glob::new(GlobSyntax::Segmented, text));
                PatternNode::Text(StringPattern::compile(&mut self.budget, text, glob)?)
            }
            Value::Array(alternatives) => PatternNode::AnyOf(
                alternatives
                    .iter()
                    .map(|value| self.compile_node(value, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
            Value::Object(members) => PatternNode::Object(
                members
                    .iter()
                    .map(|(key, value)| self.compile_member(key, value, depth + 1))
                    .collect::<Result<_, _>>()?,
            ),
        })
    }

    fn compile_member(
        &mut self,
        key: &str,
        value: &Value,
        depth: usize,
    ) -> Result<PatternNode, CapabilityError> {
        self.budget.take_string(key)?;
        if key.starts_with('$') {
            return self.compile_path(&parse_json_path(key)?, value, depth);
        }
        let selector = match key {
            "**" => self.descendant()?,
            _ if key.contains(['*', '?']) => {
                PatternSelector::KeyGlob(Glob::new(GlobSyntax::Segmented, key))
            }
            _ => PatternSelector::Key(key.into()),
        };
        Ok(PatternNode::Select(selector, Box::new(self.compile_node(value, depth)?)))
    }

    /// The pattern matches if any value that the path selects matches.
    pub(super) fn compile_path(
        &mut self,
        segments: &[JsonPathSegment],
        value: &Value,
        depth: usize,
    ) -> Result<PatternNode, CapabilityError> {
        let Some((segment, rest)) = segments.split_first() else {
            return self.compile_node(value, depth);
        };
        if depth > MAX_DEPTH {
            return Err(CapabilityError::TooDeep);
        }
        self.budget.take_node()?;
        let selector = match segment {
            JsonPathSegment::Name(name) => PatternSelector::Key(name.as_str().into()),
            JsonPathSegment::Index(index) => PatternSelector::Index(*index),
            JsonPathSegment::Wildcard => PatternSelector::AnyChild,
            JsonPathSegment::Descendant => self.descendant()?,
        };
        Ok(PatternNode::Select(selector, Box::new(self.compile_path(rest, value, depth + 1)?)))
    }

    fn descendant(&mut self) -> Result<PatternSelector, CapabilityError> {
        self.descendant_searches += 1;
        let allowed = self.descendant_searches <= MAX_DESCENDANT_SEARCHES;
        allowed
            .then_some(PatternSelector::Descendant(self.descendant_searches))
            .ok_or(CapabilityError::TooComplex)
    }
}

impl PatternNode {
    pub(super) fn matches(&self, value: &Value) -> bool {
        PatternMatcher::default().matches(self, value)
    }
}

type MatchCache = HashMap<(usize, usize), bool, foldhash::fast::RandomState>;

/// One match of a pattern, with cached results for values that are visited more than once.
#[derive(Default)]
struct PatternMatcher {
    /// Nesting depth of the running descendant searches.
    depth: usize,
    /// Created on first use, since nested descendant searches are rare.
    cache: Option<MatchCache>,
}

impl PatternMatcher {
    fn matches(&mut self, node: &PatternNode, value: &Value) -> bool {
        match (node, value) {
            (PatternNode::AnyOf(nodes), _) => nodes.iter().any(|node| self.matches(node, value)),
            (PatternNode::Select(selector, node), _) => self.selects(selector, node, value),
            (PatternNode::Null, Value::Null) => true,
            (PatternNode::Bool(own), Value::Bool(other)) => own == other,
            (PatternNode::Number(own), Value::Number(other)) => numbers_equal(own, other),
            (PatternNode::Text(text), Value::String(value)) => text.matches(value),
            (PatternNode::Object(nodes), Value::Object(_)) => {
                nodes.iter().all(|node| self.matches(node, value))
            }
            _ => false,
        }
    }

    fn selects(&mut self, selector: &PatternSelector, node: &PatternNode, value: &Value) -> bool {
        match (selector, value) {
            (PatternSelector::Descendant(number), _) => {
                self.matches_descendant(*number, node, value)
            }
            (PatternSelector::Key(key), Value::Object(members)) => {
                get_member(members, key).is_some_and(|value| self.matches(node, value))
            }
            (PatternSelector::KeyGlob(glob), Value::Object(members)) => {
                members.iter().any(|(key, value)| glob.matches(key) && self.matches(node, value))
            }
            (PatternSelector::Index(index), Value::Array(items)) => {
                items.get(*index).is_some_and(|value| self.matches(node, value))
            }
            (PatternSelector::AnyChild, value) => {
                any_child(value, |value| self.matches(node, value))
            }
            _ => false,
        }
    }

    fn matches_descendant(&mut self, number: usize, node: &PatternNode, value: &Value) -> bool {
        let cache_key = (number, std::ptr::from_ref(value).addr());
        // An outermost search visits each value once, and a value without children is cheap to
        // visit again, so neither is cached.
        let is_cacheable = self.depth > 0 && any_child(value, |_| true);
        let known = self.cache.as_ref().and_then(|known| known.get(&cache_key));
        if let Some(known) = known.filter(|_| is_cacheable) {
            return *known;
        }
        self.depth += 1;
        let found = self.matches(node, value);
        self.depth -= 1;
        let found = found || any_child(value, |value| self.matches_descendant(number, node, value));
        if is_cacheable {
            self.cache.get_or_insert_default().insert(cache_key, found);
        }
        found
    }
}

fn any_child(value: &Value, mut matches: impl FnMut(&Value) -> bool) -> bool {
    match value {
        Value::Object(members) => members.values().any(&mut matches),
        Value::Array(items) => items.iter().any(&mut matches),
        _ => false,
    }
}

/// In small objects, a linear search is faster than a hash lookup.
pub(super) fn get_member<'a>(members: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if members.len() > 8 {
        return members.get(key);
    }
    members.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
}

/// Compares numbers by value: `1` equals `1.0`, and large integers are compared exactly.
pub(super) fn numbers_equal(own: &Number, other: &Number) -> bool {
    match (as_integer(own), as_integer(other)) {
        (Some(own), Some(other)) => own == other,
        (None, None) => own.as_f64() == other.as_f64(),
        _ => false,
    }
}

fn as_integer(number: &Number) -> Option<i128> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let is_integral = |float: &f64| float.fract() == 0.0 && float.abs() < 1e38;
    // The value is integral and within the range of `i128`.
    #[allow(clippy::cast_possible_truncation, reason = "it is a whole number within the type")]
    integer.or_else(|| number.as_f64().filter(is_integral).map(|float| float as i128))
}
