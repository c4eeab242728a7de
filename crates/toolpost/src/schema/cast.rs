//! TypeBox's `Value.Cast`.

use serde_json::Value;
use typebox_cast::{CastAction, CastCode, CastError, CastRepair, CastSchema};

use super::budget::{Exceeded, RepairError, WorkLimits};
use super::explain::MAX_ISSUES;
use super::{Issue, Normalized, Repair, RepairAction, Schema};

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
    pub fn cast(&self, value: &mut Value) -> Result<Vec<Repair>, CastError> {
        let schema = self.inner.lazy.cast.get_or_init(|| CastSchema::new(&self.json()));
        Ok(schema.cast(value)?.into_iter().map(Repair::from).collect())
    }

    /// Casts the value within limits. A failure and each invented or lost value add a warning.
    pub(crate) fn cast_within(
        &self,
        value: &mut Value,
        limits: WorkLimits<'_>,
    ) -> Result<Normalized, RepairError> {
        let mut normalized = Normalized::default();
        let schema = self.inner.lazy.cast.get_or_init(|| CastSchema::new(&self.json()));
        match schema.cast_within(value, limits.max_steps) {
            Ok(repairs) => normalized.repairs = repairs.into_iter().map(Repair::from).collect(),
            Err(error) if error.code == CastCode::Steps => {
                return Err(Exceeded::Steps(limits.max_steps).into());
            }
            Err(error) => normalized.issues.push(Issue::new(error.path.clone(), error.to_string())),
        }
        let warnings = normalized.repairs.iter().filter_map(|repair| {
            let message = match repair.action {
                RepairAction::Invented => "a missing value was invented",
                RepairAction::Replaced => "a value was replaced",
                _ => return None,
            };
            Some(Issue::new(repair.path.clone(), message))
        });
        normalized.issues.extend(warnings);
        normalized.issues.truncate(MAX_ISSUES);
        // Whether the result is valid is only reported, so this work has its own limits.
        match self.validate(value) {
            Ok(issues) => normalized.issues.extend(issues),
            Err(error) => normalized.issues.push(Issue::new("", error.to_string())),
        }
        Ok(normalized)
    }
}

impl From<CastRepair> for Repair {
    fn from(repair: CastRepair) -> Self {
        let action = match repair.action {
            CastAction::Defaulted => RepairAction::Defaulted,
            CastAction::Invented => RepairAction::Invented,
            CastAction::Replaced => RepairAction::Replaced,
            CastAction::Stripped => RepairAction::Stripped,
        };
        Self { path: repair.path.as_str().into(), action, from: repair.from, to: repair.to }
    }
}
