//! Whether a text with wildcards fits everything that another one fits.

use super::token::Token;
use super::{Glob, Shape};

/// The most comparisons of tokens; beyond it the answer is no.
const MOST_COMPARISONS: usize = 64 * 1024;
/// The most `**/` and `/**` in one text; each of them doubles what there is to compare.
const MOST_GROUPS: usize = 3;

impl Glob {
    /// Whether every text that fits `other` fits this one. It may be no where it is hard to tell.
    pub(in super::super) fn covers(&self, other: &Self) -> bool {
        if self.is_any() || self.tokens == other.tokens {
            return true;
        }
        match &other.shape {
            // These two fit texts that climb, and so do only they themselves.
            Shape::Any | Shape::Segment => false,
            Shape::Literal(literal) => self.matches(literal),
            _ => self.covers_tokens(other),
        }
    }

    fn covers_tokens(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (variants(&self.tokens), variants(&other.tokens)) else {
            return false;
        };
        let comparisons = self.tokens.len() * other.tokens.len() * own.len() * others.len();
        comparisons <= MOST_COMPARISONS
            && others.iter().all(|other| own.iter().any(|own| absorbs(own, other)))
    }
}

/// The same text with each of its optional groups left out or written out.
fn variants(tokens: &[Token]) -> Option<Vec<Vec<Token>>> {
    let groups = tokens.iter().filter(|token| written_out(**token).is_some()).count();
    if groups > MOST_GROUPS {
        return None;
    }
    let mut all = vec![Vec::with_capacity(tokens.len() + groups)];
    for token in tokens {
        let Some(group) = written_out(*token) else {
            all.iter_mut().for_each(|variant| variant.push(*token));
            continue;
        };
        let with = all.iter().map(|variant| [&variant[..], &group].concat());
        all.extend(with.collect::<Vec<_>>());
    }
    Some(all)
}

fn written_out(token: Token) -> Option<[Token; 2]> {
    match token {
        Token::Folders => Some([Token::Across, Token::Letter('/')]),
        Token::Below => Some([Token::Letter('/'), Token::Across]),
        _ => None,
    }
}

/// Follows the tokens of `other` through `own` as if they were a text.
fn absorbs(own: &[Token], other: &[Token]) -> bool {
    let mut places = vec![false; own.len() + 1];
    places[0] = true;
    skip_runs(own, &mut places);
    for token in other {
        let mut next = vec![false; own.len() + 1];
        for (at, step) in own.iter().enumerate().filter(|(at, _)| places[*at]) {
            let run = matches!(step, Token::Within | Token::Across);
            let to = if run { at } else { at + 1 };
            next[to] |= takes(*step, *token);
        }
        skip_runs(own, &mut next);
        places = next;
    }
    places[own.len()]
}

fn skip_runs(own: &[Token], places: &mut [bool]) {
    for (at, step) in own.iter().enumerate() {
        places[at + 1] |= places[at] && matches!(step, Token::Within | Token::Across);
    }
}

/// Whether `step` fits everything that `token` stands for.
fn takes(step: Token, token: Token) -> bool {
    match (step, token) {
        (Token::Across, _) => true,
        (Token::Within, Token::Within) => true,
        (Token::Within | Token::One, Token::One) => true,
        (Token::Within | Token::One, Token::Letter(letter)) => letter != '/',
        (Token::Letter(own), Token::Letter(other)) => own == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Notation::{self, Segments, Whole};
    use super::*;

    #[test]
    fn what_is_wider_covers_what_is_narrower() {
        let rows: &[(Notation, &str, Notation, &str, bool)] = &[
            (Whole, "*", Segments, "**", true),
            (Whole, "a*", Whole, "ab*", true),
            (Whole, "ab*", Whole, "a*", false),
            (Whole, "a*", Segments, "a*", true),
            (Segments, "a*", Whole, "a*", false),
            (Segments, "a/**", Segments, "a/*", true),
            (Segments, "a/**", Segments, "a/b/**", true),
            (Segments, "a/b/**", Segments, "a/**", false),
            (Segments, "a/**", Segments, "a", true),
            (Segments, "a/*", Segments, "a/**", false),
            (Segments, "a/**/c", Segments, "a/b/c", true),
            (Segments, "a/**/c", Segments, "a/**/b/c", true),
            (Segments, "a/**", Segments, "a/../b", false),
            (Segments, "*", Segments, "..", true),
            (Segments, "a?", Segments, "ab", true),
            (Segments, "a*", Segments, "a?", true),
            (Segments, "a?", Segments, "a*", false),
            (Segments, "*a*", Segments, "*ba", true),
            (Segments, "**", Segments, "*", true),
            (Segments, "*", Segments, "**", false),
            (Segments, "*", Segments, "*x", true),
            (Segments, "?*", Segments, "*", false),
        ];
        for (own, wide, others, narrow, expected) in rows {
            let (wide, narrow) = (Glob::new(*own, wide), Glob::new(*others, narrow));
            assert_eq!(wide.covers(&narrow), *expected, "{wide:?} {narrow:?}");
        }
    }
}
