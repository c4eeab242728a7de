//! Patterns for strings: globs, regular expressions and negations.

use regex::{Regex, RegexBuilder};

use super::error::{CapabilityError, CompileBudget};
use super::glob::Glob;
use super::traversal::has_dot_segment;

/// Maximum size of a compiled regular expression in bytes, which bounds the matching time per input
/// byte.
const MAX_REGEX_BYTES: usize = 96 * 1024;
/// Maximum size of a string that is matched against a regular expression, in bytes.
const MAX_REGEX_INPUT_BYTES: usize = 64 * 1024;

/// A glob of type `G`, a regular expression, or the negation of either.
#[derive(Debug)]
pub(super) enum TextPattern<G> {
    Glob(G),
    Regex(Box<Regex>),
    Not(Box<TextPattern<G>>),
}

/// A pattern for strings in payloads.
pub(super) type StringPattern = TextPattern<Glob>;

impl<G> TextPattern<G> {
    /// Compiles a pattern. `glob` compiles a string that is not a regular expression.
    pub(super) fn compile(
        budget: &mut CompileBudget,
        text: &str,
        glob: impl Fn(&str) -> Result<G, CapabilityError>,
    ) -> Result<Self, CapabilityError> {
        budget.take_string(text)?;
        let negated = text.strip_prefix('!');
        negated.map_or(Ok(()), check_negation)?;
        let positive = negated.unwrap_or(text);
        let pattern = match regex_body(positive) {
            Some(expression) => Self::Regex(Box::new(compile_regex(budget, expression)?)),
            None => Self::Glob(glob(positive)?),
        };
        Ok(if negated.is_some() { Self::Not(Box::new(pattern)) } else { pattern })
    }
}

/// Comparison of the globs of a pattern.
pub(super) trait PatternGlob: Sized {
    fn is_any(&self) -> bool;
    fn covers(&self, other: &Self) -> bool;
    /// Whether a regular expression or a negation covers this glob.
    fn is_covered_by(&self, pattern: &TextPattern<Self>) -> bool;
}

impl<G: PatternGlob> TextPattern<G> {
    /// Whether this pattern matches everything that `other` matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Glob(own), _) if own.is_any() => true,
            (Self::Glob(own), Self::Glob(other)) => own.covers(other),
            (Self::Regex(own), Self::Regex(other)) => own.as_str() == other.as_str(),
            (Self::Not(own), Self::Not(other)) => other.covers(own),
            (_, Self::Glob(other)) => other.is_covered_by(self),
            _ => false,
        }
    }
}

impl PatternGlob for Glob {
    fn is_any(&self) -> bool {
        self.is_any()
    }

    fn covers(&self, other: &Self) -> bool {
        self.covers(other)
    }

    fn is_covered_by(&self, pattern: &StringPattern) -> bool {
        self.literal().is_some_and(|text| pattern.matches(text))
    }
}

impl StringPattern {
    /// Whether the text matches. A regular expression or a negation never matches a string with a `.`
    /// or `..` segment; only a glob can.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(text),
            Self::Regex(regex) => regex_matches(regex, text),
            Self::Not(inner) => {
                // A text that is too long for a regular expression is undecided.
                let is_decided =
                    !matches!(**inner, Self::Regex(_)) || text.len() <= MAX_REGEX_INPUT_BYTES;
                is_decided && !has_dot_segment(text) && !inner.matches(text)
            }
        }
    }
}

/// Returns the expression between the slashes of `/…/`. An empty expression would match everything
/// and is not accepted.
fn regex_body(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/').filter(|inner| !inner.is_empty())
}

fn compile_regex(budget: &mut CompileBudget, expression: &str) -> Result<Regex, CapabilityError> {
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
fn check_negation(negated: &str) -> Result<(), CapabilityError> {
    let reason = if negated.is_empty() {
        "the pattern after `!` is empty"
    } else if negated.starts_with('!') {
        "double negation is not supported"
    } else if regex_body(negated).is_none() && negated.contains(['{', '}', '[', ']', '(', ')']) {
        "braces and brackets are literal here; use a /regular expression/"
    } else {
        return Ok(());
    };
    Err(CapabilityError::InvalidNegation(format!("!{negated}"), reason))
}
