//! Determines which regular expressions all clients interpret the same way.

use std::iter::Peekable;
use std::str::Chars;

/// How portable a pattern is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternPortability {
    /// All engines interpret it the same way.
    Exact,
    /// Some engines match more: `\d` and `\w` match digits and letters of any script, and `$`
    /// matches before a final line break.
    Lenient,
    /// Some engines reject it or interpret it differently.
    Unportable,
}

/// Classifies a pattern by parsing the subset that all engines support.
///
/// A client that cannot compile a pattern drops the whole list of tools.
pub(super) fn classify(pattern: &str) -> PatternPortability {
    let mut scan = PatternScanner { rest: pattern.chars().peekable(), depth: 0, is_lenient: false };
    match scan.pattern() {
        Some(()) if scan.depth != 0 => PatternPortability::Unportable,
        Some(()) if scan.is_lenient => PatternPortability::Lenient,
        Some(()) => PatternPortability::Exact,
        None => PatternPortability::Unportable,
    }
}

/// Maximum repetition count, which bounds the size of the compiled pattern.
const MAX_COUNT: u32 = 1_000;
const MAX_DEPTH: u32 = 32;

struct PatternScanner<'a> {
    rest: Peekable<Chars<'a>>,
    depth: u32,
    is_lenient: bool,
}

impl PatternScanner<'_> {
    fn pattern(&mut self) -> Option<()> {
        // Whether a quantifier can follow.
        let mut is_atom = false;
        while let Some(character) = self.rest.next() {
            is_atom = match character {
                '*' | '+' | '?' | '{' if !is_atom => return None,
                '*' | '+' | '?' => self.skip_lazy_suffix(),
                '{' => {
                    self.count()?;
                    self.skip_lazy_suffix()
                }
                '(' => self.open_group()?,
                ')' => {
                    self.depth = self.depth.checked_sub(1)?;
                    true
                }
                '|' | '^' => false,
                '$' => {
                    self.is_lenient = true;
                    false
                }
                '[' => self.class()?,
                '\\' => self.escape("^$\\.*+?()[]{}|/")?,
                ']' | '}' => return None,
                // Engines disagree on which characters are line breaks.
                '.' => return None,
                _ => true,
            };
        }
        Some(())
    }

    /// Skips the `?` of a lazy quantifier. Returns `false`, because no other quantifier can follow.
    fn skip_lazy_suffix(&mut self) -> bool {
        self.rest.next_if_eq(&'?');
        false
    }

    fn open_group(&mut self) -> Option<bool> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        if self.rest.next_if_eq(&'?').is_some() {
            self.rest.next_if_eq(&':')?;
        }
        Some(false)
    }

    /// Parses the rest of `{2}`, `{2,}` or `{2,5}` after the brace.
    fn count(&mut self) -> Option<()> {
        let min = self.number()?;
        if self.rest.next_if_eq(&',').is_some() && self.rest.peek() != Some(&'}') {
            let max = self.number()?;
            if max < min {
                return None;
            }
        }
        self.rest.next_if_eq(&'}').map(drop)
    }

    fn number(&mut self) -> Option<u32> {
        let mut digits = String::new();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        digits.parse().ok().filter(|number| *number <= MAX_COUNT)
    }

    /// Parses a character class after its opening bracket.
    fn class(&mut self) -> Option<bool> {
        let is_negated = self.rest.next_if_eq(&'^').is_some();
        let was_lenient = self.is_lenient;
        let mut is_empty = true;
        let mut last: Option<char> = None;
        loop {
            let character = self.rest.next()?;
            match character {
                ']' if is_empty => return None,
                ']' => break,
                '-' => last = self.range(last, is_empty)?,
                '[' | '&' | '~' | '|' => return None,
                '\\' => last = self.member()?,
                other => last = Some(other),
            }
            is_empty = false;
        }
        // The negation of a lenient class is stricter, and therefore not portable.
        let got_lenient = self.is_lenient && !was_lenient;
        (!(is_negated && got_lenient)).then_some(true)
    }

    /// Parses a hyphen in a class: first, last, or between two characters in ascending order.
    fn range(&mut self, from: Option<char>, is_first: bool) -> Option<Option<char>> {
        match self.rest.peek() {
            Some(']') => Some(None),
            _ if is_first => Some(None),
            Some(to) if to.is_ascii_alphanumeric() => {
                let (from, to) = (from?, *to);
                self.rest.next();
                (from.is_ascii_alphanumeric() && from <= to).then_some(None)
            }
            _ => None,
        }
    }

    /// Parses an escape inside a class, and returns the character if it denotes a single one.
    fn member(&mut self) -> Option<Option<char>> {
        let escaped = self.rest.peek().copied();
        self.escape("^$\\.*+?()[]{}|/-")?;
        Some(escaped.filter(|character| !character.is_ascii_alphanumeric()))
    }

    fn escape(&mut self, syntax: &str) -> Option<bool> {
        match self.rest.next()? {
            'd' | 'w' => self.is_lenient = true,
            character if syntax.contains(character) => {}
            _ => return None,
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simple_patterns_are_portable() {
        use PatternPortability::{Exact, Lenient, Unportable};
        let deep = format!("{}a{}", "(".repeat(100), ")".repeat(100));
        for (pattern, expected) in [
            ("", Exact),
            ("^[a-z0-9_-]+", Exact),
            ("^[a-z]+$", Lenient),
            ("^(?:ab|c)*?d{2,3}e{4}f{5,}", Exact),
            (r"^\d{4}-\d{2}", Lenient),
            (r"\.\/\(", Exact),
            ("é✓", Exact),
            (r"[^a]", Exact),
            (r"[\d.]", Lenient),
            (r"[^\d]", Unportable),
            (r"[\]\-a]", Exact),
            ("a.b", Unportable),
            (r"\s", Unportable),
            (r"\D", Unportable),
            (r"\bword", Unportable),
            (r"\p{L}", Unportable),
            (r"\-", Unportable),
            (r"(?=a)", Unportable),
            (r"(?<n>a)", Unportable),
            (r"(a)\1", Unportable),
            ("a**", Unportable),
            ("*", Unportable),
            ("^*", Unportable),
            ("a{3,2}", Unportable),
            ("a{99999}", Unportable),
            ("a{,3}", Unportable),
            ("a{", Unportable),
            ("a}", Unportable),
            ("]", Unportable),
            ("[z-a]", Unportable),
            ("[]", Unportable),
            ("[^]", Unportable),
            ("[a", Unportable),
            ("[[a]]", Unportable),
            ("(a", Unportable),
            ("a)", Unportable),
            ("\\", Unportable),
            (&deep, Unportable),
        ] {
            assert_eq!(classify(pattern), expected, "{pattern}");
        }
    }
}
