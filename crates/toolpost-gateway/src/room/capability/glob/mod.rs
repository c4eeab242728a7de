//! Texts with wildcards, matched in one go over the text.

mod automaton;
mod cover;
mod token;

use automaton::Automaton;
use token::read;
pub(super) use token::{Notation, Token};

use super::traversal::climbs;

/// A text with wildcards. One that restricts anything fits no text that climbs with `..`: whoever
/// allows `/public/*` does not mean `/public/..`.
#[derive(Debug)]
pub(super) struct Glob {
    tokens: Box<[Token]>,
    shape: Shape,
}

/// What there is to compare; nearly every pattern is one of the simple ones.
#[derive(Debug)]
enum Shape {
    /// Every text.
    Any,
    /// Every text without a slash.
    Segment,
    /// This text.
    Literal(Box<str>),
    /// A text that begins and ends so, with anything between.
    Across(Box<str>, Box<str>),
    /// A text that begins and ends so, without a slash between.
    Within(Box<str>, Box<str>),
    /// This folder, and what is below it.
    Below(Box<str>),
    /// Anything else, and how it begins.
    Steps(Box<str>, Box<Automaton>),
}

impl Glob {
    pub(super) fn new(notation: Notation, text: &str) -> Self {
        Self::of_tokens(read(notation, text))
    }

    /// What fits every text.
    pub(super) fn any() -> Self {
        Self::of_tokens(vec![Token::Across])
    }

    pub(super) fn of_tokens(tokens: Vec<Token>) -> Self {
        let shape = Shape::of(&tokens);
        Self { tokens: tokens.into(), shape }
    }

    /// Another one like it.
    pub(super) fn copy(&self) -> Self {
        Self::of_tokens(self.tokens.to_vec())
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        match &self.shape {
            Shape::Any => true,
            Shape::Segment => !has_slash(text),
            Shape::Literal(literal) => **literal == *text,
            shape => shape.fits(text) && !climbs(text),
        }
    }

    pub(super) fn is_any(&self) -> bool {
        matches!(self.shape, Shape::Any)
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The text, where it has no wildcard.
    pub(super) fn literal(&self) -> Option<&str> {
        match &self.shape {
            Shape::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// Whether the only wildcard is a `*` at the end that stands for anything.
    pub(super) fn is_beginning(&self) -> bool {
        matches!(&self.shape, Shape::Any)
            || matches!(&self.shape, Shape::Across(_, end) if end.is_empty())
    }

    /// What every text that fits begins with.
    pub(super) fn beginning(&self) -> String {
        beginning(&self.tokens)
    }
}

impl Shape {
    fn of(tokens: &[Token]) -> Self {
        let letters = |tokens: &[Token]| -> Option<Box<str>> {
            tokens.iter().map(Token::literal).collect::<Option<String>>().map(Into::into)
        };
        let special = tokens.iter().position(|token| token.literal().is_none());
        let Some(at) = special else { return Self::Literal(letters(tokens).unwrap_or_default()) };
        let ends = letters(&tokens[..at]).zip(letters(&tokens[at + 1..]));
        match (tokens[at], ends) {
            (Token::Across, Some((start, end))) if start.is_empty() && end.is_empty() => Self::Any,
            (Token::Within, Some((start, end))) if start.is_empty() && end.is_empty() => {
                Self::Segment
            }
            (Token::Across, Some((start, end))) => Self::Across(start, end),
            (Token::Within, Some((start, end))) => Self::Within(start, end),
            (Token::Below, Some((start, _))) => Self::Below(start),
            _ => Self::Steps(beginning(tokens).into(), Box::new(Automaton::new(tokens))),
        }
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Segment => !has_slash(text),
            Self::Literal(literal) => **literal == *text,
            Self::Across(start, end) => between(text, start, end).is_some(),
            Self::Within(start, end) => {
                between(text, start, end).is_some_and(|middle| !has_slash(middle))
            }
            Self::Below(folder) => text
                .strip_prefix(&**folder)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
            Self::Steps(start, automaton) => text.starts_with(&**start) && automaton.fits(text),
        }
    }
}

fn beginning(tokens: &[Token]) -> String {
    tokens.iter().map_while(Token::literal).collect()
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.strip_suffix(end)
}

fn has_slash(text: &str) -> bool {
    memchr::memchr(b'/', text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(notation: Notation, rows: &[(&str, &str, bool)]) {
        for (pattern, text, expected) in rows {
            let glob = Glob::new(notation, pattern);
            assert_eq!(glob.matches(text), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn wildcards_of_patterns_know_segments() {
        check(
            Notation::Segments,
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
    fn wildcards_of_strings_stand_for_anything() {
        check(
            Notation::Whole,
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
    fn a_pattern_longer_than_a_word_of_the_machine_fits_too() {
        let pattern = format!("{}?{}*x*y", "a".repeat(200), "b".repeat(200));
        let text = format!("{}c{}--x--y", "a".repeat(200), "b".repeat(200));
        check(Notation::Segments, &[(&pattern, &text, true), (&pattern, &text[1..], false)]);
    }
}
