//! The schemas of a document as documents of their own.
//!
//! A document keeps its schemas once; each operation sees some of them, from one side, and most are
//! never asked for. So a schema is a [`SchemaShape`], which knows places of the document, and is written
//! when somebody reads or compiles it.

mod check;
mod context;
mod definition_cache;
mod definition_name;
mod document_path;
mod input;
mod keyword;
mod nullable;
mod required;
mod schema_writer;
mod shape;

pub use check::DocumentWarning;
pub(crate) use check::SchemaChecker;
pub(crate) use context::SchemaContext;
pub(crate) use document_path::DocumentPath;
pub(crate) use schema_writer::{dialect_ignores_ref_siblings, is_binary};
pub(crate) use shape::{InputProperty, PropertySource, SchemaShape, SchemaUsage, schema_of_shape};
