//! Where in the input something cannot be sent.

use crate::schema::Issue;

/// A place below a member of the input, kept as borrowed steps, because most calls have no issue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Member(&'a str),
    Item(usize),
}

impl<'a> Place<'a> {
    /// A member of the input itself.
    pub(super) fn of(name: &'a str) -> Self {
        Self { above: None, step: Step::Member(name) }
    }

    pub(super) fn member(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Member(name) }
    }

    pub(super) fn item(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Item(index) }
    }

    pub(super) fn issue(&self, message: impl Into<String>) -> Issue {
        Issue::new(self.pointer(), message)
    }

    fn pointer(&self) -> String {
        let mut pointer = self.above.map(Place::pointer).unwrap_or_default();
        pointer.push('/');
        match self.step {
            Step::Member(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
            Step::Item(index) => pointer.push_str(&index.to_string()),
        }
        pointer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_json_pointer() {
        let body = Place::of("a/b~c");
        let list = body.member("");
        assert_eq!(list.item(3).issue("x").path, "/a~1b~0c//3");
    }
}
