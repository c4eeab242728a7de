//! Self-contained JSON Schemas from the schemas of a document.
//!
//! Operations share the schemas of their document, in different directions, and most schemas are
//! never read. A schema is therefore a [`SchemaShape`], which refers to nodes of the document. It
//! is written when it is read or compiled.

mod check;
mod context;
mod definition_cache;
mod definition_name;
mod input;
mod keyword;
mod nullable;
mod required;
mod schema_writer;
mod shape;

pub use check::DocumentWarning;
pub(crate) use check::SchemaChecker;
pub(crate) use context::SchemaContext;
pub(crate) use schema_writer::{dialect_ignores_ref_siblings, is_binary};
pub(crate) use shape::{InputProperty, PropertySource, SchemaShape, SchemaUsage, schema_of_shape};
