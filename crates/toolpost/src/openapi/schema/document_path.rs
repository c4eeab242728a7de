//! Document paths for messages. A path borrows its segments, and is formatted only when a message
//! is created.

use std::fmt;

/// Path of a node in a document, for display.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DocumentPath<'a> {
    /// The root of the requested document.
    Root,
    /// The target of a reference.
    Reference(&'a str),
    Member(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, usize),
}

impl<'a> DocumentPath<'a> {
    pub(crate) fn member(&'a self, name: &'a str) -> DocumentPath<'a> {
        DocumentPath::Member(self, name)
    }

    pub(crate) fn item(&'a self, index: usize) -> DocumentPath<'a> {
        DocumentPath::Item(self, index)
    }
}

impl fmt::Display for DocumentPath<'_> {
    /// Formats a JSON Pointer, after the file name if it is another file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentPath::Root => Ok(()),
            DocumentPath::Reference(reference) => {
                f.write_str(reference.strip_prefix('#').unwrap_or(reference))
            }
            DocumentPath::Member(parent, name) => {
                write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            DocumentPath::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_path_renders_as_json_pointer() {
        let paths = DocumentPath::Root.member("paths");
        let path = paths.member("/users/{id}~");
        assert_eq!(path.item(3).to_string(), "/paths/~1users~1{id}~0/3");
        assert_eq!(DocumentPath::Reference("#/a/b").member("c").to_string(), "/a/b/c");
        assert_eq!(DocumentPath::Reference("b.yaml#/x").item(0).to_string(), "b.yaml#/x/0");
    }
}
