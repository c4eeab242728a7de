//! Where in a document something is, for messages: kept as borrowed steps, and only written down
//! when there is something to say.

use std::fmt;

/// A place of a document as a person finds it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Spot<'a> {
    /// The whole of the file that was asked for.
    Document,
    /// Where a reference led.
    Reference(&'a str),
    Member(&'a Spot<'a>, &'a str),
    Item(&'a Spot<'a>, usize),
}

impl<'a> Spot<'a> {
    pub(crate) fn member(&'a self, name: &'a str) -> Spot<'a> {
        Spot::Member(self, name)
    }

    pub(crate) fn item(&'a self, index: usize) -> Spot<'a> {
        Spot::Item(self, index)
    }
}

impl fmt::Display for Spot<'_> {
    /// A JSON Pointer, behind the name of the file if that is another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spot::Document => Ok(()),
            Spot::Reference(reference) => {
                f.write_str(reference.strip_prefix('#').unwrap_or(reference))
            }
            Spot::Member(parent, name) => {
                write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            Spot::Item(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_reads_as_a_pointer() {
        let paths = Spot::Document.member("paths");
        let path = paths.member("/users/{id}~");
        assert_eq!(path.item(3).to_string(), "/paths/~1users~1{id}~0/3");
        assert_eq!(Spot::Reference("#/a/b").member("c").to_string(), "/a/b/c");
        assert_eq!(Spot::Reference("b.yaml#/x").item(0).to_string(), "b.yaml#/x/0");
    }
}
