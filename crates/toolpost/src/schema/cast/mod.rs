//! TypeBox's `Value.Cast` for plain JSON Schema.
//!
//! A document is compiled once to a list of nodes ([`node`]). A cast computes a plan from the
//! borrowed value ([`planner`], with [`check`], [`create`], [`select`] and [`merge`]) and then
//! applies it ([`plan`]). A failed cast therefore leaves the value unchanged, and retained parts
//! are never copied.

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
mod scalar;
mod select;
#[cfg(test)]
mod tests;
mod translate;
mod unique;

use serde_json::Value;

use super::{Repair, Schema};

pub use error::{CastCode, CastError};
pub(super) use node::CastProgram;
pub(super) use references::percent_decode;

impl Schema {
    /// Repairs a value like TypeBox's `Value.Cast` (0.34.40 and later), and returns the repairs.
    ///
    /// A valid value is unchanged, including its undeclared members. In an invalid value, each
    /// invalid or missing part is replaced by a default or by a created value. Nothing is
    /// converted, and the result is not guaranteed to be valid. The rules are in `docs/cast.md`.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be repaired. The value is then unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use toolpost::{RepairAction, Schema};
    /// use serde_json::json;
    ///
    /// let schema = Schema::new(json!({
    ///     "type": "object",
    ///     "properties": {"name": {"type": "string"}, "age": {"type": "number"}},
    ///     "required": ["name", "age"],
    /// }))?;
    /// let mut value = json!({"name": "Ada", "age": "36"});
    /// let repairs = schema.cast(&mut value)?;
    ///
    /// assert_eq!(value, json!({"name": "Ada", "age": 0}));
    /// assert_eq!(repairs[0].path, "/age");
    /// assert_eq!(repairs[0].action, RepairAction::Replaced);
    /// assert_eq!(repairs[0].from, Some(json!("36")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cast(&self, value: &mut Value) -> Result<Vec<Repair>, CastError> {
        let program = self.inner.cast_program.get_or_init(|| CastProgram::compile(&self.json()));
        let planned = check::CastRun::new(program).plan(program.root, Some(value));
        let plan = planned.map_err(error::LocatedFault::into_error)?;
        Ok(plan::apply_plan(plan, value))
    }
}
