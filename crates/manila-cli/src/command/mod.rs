//! One file a command.

mod call;
mod cast;
mod catalog;
mod completions;
mod document;
mod envelope;
mod serve;
mod signal;

pub(crate) use call::{call, subscribe};
pub(crate) use cast::cast;
pub(crate) use catalog::{envelope_schema, list, schema, search};
pub(crate) use completions::completions;
pub(crate) use envelope::{decode, encode};
pub(crate) use serve::serve;

use manila::Registry;

/// The operations that commands work on.
fn registry() -> Registry {
    manila_gateway::builtin::registry()
}
