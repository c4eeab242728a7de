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
use writer::Writer;

/// A schema in portable words.
#[derive(Debug, Default)]
pub(super) struct Portable {
    /// The schema itself; its references lead into the definitions or to its own place.
    pub(super) root: Map<String, Value>,
    /// What belongs under `$defs` at the root of the document.
    pub(super) definitions: Map<String, Value>,
    /// What was left out.
    pub(super) left_out: Vec<String>,
}

/// Why a schema cannot be said at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsayable {
    #[error("it has more than {} parts", writer::MOST_PARTS)]
    TooLarge,
    #[error("it has more than {} definitions", writer::MOST_DEFINITIONS)]
    TooManyDefinitions,
    #[error("a reference leads back to itself, or through more than {} others", cycle::LONGEST)]
    Cycle,
}

/// Says a schema whose root will stand at `place`, a reference such as `#` or `#/properties/data`.
///
/// # Errors
///
/// It is too large, or leads in circles.
pub(super) fn portable(document: &Value, place: &str) -> Result<Portable, Unsayable> {
    let said = Writer::new(document, place).write(document)?;
    // A reference under `not` is only as good as what it leads to, which is known after all is said.
    if said.is_exact || said.definitions.is_empty() && !said.refers_to_root {
        return finish(said, place);
    }
    finish(Writer::new(document, place).distrusting().write(document)?, place)
}

fn finish(said: writer::Said, place: &str) -> Result<Portable, Unsayable> {
    let root = match said.root {
        Value::Object(root) => root,
        _ => Map::new(),
    };
    cycle::check(&root, &said.definitions, place)?;
    let left_out = said.left_out.into_iter().collect();
    Ok(Portable { root, definitions: said.definitions, left_out })
}

#[cfg(test)]
mod tests;
