//! Schemas of one document that are split together, so that shared definitions are written once.

use std::any::Any;

use serde_json::Value;

use super::SchemaPart;

/// A schema inside a document whose definitions can be extracted one by one.
pub(crate) trait SharedDefs: SchemaPart {
    /// Identifies the document; schemas with the same id can be split together.
    fn document_id(&self) -> usize;

    /// Creates the cache that tracks the extracted definitions for [`SharedDefs::split`].
    fn new_cache(&self) -> Box<dyn Any>;

    /// Returns the schema without its definitions, and the definitions not extracted before.
    fn split(&self, cache: &mut dyn Any) -> SplitSchema;
}

/// A schema separated from its definitions. References have the form `#/$defs/<index>`.
#[derive(Debug, Default)]
pub(crate) struct SplitSchema {
    pub(crate) root: SplitRoot,
    /// Definitions that were not extracted before.
    pub(crate) new_definitions: Vec<SharedDefinition>,
    /// Indices of all definitions that the schema references.
    pub(crate) referenced: Vec<usize>,
    /// Definitions that have a different key here than when they were extracted.
    pub(crate) renamed: Vec<(usize, String)>,
}

/// The root of a schema, separated from its definitions.
#[derive(Debug, Default)]
pub(crate) enum SplitRoot {
    /// The schema cannot be separated from its definitions.
    #[default]
    Unsplit,
    /// The schema is one of the definitions; references to it refer to the whole schema.
    Definition(usize),
    Inline(Value),
}

/// A definition extracted from a document.
#[derive(Debug)]
pub(crate) struct SharedDefinition {
    pub(crate) index: usize,
    /// Key under `$defs`; `None` if the definition has only been used as a root schema so far.
    pub(crate) key: Option<String>,
    pub(crate) schema: Value,
}
