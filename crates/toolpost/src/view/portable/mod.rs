//! Rewrites schemas to a form with the same meaning in draft 7, in 2020-12 and for all clients.
//!
//! Clients compile all schemas of a list together. If a client cannot compile one schema, it drops
//! all tools. If it interprets a schema differently, it rejects a result after the call took
//! effect. The declared schema therefore accepts every value that the operation's schema accepts. A
//! keyword that is not portable is omitted if that makes the schema weaker. If omitting it would
//! make the schema stricter, as under `not`, the enclosing keyword is omitted too.

mod cycle;
mod keyword;
mod pattern;
mod reference;
mod relaxed;
mod structure;
mod writer;

use serde_json::{Map, Value};

use crate::json::JsonObject;

pub(super) use reference::References;
use writer::PortableWriter;

/// A schema in portable form.
#[derive(Debug, Default)]
pub(super) struct PortableSchema {
    /// The root schema; its references target the definitions or the root itself.
    pub(super) root: JsonObject,
    /// Definitions, to be placed under `$defs` at the root of the document.
    pub(super) definitions: JsonObject,
    /// Names of the omitted keywords.
    pub(super) omitted: Vec<String>,
    /// Whether a reference targets the root, so that the schema cannot be moved.
    pub(super) refers_to_root: bool,
}

impl PortableSchema {
    /// Returns the schema with its definitions.
    pub(super) fn into_document(mut self) -> JsonObject {
        if !self.definitions.is_empty() {
            self.root.insert("$defs".to_owned(), self.definitions.into());
        }
        self.root
    }
}

/// Error returned when a schema has no portable form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortableError {
    #[error("it has more than {} parts", writer::MAX_PARTS)]
    TooLarge,
    #[error("it has more than {} definitions", writer::MAX_DEFINITIONS)]
    TooManyDefinitions,
    #[error("a reference is cyclic or goes through more than {} others", cycle::MAX_REF_CHAIN)]
    Cycle,
}

/// Converts a schema whose root will be at `base_pointer`, such as `#` or `#/properties/data`.
///
/// # Errors
///
/// Returns an error if the schema is too large or has a reference cycle.
pub(super) fn to_portable(
    document: &Value,
    base_pointer: &str,
) -> Result<PortableSchema, PortableError> {
    let written = PortableWriter::new(document, base_pointer).write(document)?;
    // Whether a reference under `not` is exact is known only after the document is written.
    if written.is_exact || written.definitions.is_empty() && !written.refers_to_root {
        return finish(written, base_pointer);
    }
    finish(
        PortableWriter::new(document, base_pointer).with_inexact_refs().write(document)?,
        base_pointer,
    )
}

/// Converts a schema to its relaxed form, whose root will be at `base_pointer`.
///
/// # Errors
///
/// Returns an error if the schema is too large or has a reference cycle.
pub(super) fn to_relaxed(
    document: &Value,
    base_pointer: &str,
) -> Result<PortableSchema, PortableError> {
    let written = PortableWriter::new(document, base_pointer).relaxed().write(document)?;
    let mut schema = finish(written, base_pointer)?;
    schema.describe_as_relaxed();
    Ok(schema)
}

fn finish(
    written: writer::PortableDocument,
    base_pointer: &str,
) -> Result<PortableSchema, PortableError> {
    let root = match written.root {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    cycle::check_ref_cycles(&root, &written.definitions, base_pointer)?;
    Ok(PortableSchema {
        root,
        definitions: written.definitions,
        omitted: written.omitted.into_iter().collect(),
        refers_to_root: written.refers_to_root,
    })
}

#[cfg(test)]
mod tests;
