//! Checks whether one glob matches everything that another glob matches.

use super::token::GlobToken;
use super::{Glob, GlobShape};

/// Maximum number of token comparisons; above it, `covers` returns `false`.
const MAX_COMPARISONS: usize = 64 * 1024;
/// Maximum number of `**/` and `/**` groups in one glob; each doubles the number of variants to
/// compare.
const MAX_GROUPS: usize = 3;

impl Glob {
    /// Whether every text that matches `other` also matches this glob. Returns `false` where this
    /// is hard to prove.
    pub(in super::super) fn covers(&self, other: &Self) -> bool {
        if self.is_any() || self.tokens == other.tokens {
            return true;
        }
        match &other.shape {
            // Both also match texts with a `.` or `..` segment. The globs that cover them are
            // handled above.
            GlobShape::Any | GlobShape::AnySegment => false,
            GlobShape::Literal(literal) => self.matches(literal),
            _ => self.covers_tokens(other),
        }
    }

    fn covers_tokens(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (variants(&self.tokens), variants(&other.tokens)) else {
            return false;
        };
        let comparisons = self.tokens.len() * other.tokens.len() * own.len() * others.len();
        comparisons <= MAX_COMPARISONS
            && others.iter().all(|other| own.iter().any(|own| subsumes(own, other)))
    }
}

/// Returns the token list with each optional group omitted or expanded; `None` if there are too
/// many groups.
fn variants(tokens: &[GlobToken]) -> Option<Vec<Vec<GlobToken>>> {
    let groups = tokens.iter().filter(|token| expand_group(**token).is_some()).count();
    if groups > MAX_GROUPS {
        return None;
    }
    let mut all = vec![Vec::with_capacity(tokens.len() + groups)];
    for token in tokens {
        let Some(group) = expand_group(*token) else {
            all.iter_mut().for_each(|variant| variant.push(*token));
            continue;
        };
        let with = all.iter().map(|variant| [&variant[..], &group].concat());
        all.extend(with.collect::<Vec<_>>());
    }
    Some(all)
}

fn expand_group(token: GlobToken) -> Option<[GlobToken; 2]> {
    match token {
        GlobToken::Directories => Some([GlobToken::AnyRun, GlobToken::Literal('/')]),
        GlobToken::Subtree => Some([GlobToken::Literal('/'), GlobToken::AnyRun]),
        _ => None,
    }
}

/// Runs the tokens of `other` through `own` as if they were input text.
fn subsumes(own: &[GlobToken], other: &[GlobToken]) -> bool {
    let mut states = vec![false; own.len() + 1];
    states[0] = true;
    add_run_epsilons(own, &mut states);
    for token in other {
        let mut next = vec![false; own.len() + 1];
        for (at, own_token) in own.iter().enumerate().filter(|(at, _)| states[*at]) {
            let run = matches!(own_token, GlobToken::SegmentRun | GlobToken::AnyRun);
            let to = if run { at } else { at + 1 };
            next[to] |= token_covers(*own_token, *token);
        }
        add_run_epsilons(own, &mut next);
        states = next;
    }
    states[own.len()]
}

fn add_run_epsilons(own: &[GlobToken], states: &mut [bool]) {
    for (at, token) in own.iter().enumerate() {
        states[at + 1] |= states[at] && matches!(token, GlobToken::SegmentRun | GlobToken::AnyRun);
    }
}

/// Whether `own_token` matches everything that `token` matches.
fn token_covers(own_token: GlobToken, token: GlobToken) -> bool {
    match (own_token, token) {
        (GlobToken::AnyRun, _) => true,
        (GlobToken::SegmentRun, GlobToken::SegmentRun) => true,
        (GlobToken::SegmentRun | GlobToken::AnyChar, GlobToken::AnyChar) => true,
        (GlobToken::SegmentRun | GlobToken::AnyChar, GlobToken::Literal(letter)) => letter != '/',
        (GlobToken::Literal(own), GlobToken::Literal(other)) => own == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::GlobSyntax::{self, Flat, Segmented};
    use super::*;

    #[test]
    fn wider_glob_covers_narrower_glob() {
        let rows: &[(GlobSyntax, &str, GlobSyntax, &str, bool)] = &[
            (Flat, "*", Segmented, "**", true),
            (Flat, "a*", Flat, "ab*", true),
            (Flat, "ab*", Flat, "a*", false),
            (Flat, "a*", Segmented, "a*", true),
            (Segmented, "a*", Flat, "a*", false),
            (Segmented, "a/**", Segmented, "a/*", true),
            (Segmented, "a/**", Segmented, "a/b/**", true),
            (Segmented, "a/b/**", Segmented, "a/**", false),
            (Segmented, "a/**", Segmented, "a", true),
            (Segmented, "a/*", Segmented, "a/**", false),
            (Segmented, "a/**/c", Segmented, "a/b/c", true),
            (Segmented, "a/**/c", Segmented, "a/**/b/c", true),
            (Segmented, "a/**", Segmented, "a/../b", false),
            (Segmented, "*", Segmented, "..", true),
            (Segmented, "a?", Segmented, "ab", true),
            (Segmented, "a*", Segmented, "a?", true),
            (Segmented, "a?", Segmented, "a*", false),
            (Segmented, "*a*", Segmented, "*ba", true),
            (Segmented, "**", Segmented, "*", true),
            (Segmented, "*", Segmented, "**", false),
            (Segmented, "*", Segmented, "*x", true),
            (Segmented, "?*", Segmented, "*", false),
        ];
        for (own, wide, others, narrow, expected) in rows {
            let (wide, narrow) = (Glob::new(*own, wide), Glob::new(*others, narrow));
            assert_eq!(wide.covers(&narrow), *expected, "{wide:?} {narrow:?}");
        }
    }
}
