//! Where in a document something is, for messages: kept as borrowed steps, and only written down
//! when there is something to say.

use std::fmt;

/// A place of a document as a person finds it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DocumentPath<'a> {
    /// The whole of the file that was asked for.
    Root,
    /// Where a reference led.
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
    /// A JSON Pointer, behind the name of the file if that is another.
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
