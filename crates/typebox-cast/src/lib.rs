//! A Rust port of TypeBox's `Value.Cast` (0.34.40 and later) for plain JSON Schema. It repairs a
//! value by replacing invalid parts, and reports each change.
//!
//! A document is compiled once to a list of nodes. A cast computes a plan from the borrowed value
//! and then applies it. A failed cast therefore leaves the value unchanged, and retained parts are
//! never copied.
//!
//! ```
//! use serde_json::json;
//! use typebox_cast::{CastAction, CastSchema};
//!
//! let schema = CastSchema::new(&json!({
//!     "type": "object",
//!     "properties": {"name": {"type": "string"}, "age": {"type": "number"}},
//!     "required": ["name", "age"],
//! }));
//! let mut value = json!({"name": "Ada", "age": "36"});
//! let repairs = schema.cast(&mut value)?;
//!
//! assert_eq!(value, json!({"name": "Ada", "age": 0}));
//! assert_eq!(repairs[0].path, "/age");
//! assert_eq!(repairs[0].action, CastAction::Replaced);
//! assert_eq!(repairs[0].from, Some(json!("36")));
//! # Ok::<(), typebox_cast::CastError>(())
//! ```

mod check;
mod compile;
mod create;
mod error;
mod js;
mod keys;
mod keywords;
mod merge;
mod node;
mod pattern;
mod plan;
mod planner;
mod references;
mod repair;
mod scalar;
mod select;
#[cfg(test)]
mod tests;
mod translate;
mod unique;

pub use error::{CastCode, CastError};
pub use node::CastSchema;
pub use repair::{CastAction, CastRepair};
