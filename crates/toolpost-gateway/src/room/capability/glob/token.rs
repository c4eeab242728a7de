//! Tokens of globs.

/// Wildcard syntax of a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum GlobSyntax {
    /// `*` matches any run of characters; no other character is special.
    Flat,
    /// `*` and `?` match within a path segment; `**` also matches slashes.
    Segmented,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum GlobToken {
    Literal(char),
    /// Any character except a slash.
    AnyChar,
    /// Any run of characters without a slash.
    SegmentRun,
    AnyRun,
    /// `**/`: nothing, or any run followed by a slash.
    Directories,
    /// Trailing `/**`: nothing, or a slash followed by any run.
    Subtree,
}

impl GlobToken {
    pub(in super::super) fn literal(&self) -> Option<char> {
        match self {
            Self::Literal(letter) => Some(*letter),
            _ => None,
        }
    }
}

pub(super) fn tokenize(syntax: GlobSyntax, text: &str) -> Vec<GlobToken> {
    let plain = tokenize_plain(syntax, text);
    let mut tokens: Vec<GlobToken> = Vec::with_capacity(plain.len());
    let mut at = 0;
    while let Some(token) = plain.get(at) {
        let (token, length) = match syntax {
            GlobSyntax::Flat => (*token, 1),
            GlobSyntax::Segmented => next_group(&tokens, &plain[at..]),
        };
        at += length;
        if !(token == GlobToken::Directories && tokens.last() == Some(&token)) {
            tokens.push(token);
        }
    }
    tokens
}

/// Splits the text into tokens without the groups `**/` and `/**`.
fn tokenize_plain(syntax: GlobSyntax, text: &str) -> Vec<GlobToken> {
    let mut tokens = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let token = match (letter, syntax) {
            ('*', GlobSyntax::Flat) => GlobToken::AnyRun,
            ('*', GlobSyntax::Segmented) => GlobToken::SegmentRun,
            ('?', GlobSyntax::Segmented) => GlobToken::AnyChar,
            _ => GlobToken::Literal(letter),
        };
        match tokens.last_mut() {
            Some(last @ (GlobToken::SegmentRun | GlobToken::AnyRun)) if letter == '*' => {
                *last = GlobToken::AnyRun;
            }
            _ => tokens.push(token),
        }
    }
    tokens
}

const SLASH: GlobToken = GlobToken::Literal('/');

/// Returns the first token of `rest` after grouping, and the number of ungrouped tokens that it
/// replaces.
fn next_group(before: &[GlobToken], rest: &[GlobToken]) -> (GlobToken, usize) {
    let starts_segment = matches!(before.last(), None | Some(&(SLASH | GlobToken::Directories)));
    match rest {
        // `a/**/**` is equivalent to `a/**`.
        [SLASH, tail @ ..] if !before.is_empty() && is_only_double_stars(tail) => {
            (GlobToken::Subtree, rest.len())
        }
        [GlobToken::AnyRun, SLASH, tail @ ..] if starts_segment && is_only_double_stars(tail) => {
            (GlobToken::AnyRun, rest.len())
        }
        [GlobToken::AnyRun, SLASH, ..] if starts_segment => (GlobToken::Directories, 2),
        [token, ..] => (*token, 1),
        [] => (GlobToken::AnyRun, 0),
    }
}

/// Whether the tokens are `**`, `**/**`, `**/**/**` and so on.
fn is_only_double_stars(tokens: &[GlobToken]) -> bool {
    !tokens.is_empty()
        && tokens.split(|token| *token == SLASH).all(|part| part == [GlobToken::AnyRun])
}
