//! String keywords.

use serde_json::Value;

use super::PatternMatcher;

#[derive(Default)]
pub(crate) struct StringRules {
    pub(crate) min: usize,
    pub(crate) max: Option<usize>,
    pub(crate) pattern: Option<PatternMatcher>,
    pub(crate) content: Option<ContentRule>,
}

/// `contentEncoding` and `contentMediaType`, which drafts 6 and 7 assert.
pub(crate) struct ContentRule(pub(crate) Box<jsonschema::Validator>);

impl StringRules {
    pub(crate) fn admits(&self, value: &Value, text: &str) -> bool {
        self.admits_length(text)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(text))
            && self.content.as_ref().is_none_or(|content| content.0.is_valid(value))
    }

    /// Checks the length in code points. The byte length decides first where it is sufficient.
    fn admits_length(&self, text: &str) -> bool {
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
