//! Patterns over operation names: `*` stands for any run of characters, slashes and none included.

/// A pattern such as `issues/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Every text is a pattern; one without `*` matches itself.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self(pattern.into())
    }

    /// Whether the whole name fits. The pieces between the stars are found one behind the other, so
    /// the time is that of reading the name, whatever the pattern.
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

    /// The pattern as it was written.
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
