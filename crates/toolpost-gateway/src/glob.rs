//! Patterns over operation names. `*` matches any sequence of characters, including slashes and the
//! empty sequence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pattern with `*` wildcards, such as `issues/*`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline)]
pub struct Glob(#[schemars(length(min = 1))] String);

/// Rejects the empty pattern, which is probably a mistake in a configuration.
impl TryFrom<String> for Glob {
    type Error = &'static str;

    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        if pattern.is_empty() {
            return Err("empty pattern; use `*` to match every operation");
        }
        Ok(Self(pattern))
    }
}

impl Glob {
    /// Creates a pattern. Every text is valid; one without `*` matches only itself.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether the pattern matches the whole name. The pieces between the stars are found from left
    /// to right without backtracking, so no pattern is slow.
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut name) = name.strip_prefix(first).and_then(|name| name.strip_suffix(last))
        else {
            return false;
        };
        for piece in middle.split('*') {
            let Some(at) = name.find(piece) else { return false };
            name = &name[at + piece.len()..];
        }
        true
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_run_of_characters() {
        for (pattern, name, expected) in [
            ("issues/list", "issues/list", true),
            ("issues/list", "issues/lists", false),
            ("issues/*", "issues/list", true),
            ("issues/*", "issues/", true),
            ("issues/*", "issues", false),
            ("*", "", true),
            ("*", "a/b.c ✓", true),
            ("*/list", "issues/list", true),
            ("*/list", "issues/list2", false),
            ("a*b*c", "abc", true),
            ("a*b*c", "a--b--c", true),
            ("a*b*c", "a--c--b", false),
            ("a*b*c", "ac", false),
            ("aa*aa", "aaa", false),
            ("**", "x", true),
            ("a**b", "ab", true),
            ("*b*", "abc", true),
            ("*✓*", "a✓c", true),
            ("", "", true),
            ("", "x", false),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn hostile_pattern_matches_in_linear_time() {
        let pattern = Glob::new("a*".repeat(50_000) + "b");
        assert!(!pattern.matches(&"a".repeat(100_000)));
    }
}
