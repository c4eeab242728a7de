//! A schema said in words that mean the same in draft 7 and 2020-12, and to every client.
//!
//! A client compiles the schemas of a whole list at once: one that it does not understand costs it
//! all tools, and one that it understands otherwise makes it refuse a result after the effect. So
//! what is declared is implied by what the operation declares: whatever fits the one fits the other.
//! A keyword that cannot be said is left out where that only admits more, and with it the keyword
//! around it where leaving it out would admit less, as under `not`.

mod cycle;
mod keyword;
mod pattern;
mod reference;
mod structure;
mod writer;

use serde_json::{Map, Value};

pub(super) use reference::References;
use writer::PortableWriter;

/// A schema in portable words.
#[derive(Debug, Default)]
pub(super) struct PortableSchema {
    /// The schema itself; its references lead into the definitions or to its own place.
    pub(super) root: Map<String, Value>,
    /// What belongs under `$defs` at the root of the document.
    pub(super) definitions: Map<String, Value>,
    /// What was left out.
    pub(super) omitted: Vec<String>,
}

/// Why a schema cannot be said at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PortableError {
    #[error("it has more than {} parts", writer::MAX_PARTS)]
    TooLarge,
    #[error("it has more than {} definitions", writer::MAX_DEFINITIONS)]
    TooManyDefinitions,
    #[error(
        "a reference leads back to itself, or through more than {} others",
        cycle::MAX_REF_CHAIN
    )]
    Cycle,
}

/// Says a schema whose root will stand at `place`, a reference such as `#` or `#/properties/data`.
///
/// # Errors
///
/// It is too large, or leads in circles.
pub(super) fn to_portable(
    document: &Value,
    base_pointer: &str,
) -> Result<PortableSchema, PortableError> {
    let written = PortableWriter::new(document, base_pointer).write(document)?;
    // A reference under `not` is only as good as what it leads to, which is known after all is said.
    if written.is_exact || written.definitions.is_empty() && !written.refers_to_root {
        return finish(written, base_pointer);
    }
    finish(
        PortableWriter::new(document, base_pointer).with_inexact_refs().write(document)?,
        base_pointer,
    )
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
    let omitted = written.omitted.into_iter().collect();
    Ok(PortableSchema { root, definitions: written.definitions, omitted })
}

#[cfg(test)]
mod tests;
