//! What a pattern asks of a text: a glob, a regular expression, or not that.

use regex::{Regex, RegexBuilder};

use super::error::{CapabilityError, CompileBudget};
use super::glob::{Glob, GlobSyntax};
use super::traversal::has_dot_segment;

/// The most bytes of a compiled regular expression; with it the time for each byte is bounded.
const MAX_REGEX_BYTES: usize = 96 * 1024;
/// The longest text that is held against a regular expression.
const MAX_REGEX_INPUT_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub(super) enum StringPattern {
    Glob(Glob),
    Regex(Box<Regex>),
    Not(Box<StringPattern>),
}

impl StringPattern {
    pub(super) fn compile(budget: &mut CompileBudget, text: &str) -> Result<Self, CapabilityError> {
        budget.take_string(text)?;
        if let Some(negated) = text.strip_prefix('!') {
            check_negation(text, negated)?;
            return Ok(Self::Not(Box::new(Self::compile_positive(budget, negated)?)));
        }
        Self::compile_positive(budget, text)
    }

    fn compile_positive(budget: &mut CompileBudget, text: &str) -> Result<Self, CapabilityError> {
        match regex_body(text) {
            Some(expression) => Ok(Self::Regex(Box::new(compile_regex(budget, expression)?))),
            None => Ok(Self::Glob(Glob::new(GlobSyntax::Segmented, text))),
        }
    }

    /// Whether it fits. Only a glob that says so fits a text that climbs: neither a regular
    /// expression nor a negation was written with `..` in mind.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(text),
            Self::Regex(regex) => regex_matches(regex, text),
            Self::Not(inner) => !has_dot_segment(text) && inner.is_definite_mismatch(text),
        }
    }

    /// Whether it does not fit, and that for sure: a text too long to tell is none.
    fn is_definite_mismatch(&self, text: &str) -> bool {
        let known = !matches!(self, Self::Regex(_)) || text.len() <= MAX_REGEX_INPUT_BYTES;
        known && !self.matches(text)
    }

    /// Whether this one fits all that `other` fits.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Glob(own), _) if own.is_any() => true,
            (Self::Glob(own), Self::Glob(other)) => own.covers(other),
            (Self::Regex(own), Self::Regex(other)) => own.as_str() == other.as_str(),
            (Self::Not(own), Self::Not(other)) => other.covers(own),
            (_, Self::Glob(other)) => other.literal().is_some_and(|text| self.matches(text)),
            _ => false,
        }
    }
}

/// What stands between the slashes of `/…/`; there has to be something, as nothing would fit all.
pub(super) fn regex_body(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/').filter(|inner| !inner.is_empty())
}

pub(super) fn compile_regex(
    budget: &mut CompileBudget,
    expression: &str,
) -> Result<Regex, CapabilityError> {
    budget.take_regex()?;
    RegexBuilder::new(expression)
        .size_limit(MAX_REGEX_BYTES)
        .dfa_size_limit(MAX_REGEX_BYTES)
        .nest_limit(32)
        .build()
        .map_err(|error| CapabilityError::Regex(expression.to_owned(), Box::new(error)))
}

pub(super) fn regex_matches(regex: &Regex, text: &str) -> bool {
    text.len() <= MAX_REGEX_INPUT_BYTES && regex.is_match(text) && !has_dot_segment(text)
}

/// A negation that means more elsewhere than it would mean here would allow too much here.
pub(super) fn check_negation(text: &str, negated: &str) -> Result<(), CapabilityError> {
    let wrong = |why| Err(CapabilityError::InvalidNegation(text.to_owned(), why));
    if negated.is_empty() {
        return wrong("nothing follows the `!`");
    }
    if negated.starts_with('!') {
        return wrong("one `!` is enough");
    }
    if regex_body(negated).is_none() && negated.contains(['{', '}', '[', ']', '(', ')']) {
        return wrong("braces and brackets are literal here; use a /regular expression/");
    }
    Ok(())
}
