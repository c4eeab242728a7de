//! The changes that a cast makes.

use serde_json::Value;

use super::check::CastRun;
use super::error::CastError;
use super::node::CastSchema;
use super::plan;

/// A change made to a value.
#[derive(Debug, Clone, PartialEq)]
pub struct CastRepair {
    /// JSON Pointer to the changed value.
    pub path: String,
    /// Kind of the change.
    pub action: CastAction,
    /// The value before the change, if any.
    pub from: Option<Value>,
    /// The value after the change, if any.
    pub to: Option<Value>,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CastAction {
    /// A missing value was set to the default of its schema.
    Defaulted,
    /// A missing value without a default was created.
    Invented,
    /// An existing value was replaced.
    Replaced,
    /// A property that no schema declares was removed.
    Stripped,
}

/// Maximum number of nodes that are applied to values, unless the caller sets another.
const MAX_STEPS: u64 = 10_000_000;

impl CastSchema {
    /// Repairs a value like TypeBox's `Value.Cast`, and returns the repairs.
    ///
    /// A valid value is unchanged, including its undeclared members. In an invalid value, each
    /// invalid or missing part is replaced by a default or by a created value. Nothing is
    /// converted, and the result is not guaranteed to be valid.
    ///
    /// # Errors
    ///
    /// Returns an error if the value cannot be repaired. The value is then unchanged.
    pub fn cast(&self, value: &mut Value) -> Result<Vec<CastRepair>, CastError> {
        self.cast_within(value, MAX_STEPS)
    }

    /// Like [`CastSchema::cast`], with a limit on the number of nodes that are applied to values.
    ///
    /// # Errors
    ///
    /// Returns [`CastCode::Steps`](crate::CastCode::Steps) if the limit is exceeded. The value is
    /// then unchanged.
    pub fn cast_within(
        &self,
        value: &mut Value,
        max_steps: u64,
    ) -> Result<Vec<CastRepair>, CastError> {
        let plan = CastRun::new(self, max_steps).plan(self.root, Some(value));
        Ok(plan::apply_plan(plan.map_err(|error| *error)?, value))
    }
}
