//! Globs, matched in a single pass over the text.

mod automaton;
mod subsumption;
mod token;

use automaton::Automaton;
use token::tokenize;
pub(super) use token::{GlobSyntax, GlobToken};

use super::traversal::has_dot_segment;

/// A string pattern with wildcards. Except for a bare `*` or `**` and a pattern without wildcards,
/// a glob never matches a string with a `.` or `..` segment: `/public/*` does not match `/public/..`.
#[derive(Debug)]
pub(super) struct Glob {
    tokens: Box<[GlobToken]>,
    shape: GlobShape,
}

/// The matching strategy. Most patterns have one of the simple shapes.
#[derive(Debug)]
enum GlobShape {
    /// Every text.
    Any,
    /// Any text without a slash.
    AnySegment,
    /// This text.
    Literal(Box<str>),
    /// A text with this prefix and suffix, and anything between them.
    PrefixSuffix(Box<str>, Box<str>),
    /// A text with this prefix and suffix, and no slash between them.
    SegmentPrefixSuffix(Box<str>, Box<str>),
    /// This folder and everything below it.
    Subtree(Box<str>),
    /// Any other pattern, with its literal prefix.
    Automaton(Box<str>, Box<Automaton>),
}

impl Glob {
    pub(super) fn new(syntax: GlobSyntax, text: &str) -> Self {
        Self::from_tokens(tokenize(syntax, text))
    }

    /// Returns a glob that matches any text.
    pub(super) fn any() -> Self {
        Self::from_tokens(vec![GlobToken::AnyRun])
    }

    pub(super) fn from_tokens(tokens: Vec<GlobToken>) -> Self {
        let shape = GlobShape::from_tokens(&tokens);
        Self { tokens: tokens.into(), shape }
    }

    pub(super) fn duplicate(&self) -> Self {
        Self::from_tokens(self.tokens.to_vec())
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        let matches_dot_segments =
            matches!(self.shape, GlobShape::Any | GlobShape::AnySegment | GlobShape::Literal(_));
        self.shape.matches(text) && (matches_dot_segments || !has_dot_segment(text))
    }

    pub(super) fn is_any(&self) -> bool {
        matches!(self.shape, GlobShape::Any)
    }

    pub(super) fn tokens(&self) -> &[GlobToken] {
        &self.tokens
    }

    /// Returns the text if the glob has no wildcard.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.shape {
            GlobShape::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// Whether the only wildcard is a trailing `*` that matches anything.
    pub(super) fn is_prefix(&self) -> bool {
        self.is_any() || matches!(&self.shape, GlobShape::PrefixSuffix(_, end) if end.is_empty())
    }

    /// Returns the literal prefix that every matching text has.
    pub(super) fn literal_prefix(&self) -> String {
        literal_prefix(&self.tokens)
    }
}

impl GlobShape {
    fn from_tokens(tokens: &[GlobToken]) -> Self {
        let letters = |tokens: &[GlobToken]| -> Option<Box<str>> {
            tokens.iter().map(GlobToken::literal).collect::<Option<String>>().map(Into::into)
        };
        let special = tokens.iter().position(|token| token.literal().is_none());
        let Some(at) = special else { return Self::Literal(letters(tokens).unwrap_or_default()) };
        let ends = letters(&tokens[..at]).zip(letters(&tokens[at + 1..]));
        match (tokens[at], ends) {
            (GlobToken::AnyRun, Some((start, end))) if start.is_empty() && end.is_empty() => {
                Self::Any
            }
            (GlobToken::SegmentRun, Some((start, end))) if start.is_empty() && end.is_empty() => {
                Self::AnySegment
            }
            (GlobToken::AnyRun, Some((start, end))) => Self::PrefixSuffix(start, end),
            (GlobToken::SegmentRun, Some((start, end))) => Self::SegmentPrefixSuffix(start, end),
            (GlobToken::Subtree, Some((start, _))) => Self::Subtree(start),
            _ => Self::Automaton(literal_prefix(tokens).into(), Box::new(Automaton::new(tokens))),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::AnySegment => !has_slash(text),
            Self::Literal(literal) => **literal == *text,
            Self::PrefixSuffix(start, end) => strip_ends(text, start, end).is_some(),
            Self::SegmentPrefixSuffix(start, end) => {
                strip_ends(text, start, end).is_some_and(|middle| !has_slash(middle))
            }
            Self::Subtree(folder) => text
                .strip_prefix(&**folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::Automaton(start, automaton) => {
                text.starts_with(&**start) && automaton.matches(text)
            }
        }
    }
}

fn literal_prefix(tokens: &[GlobToken]) -> String {
    tokens.iter().map_while(GlobToken::literal).collect()
}

fn strip_ends<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_suffix(end)
}

