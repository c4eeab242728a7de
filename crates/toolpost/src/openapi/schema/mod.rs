//! The schemas of a document as documents of their own.
//!
//! A document keeps its schemas once; each operation sees some of them, from one side, and most are
//! never asked for. So a schema is a [`Shape`], which knows places of the document, and is written
//! when somebody reads or compiles it.

mod check;
mod context;
mod input;
mod keyword;
mod name;
mod null;
mod shape;
mod spot;
mod view;
mod volume;
mod writer;

pub(crate) use check::Check;
pub use check::Warning;
pub(crate) use context::Context;
pub(crate) use shape::{Member, Shape, Source, View, schema};
pub(crate) use spot::Spot;
pub(crate) use writer::{hides_siblings, is_bytes};
