//! The way to a place: a chain through the frames of the walk, written out only on a repair.

use super::super::pointer::{Backwards, Pointer};

/// The last step to a place, and through its parents all of them.
pub(super) struct Step<'a> {
    parent: Option<&'a Step<'a>>,
    token: Token<'a>,
}

#[derive(Clone, Copy)]
enum Token<'a> {
    Root,
    Name(&'a str),
    Index(usize),
}

impl<'a> Step<'a> {
    pub(super) const ROOT: Step<'static> = Step { parent: None, token: Token::Root };

    #[inline]
    pub(super) fn name(&'a self, name: &'a str) -> Step<'a> {
        Step { parent: Some(self), token: Token::Name(name) }
    }

    #[inline]
    pub(super) fn index(&'a self, index: usize) -> Step<'a> {
        Step { parent: Some(self), token: Token::Index(index) }
    }

    /// The JSON Pointer to the place.
    pub(super) fn pointer(&self) -> Pointer {
        let mut pointer = Pointer::default();
        self.write(&mut pointer);
        pointer
    }

    /// Writes that pointer where it will stay, from its end, where the chain begins.
    pub(super) fn write(&self, pointer: &mut Pointer) {
        pointer.write(|to| {
            let mut step = self;
            loop {
                step.token.write(to);
                let Some(parent) = step.parent else { return };
                step = parent;
            }
        });
    }
}

impl Token<'_> {
    #[inline]
    fn write(self, to: &mut Backwards<'_>) {
        match self {
            Token::Root => return,
            Token::Name(name) => to.push_name(name),
            Token::Index(index) => write_index(index, to),
        }
        to.push(b'/');
    }
}

fn write_index(mut index: usize, to: &mut Backwards<'_>) {
    loop {
        to.push(b'0' + (index % 10) as u8);
        index /= 10;
        if index == 0 {
            return;
        }
    }
}

/// Appends one escaped token to a JSON Pointer.
pub(in crate::schema) fn push_token(pointer: &mut String, token: &str) {
    pointer.push('/');
    for character in token.chars() {
        match character {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            other => pointer.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_indexes_are_written_in_full() {
        let cases = [
            ("", 0, "//0"),
            ("a", 9, "/a/9"),
            ("a/b", 10, "/a~1b/10"),
            ("~", 99, "/~0/99"),
            ("~1/~0", 100, "/~01~1~00/100"),
            ("ä/€", 1_234_567, "/ä~1€/1234567"),
            (
                "a name longer than what is kept in place",
                0,
                "/a name longer than what is kept in place/0",
            ),
            ("m", usize::MAX, "/m/18446744073709551615"),
        ];
        for (name, index, expected) in cases {
            let root = Step::ROOT;
            let name = root.name(name);
            assert_eq!(name.index(index).pointer(), expected);
        }
        assert_eq!(Step::ROOT.pointer(), "");
    }
}
