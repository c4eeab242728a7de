//! Converts the schemas of a document to self-contained JSON Schemas.
//!
//! Operations share the schemas of their document, for requests and responses, and most schemas are
//! never used. A schema is therefore represented by a [`SchemaShape`], which refers to nodes of the
//! document, and written when it is first read or compiled.

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
