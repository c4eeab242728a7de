//! Path of an input value that cannot be sent.

use crate::schema::Issue;

/// Path of a value in the input. It borrows its segments, because most calls have no issue to
/// report.
#[derive(Debug, Clone, Copy)]
pub(super) struct InputPath<'a> {
    parent: Option<&'a InputPath<'a>>,
    segment: InputPathSegment<'a>,
}

#[derive(Debug, Clone, Copy)]
enum InputPathSegment<'a> {
    Member(&'a str),
    Item(usize),
}

impl<'a> InputPath<'a> {
    /// Creates the path of a top-level member of the input.
    pub(super) fn root(name: &'a str) -> Self {
        Self { parent: None, segment: InputPathSegment::Member(name) }
    }

    pub(super) fn member(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), segment: InputPathSegment::Member(name) }
    }

    pub(super) fn item(&'a self, index: usize) -> Self {
        Self { parent: Some(self), segment: InputPathSegment::Item(index) }
    }

    pub(super) fn issue(&self, message: impl Into<String>) -> Issue {
        Issue::new(self.pointer(), message)
    }

    fn pointer(&self) -> String {
        let mut pointer = self.parent.map(InputPath::pointer).unwrap_or_default();
        pointer.push('/');
        match self.segment {
            InputPathSegment::Member(name) => {
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            InputPathSegment::Item(index) => pointer.push_str(&index.to_string()),
        }
        pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_path_renders_as_json_pointer() {
        let body = InputPath::root("a/b~c");
        let list = body.member("");
        assert_eq!(list.item(3).issue("x").path, "/a~1b~0c//3");
    }
}
