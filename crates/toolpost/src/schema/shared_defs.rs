//! Schemas of one document that are taken apart together, so that what they share is written once.

use std::any::Any;

use serde_json::Value;

use super::SchemaPart;

/// A schema inside a document, whose definitions can be had one by one.
pub(crate) trait SharedDefs: SchemaPart {
    /// What it is an excerpt of: the same for all that can be taken apart together.
    fn document_id(&self) -> usize;

    /// Remembers what was handed out of the document, for [`SharedDefs::split`].
    fn new_cache(&self) -> Box<dyn Any>;

    /// The schema without its definitions, and those that were not handed out before.
    fn split(&self, cache: &mut dyn Any) -> SplitSchema;
}

/// A schema that was taken apart. A reference in it is `#/$defs/` and the number of a definition,
/// whatever its key.
#[derive(Debug, Default)]
pub(crate) struct SplitSchema {
    pub(crate) root: SplitRoot,
    /// The definitions that nobody has seen yet.
    pub(crate) new_definitions: Vec<SharedDefinition>,
    /// Every definition that the schema has.
    pub(crate) referenced: Vec<usize>,
    /// Those that have another key here than where they were handed out.
    pub(crate) renamed: Vec<(usize, String)>,
}

/// A schema without its definitions.
#[derive(Debug, Default)]
pub(crate) enum SplitRoot {
    /// It can only be had with them.
    #[default]
    Unsplit,
    /// It is one of the definitions, and what leads there leads to the whole schema.
    Definition(usize),
    Inline(Value),
}

/// One definition of a document.
#[derive(Debug)]
pub(crate) struct SharedDefinition {
    pub(crate) index: usize,
    /// Where it stands under `$defs`; nowhere yet, if it is only known as a schema itself.
    pub(crate) key: Option<String>,
    pub(crate) schema: Value,
}
