//! JavaScript regular expressions without the `u` flag, on an engine with bounded backtracking.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use fancy_regex::{Regex, RegexBuilder};

use super::translate::translate;

/// Backtracking limit for look-around and back-references, about one millisecond per string.
const MAX_BACKTRACKS: usize = 100_000;

/// A pattern that is compiled on first use.
///
/// An invalid pattern is an error only for checks that use it, as in JavaScript.
#[derive(Debug, Clone)]
pub(super) struct JsRegex {
    source: String,
    regex: Arc<OnceLock<Option<Regex>>>,
}

impl JsRegex {
    pub(super) fn new(source: String) -> Self {
        Self { source, regex: Arc::default() }
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether the pattern matches within `text`; `None` if it is invalid or backtracks too much.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        let regex = self.regex.get_or_init(|| build(&self.source));
        regex.as_ref()?.is_match(code_units(text).as_ref()).ok()
    }
}

fn build(source: &str) -> Option<Regex> {
    let translated = translate(source)?;
    RegexBuilder::new(&translated).backtrack_limit(MAX_BACKTRACKS).build().ok()
}

/// Replaces each UTF-16 surrogate with a character of its own.
///
/// Without the `u` flag, JavaScript matches two code units for a character outside the basic
/// multilingual plane. Each surrogate maps to a distinct private-use character.
fn code_units(text: &str) -> Cow<'_, str> {
    // Only characters outside the basic multilingual plane start with such a byte.
    if !text.bytes().any(|byte| byte >= 0xF0) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.encode_utf16().map(unit_char).collect())
}

/// Returns the character that represents a UTF-16 code unit.
pub(super) fn unit_char(unit: u16) -> char {
    let unit = u32::from(unit);
    char::from_u32(unit)
        .or_else(|| char::from_u32(0xF_0000 + unit))
        .expect("a private-use code point")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_javascript() {
        let cases = [
            ("^a", "abc", Some(true)),
            ("^[a-z]+$", "abc\n", Some(false)),
            (r"^\d{3}-\w+$", "123-x_y", Some(true)),
            (r"^\d$", "٣", Some(false)),
            (r"^\w$", "é", Some(false)),
            (r"^\s$", "\u{feff}", Some(true)),
            ("^.$", "😀", Some(false)),
            ("^..$", "😀", Some(true)),
            ("^[😀]{2}$", "😀", Some(true)),
            (r"^\ud83d\ude00$", "😀", Some(true)),
            (r"^\ud83d", "\u{1f601}", Some(true)),
            ("^.$", "\u{2028}", Some(false)),
            ("^[^]$", "\n", Some(true)),
            ("[]", "a", Some(false)),
            ("^[[&&a~~-]+$", "[&a~-", Some(true)),
            (r"^[\w-.]+$", "a-.", Some(true)),
            ("^a{,2}$", "a{,2}", Some(true)),
            ("^x{$", "x{", Some(true)),
            ("^]}$", "]}", Some(true)),
            (r"^\-\_\p{L}$", "-_p{L}", Some(true)),
            (r"^\u{3}$", "uuu", Some(true)),
            (r"^\x41\cA\0$", "A\u{1}\0", Some(true)),
            (r"^\101\8$", "A8", Some(true)),
            (r"^(a|b)\1$", "aa", Some(true)),
            (r"^(a|b)\1$", "ab", Some(false)),
            (r"^(?<n>a)\k<n>$", "aa", Some(true)),
            (r"^\k<n>$", "k<n>", Some(true)),
            (r"^(?=.*\d).+$", "a1", Some(true)),
            (r"(?<!x)y", "xy", Some(false)),
            (r"\bé", "é", Some(false)),
            (r"\bfoo\b", "a foo b", Some(true)),
            ("^a*?$", "aa", Some(true)),
            ("", "anything", Some(true)),
            ("# x", "# x", Some(true)),
            ("(", "", None),
            (")", "", None),
            ("[a", "", None),
            ("[b-a]", "", None),
            ("*a", "", None),
            ("a**", "", None),
            ("a++", "", None),
            ("a{2}{3}", "", None),
            ("a{3,2}", "", None),
            ("^*", "", None),
            ("(?i)a", "", None),
            ("(?>a)", "", None),
            ("\\", "", None),
        ];
        for (source, text, expected) in cases {
            let found = JsRegex::new(source.to_owned()).matches(text);
            assert_eq!(found, expected, "/{source}/ on {text:?}");
        }
    }

    #[test]
    fn pattern_backtracking_limit_returns_none() {
        let pattern = JsRegex::new(r"^(a|b|ab)*\1c".to_owned());
        assert_eq!(pattern.matches(&"ab".repeat(100)), None);
    }
}
