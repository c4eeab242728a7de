//! The path to a value: a linked list through the stack frames of a walk, formatted only when
//! needed.

use std::fmt;

use super::escape_token;
use super::pointer::{JsonPointer, ReverseWriter};

/// The path of a value or of a node in a document; its text is a JSON Pointer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValuePath<'a> {
    /// Where the walk started: a JSON Pointer, which can follow the name of a file. Empty for the
    /// root.
    Base(&'a str),
    Member(&'a ValuePath<'a>, &'a str),
    Item(&'a ValuePath<'a>, usize),
}

impl<'a> ValuePath<'a> {
    pub(crate) const ROOT: ValuePath<'static> = ValuePath::Base("");

    #[inline]
    pub(crate) fn member(&'a self, name: &'a str) -> ValuePath<'a> {
        ValuePath::Member(self, name)
    }

    #[inline]
    pub(crate) fn item(&'a self, index: usize) -> ValuePath<'a> {
        ValuePath::Item(self, index)
    }

    pub(crate) fn pointer(&self) -> JsonPointer {
        let mut pointer = JsonPointer::default();
        self.write_to(&mut pointer);
        pointer
    }

    /// Writes the path to `pointer` in place, last segment first.
    pub(crate) fn write_to(&self, pointer: &mut JsonPointer) {
        pointer.write_reversed(|to| {
            let mut node = self;
            loop {
                node = match *node {
                    ValuePath::Base(text) => return to.push_text(text),
                    ValuePath::Member(parent, name) => {
                        to.push_name(name);
                        parent
                    }
                    ValuePath::Item(parent, index) => {
                        write_index(index, to);
                        parent
                    }
                };
                to.push(b'/');
            }
        });
    }
}

impl fmt::Display for ValuePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValuePath::Base(text) => f.write_str(text),
            ValuePath::Member(parent, name) => write!(f, "{parent}/{}", escape_token(name)),
            ValuePath::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

fn write_index(mut index: usize, to: &mut ReverseWriter<'_>) {
    loop {
        to.push(b'0' + (index % 10) as u8);
        index /= 10;
        if index == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_path_escapes_names_and_writes_full_indexes() {
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
            for base in ["", "b.yaml#/x"] {
                let base = ValuePath::Base(base);
                let name = base.member(name);
                let path = name.item(index);
                assert_eq!(path.to_string(), format!("{base}{expected}"));
                assert_eq!(path.pointer(), &*path.to_string());
            }
        }
        assert_eq!(ValuePath::ROOT.to_string(), "");
    }
}
