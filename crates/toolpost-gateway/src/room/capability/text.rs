//! What a pattern asks of a text: a glob, a regular expression, or not that.

use regex::{Regex, RegexBuilder};

use super::error::{Budget, CapabilityError};
use super::glob::{Glob, Notation};
use super::traversal::climbs;

/// The most bytes of a compiled regular expression; with it the time for each byte is bounded.
const LARGEST_REGEX: usize = 96 * 1024;
/// The longest text that is held against a regular expression.
const LONGEST_FOR_REGEX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) enum Text {
    Glob(Glob),
    Regex(Box<Regex>),
    Not(Box<Text>),
}

impl Text {
    pub(super) fn compile(budget: &mut Budget, text: &str) -> Result<Self, CapabilityError> {
        budget.text(text)?;
        if let Some(negated) = text.strip_prefix('!') {
            check_negation(text, negated)?;
            return Ok(Self::Not(Box::new(Self::positive(budget, negated)?)));
        }
        Self::positive(budget, text)
    }

    fn positive(budget: &mut Budget, text: &str) -> Result<Self, CapabilityError> {
        match expression(text) {
            Some(expression) => Ok(Self::Regex(Box::new(compile(budget, expression)?))),
            None => Ok(Self::Glob(Glob::new(Notation::Segments, text))),
        }
    }

    /// Whether it fits. Only a glob that says so fits a text that climbs: neither a regular
    /// expression nor a negation was written with `..` in mind.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(text),
            Self::Regex(regex) => fits(regex, text),
            Self::Not(inner) => !climbs(text) && inner.is_surely_not(text),
        }
    }

    /// Whether it does not fit, and that for sure: a text too long to tell is none.
    fn is_surely_not(&self, text: &str) -> bool {
        let known = !matches!(self, Self::Regex(_)) || text.len() <= LONGEST_FOR_REGEX;
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
pub(super) fn expression(text: &str) -> Option<&str> {
    text.strip_prefix('/')?.strip_suffix('/').filter(|inner| !inner.is_empty())
}

pub(super) fn compile(budget: &mut Budget, expression: &str) -> Result<Regex, CapabilityError> {
    budget.regex()?;
    RegexBuilder::new(expression)
        .size_limit(LARGEST_REGEX)
        .dfa_size_limit(LARGEST_REGEX)
        .nest_limit(32)
        .build()
        .map_err(|error| CapabilityError::Regex(expression.to_owned(), Box::new(error)))
}

pub(super) fn fits(regex: &Regex, text: &str) -> bool {
    text.len() <= LONGEST_FOR_REGEX && regex.is_match(text) && !climbs(text)
}

/// A negation that means more elsewhere than it would mean here would allow too much here.
pub(super) fn check_negation(text: &str, negated: &str) -> Result<(), CapabilityError> {
    let wrong = |why| Err(CapabilityError::Negation(text.to_owned(), why));
    if negated.is_empty() {
        return wrong("there is nothing behind the `!`");
    }
    if negated.starts_with('!') {
        return wrong("one `!` is enough");
    }
    if expression(negated).is_none() && negated.contains(['{', '}', '[', ']', '(', ')']) {
        return wrong("braces and brackets stand for themselves; a /regular expression/ has them");
    }
    Ok(())
}
