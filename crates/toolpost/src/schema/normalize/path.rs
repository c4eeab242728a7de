//! The path to a value: a linked list through the stack frames of the walk, written out only when
//! needed.

use super::super::pointer::{JsonPointer, ReverseWriter};

/// The last segment of a path, linked to its parents.
pub(super) struct ValuePath<'a> {
    parent: Option<&'a ValuePath<'a>>,
    segment: ValuePathSegment<'a>,
}

#[derive(Clone, Copy)]
enum ValuePathSegment<'a> {
    Root,
    Property(&'a str),
    Index(usize),
}

impl<'a> ValuePath<'a> {
    pub(super) const ROOT: ValuePath<'static> =
        ValuePath { parent: None, segment: ValuePathSegment::Root };

    #[inline]
    pub(super) fn property(&'a self, name: &'a str) -> ValuePath<'a> {
        ValuePath { parent: Some(self), segment: ValuePathSegment::Property(name) }
    }

    #[inline]
    pub(super) fn index(&'a self, index: usize) -> ValuePath<'a> {
        ValuePath { parent: Some(self), segment: ValuePathSegment::Index(index) }
    }

    /// Returns the path as a JSON Pointer.
    pub(super) fn pointer(&self) -> JsonPointer {
        let mut pointer = JsonPointer::default();
        self.write_to(&mut pointer);
        pointer
    }

    /// Writes the path to `pointer` in place, last segment first.
    pub(super) fn write_to(&self, pointer: &mut JsonPointer) {
        pointer.write_reversed(|to| {
            let mut node = self;
            loop {
                node.segment.write_to(to);
                let Some(parent) = node.parent else { return };
                node = parent;
            }
        });
    }
}

impl ValuePathSegment<'_> {
    #[inline]
    fn write_to(self, to: &mut ReverseWriter<'_>) {
        match self {
            ValuePathSegment::Root => return,
            ValuePathSegment::Property(name) => to.push_name(name),
            ValuePathSegment::Index(index) => write_index(index, to),
        }
        to.push(b'/');
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

/// Appends an escaped token to a JSON Pointer.
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
            let root = ValuePath::ROOT;
            let name = root.property(name);
            assert_eq!(name.index(index).pointer(), expected);
        }
        assert_eq!(ValuePath::ROOT.pointer(), "");
    }
}
