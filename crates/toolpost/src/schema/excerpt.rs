//! Schemas of one document that are taken apart together, so that what they share is written once.

use std::any::Any;

use serde_json::Value;

use super::SchemaPart;

/// A schema inside a document, whose definitions can be had one by one.
pub(crate) trait Excerpt: SchemaPart {
    /// What it is an excerpt of: the same for all that can be taken apart together.
    fn document(&self) -> usize;

    /// Remembers what was handed out of the document, for [`Excerpt::take`].
    fn volume(&self) -> Box<dyn Any>;

    /// The schema without its definitions, and those that were not handed out before.
    fn take(&self, volume: &mut dyn Any) -> Apart;
}

/// A schema that was taken apart. A reference in it is `#/$defs/` and the number of a definition,
/// whatever its key.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    pub(crate) root: Root,
    /// The definitions that nobody has seen yet.
    pub(crate) new: Vec<Definition>,
    /// Every definition that the schema has.
    pub(crate) reached: Vec<usize>,
    /// Those that have another key here than where they were handed out.
    pub(crate) renamed: Vec<(usize, String)>,
}

/// A schema without its definitions.
#[derive(Debug, Default)]
pub(crate) enum Root {
    /// It can only be had with them.
    #[default]
    Whole,
    /// It is one of the definitions, and what leads there leads to the whole schema.
    Definition(usize),
    Own(Value),
}

/// One definition of a document.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) number: usize,
    /// Where it stands under `$defs`; nowhere yet, if it is only known as a schema itself.
    pub(crate) key: Option<String>,
    pub(crate) text: Value,
}
