//! Patterns for strings: globs, regular expressions and negations.

use regex::{Regex, RegexBuilder};

use super::error::{CapabilityError, CompileBudget};
use super::glob::{Glob, GlobSyntax};
use super::traversal::has_dot_segment;

/// Maximum size of a compiled regular expression in bytes, which bounds the matching time per input
/// byte.
const MAX_REGEX_BYTES: usize = 96 * 1024;
/// Maximum size of a text that is matched against a regular expression, in bytes.
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

    /// Whether the text matches. A regular expression or a negation never matches a text with a `.`
    /// or `..` segment; only a glob can.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(text),
            Self::Regex(regex) => regex_matches(regex, text),
            Self::Not(inner) => !has_dot_segment(text) && inner.is_definite_mismatch(text),
        }
    }

    /// Whether the text certainly does not match. A text that is too long for a regular expression
    /// is undecided.
    fn is_definite_mismatch(&self, text: &str) -> bool {
        let known = !matches!(self, Self::Regex(_)) || text.len() <= MAX_REGEX_INPUT_BYTES;
        known && !self.matches(text)
    }

    /// Whether this pattern matches everything that `other` matches.
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

/// Returns the expression between the slashes of `/…/`. An empty expression would match everything
/// and is not accepted.
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

/// Checks that a string can be negated. Braces and brackets are literal here but special in other
/// glob syntaxes; a negation written for those would allow too much.
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
