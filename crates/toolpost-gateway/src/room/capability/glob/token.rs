//! What a text with wildcards is made of.

/// How `*` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Notation {
    /// `*` stands for any run of characters; nothing else is special.
    Whole,
    /// `*` and `?` stay within a segment between slashes, `**` does not.
    Segments,
}

/// One piece of a text with wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Token {
    /// This character.
    Letter(char),
    /// Any character but a slash.
    One,
    /// Any run without a slash.
    Within,
    /// Any run.
    Across,
    /// `**/`: nothing, or any run and a slash behind it.
    Folders,
    /// `/**` at the end: nothing, or a slash and any run behind it.
    Below,
}

impl Token {
    pub(in super::super) fn literal(&self) -> Option<char> {
        match self {
            Self::Letter(letter) => Some(*letter),
            _ => None,
        }
    }
}

pub(super) fn read(notation: Notation, text: &str) -> Vec<Token> {
    let plain = plain(notation, text);
    let mut tokens: Vec<Token> = Vec::with_capacity(plain.len());
    let mut at = 0;
    while let Some(token) = plain.get(at) {
        let (token, length) = match notation {
            Notation::Whole => (*token, 1),
            Notation::Segments => group(&tokens, &plain[at..]),
        };
        at += length;
        if !(token == Token::Folders && tokens.last() == Some(&token)) {
            tokens.push(token);
        }
    }
    tokens
}

/// The tokens without those that stand for more than one piece.
fn plain(notation: Notation, text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    for letter in text.chars() {
        let token = match (letter, notation) {
            ('*', Notation::Whole) => Token::Across,
            ('*', Notation::Segments) => Token::Within,
            ('?', Notation::Segments) => Token::One,
            _ => Token::Letter(letter),
        };
        match tokens.last_mut() {
            Some(last @ (Token::Within | Token::Across)) if letter == '*' => *last = Token::Across,
            _ => tokens.push(token),
        }
    }
    tokens
}

const SLASH: Token = Token::Letter('/');

/// The token that `rest` begins with, and how many plain ones it takes.
fn group(before: &[Token], rest: &[Token]) -> (Token, usize) {
    let starts_segment = matches!(before.last(), None | Some(&(SLASH | Token::Folders)));
    match rest {
        // `a/**/**` is `a/**`.
        [SLASH, tail @ ..] if !before.is_empty() && is_only_folders(tail) => {
            (Token::Below, rest.len())
        }
        [Token::Across, SLASH, tail @ ..] if starts_segment && is_only_folders(tail) => {
            (Token::Across, rest.len())
        }
        [Token::Across, SLASH, ..] if starts_segment => (Token::Folders, 2),
        [token, ..] => (*token, 1),
        [] => (Token::Across, 0),
    }
}

/// Whether this is `**`, `**/**`, `**/**/**`…
fn is_only_folders(tokens: &[Token]) -> bool {
    !tokens.is_empty() && tokens.split(|token| *token == SLASH).all(|part| part == [Token::Across])
}
