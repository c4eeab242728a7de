//! TypeBox's `Value.Cast` over plain JSON Schema, for those who compare.
//!
//! A document is compiled once to a list of kinds ([`node`]). A cast then decides everything on
//! the borrowed value ([`planner`], with [`check`], [`create`], [`select`] and [`merge`]) and
//! ends in a plan; only a finished plan touches the value ([`plan`]). So a failure leaves the
//! value whole, and what is kept is never copied.

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
    /// Repairs a value as TypeBox's `Value.Cast` (0.34.40 and later) would, and lists the repairs.
    ///
    /// A value that fits stays as it is, undeclared members included. In one that does not, what
    /// is bad or missing is replaced by a default or by something made up: nothing is converted,
    /// and the result need not fit either. `docs/cast.md` has the rules.
    ///
    /// # Errors
    ///
    /// The value cannot be repaired; it is then left exactly as it was.
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
