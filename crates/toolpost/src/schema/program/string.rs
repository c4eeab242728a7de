//! String keywords.

use super::{ContentRule, PatternMatcher};
use crate::schema::budget::Budget;

#[derive(Default)]
pub(crate) struct StringRules {
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    pub(crate) pattern: Option<PatternMatcher>,
    pub(crate) content: Option<ContentRule>,
}

impl StringRules {
    pub(crate) fn admits(&self, text: &str, budget: &Budget<'_>) -> bool {
        self.admits_length(text)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(text, budget))
            && self.content.as_ref().is_none_or(|content| content.violation(text).is_none())
    }

    /// Checks the length in code points. The byte length decides first where it is sufficient.
    pub(crate) fn admits_length(&self, text: &str) -> bool {
        let bytes = text.len();
        if bytes < self.min {
            return false;
        }
        let short_enough = self.max.is_none_or(|max| bytes <= max);
        let long_enough = bytes / 4 >= self.min;
        if short_enough && long_enough {
            return true;
        }
        let length = text.chars().count();
        length >= self.min && self.max.is_none_or(|max| length <= max)
    }
}