fn has_slash(text: &str) -> bool {
    memchr::memchr(b'/', text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(syntax: GlobSyntax, rows: &[(&str, &str, bool)]) {
        for (pattern, text, expected) in rows {
            let glob = Glob::new(syntax, pattern);
            assert_eq!(glob.matches(text), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn segmented_wildcards_stay_within_segments() {
        check(
            GlobSyntax::Segmented,
            &[
                ("a", "a", true),
                ("a", "ab", false),
                ("*", "", true),
                ("*", "a", true),
                ("*", "a/b", false),
                ("**", "a/b", true),
                ("**", "../b", true),
                ("a/*", "a/b", true),
                ("a/*", "a/b/c", false),
                ("a/**", "a", true),
                ("a/**", "a/", true),
                ("a/**", "a/b/c", true),
                ("a/**", "ab", false),
                ("a/**/b", "a/b", true),
                ("a/**/b", "a/x/y/b", true),
                ("a/**/b", "a/xb", false),
                ("a/**/**/b", "a/b", true),
                ("a/**/**", "a", true),
                ("**/b", "b", true),
                ("**/b", "a/x/b", true),
                ("**/b", "ab", false),
                ("**/*.rs", "main.rs", true),
                ("**/*.rs", "src/main.rs", true),
                ("**/*.rs", "src/main.rsx", false),
                ("a/**/*/**", "a/x", true),
                ("a/**/*/**", "a/x/y/z", true),
                ("a/*/**", "a/x", true),
                ("a/*/**", "ax", false),
                ("a**z", "a/b/z", true),
                ("a?c", "abc", true),
                ("a?c", "a✓c", true),
                ("a?c", "a/c", false),
                ("a?c", "ac", false),
                ("a??", "a✓✓", true),
                ("?", "✓", true),
                ("?*", "", false),
                ("*a*b*", "xxaxxbxx", true),
                ("*a*b*", "xxbxxaxx", false),
                ("*a*b*", "xa/b", false),
                ("aa*aa", "aaa", false),
                ("/public/*", "/public/..", false),
                ("/public/**", "/public/../x", false),
                ("/public/../x", "/public/../x", true),
                ("*", "..", true),
                ("*.*", "..", false),
            ],
        );
    }

    #[test]
    fn flat_wildcards_match_any_characters() {
        check(
            GlobSyntax::Flat,
            &[
                ("*", "a/b:c", true),
                ("a*", "a/b:c", true),
                ("*c", "a/b:c", true),
                ("a*b*c", "a/x/b:c", true),
                ("a*b*c", "acb", false),
                ("a**", "a/b", true),
                ("a?", "a?", true),
                ("a?", "ab", false),
                ("/public/*", "/public/a/../../x", false),
            ],
        );
    }

    #[test]
    fn pattern_longer_than_one_machine_word_matches() {
        let pattern = format!("{}?{}*x*y", "a".repeat(200), "b".repeat(200));
        let text = format!("{}c{}--x--y", "a".repeat(200), "b".repeat(200));
        check(GlobSyntax::Segmented, &[(&pattern, &text, true), (&pattern, &text[1..], false)]);
    }
}
