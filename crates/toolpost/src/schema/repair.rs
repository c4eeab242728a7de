//! Repairs: the changes that normalization makes to a value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Issue, MASKED};
use crate::json::JsonPointer;

/// A change made to a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Repair {
    /// JSON Pointer to the changed value.
    pub path: JsonPointer,
    /// Kind of the change.
    pub action: RepairAction,
    /// The value before the change, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after the change, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// Kinds of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RepairAction {
    /// A missing value was set to the default of its schema.
    Defaulted,
    /// A value was converted to another type without loss.
    Converted,
    /// A property that no schema declares was removed.
    Stripped,
    /// A missing value without a default was created.
    Invented,
    /// A present value was replaced by another and lost.
    Replaced,
}

impl RepairAction {
    /// Whether data was invented or lost, which is worth more than a debug log event.
    pub fn is_warning(self) -> bool {
        matches!(self, Self::Invented | Self::Replaced)
    }
}

/// How to handle properties that no schema declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
#[non_exhaustive]
pub enum Extras {
    /// Remove them, and record a repair for each.
    #[default]
    Strip,
    /// They stay.
    Keep,
}

/// The result of a normalization.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Normalized {
    /// All changes made to the value.
    pub repairs: Vec<Repair>,
    /// Remaining validation errors.
    pub issues: Vec<Issue>,
}

impl Normalized {
    /// Replaces the values of repairs, and the messages of issues, which can quote values, by
    /// [`MASKED`].
    pub(crate) fn mask_values(&mut self) {
        for repair in &mut self.repairs {
            for value in [&mut repair.from, &mut repair.to].into_iter().flatten() {
                *value = MASKED.into();
            }
        }
        for issue in &mut self.issues {
            MASKED.clone_into(&mut issue.message);
        }
    }
}
