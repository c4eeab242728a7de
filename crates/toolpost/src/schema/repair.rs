//! What was changed to make a value fit, so that normalization never acts in silence.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Issue, JsonPointer};

/// One change that was made to a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Repair {
    /// JSON Pointer to the changed place.
    pub path: JsonPointer,
    /// What kind of change it was.
    pub action: RepairAction,
    /// The value before, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Value>,
    /// The value after, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Value>,
}

/// The closed set of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RepairAction {
    /// A missing property got the default of its schema.
    Defaulted,
    /// A value was written in another type without losing its meaning.
    Converted,
    /// A property that no schema names was removed.
    Stripped,
    /// A missing value was made up.
    Invented,
    /// A present value was lost to another.
    Replaced,
}

impl RepairAction {
    /// Whether data was made up or lost, which deserves more than a debug line.
    pub fn is_warning(self) -> bool {
        matches!(self, Self::Invented | Self::Replaced)
    }
}

/// What happens to properties that no schema names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Extras {
    /// They are removed, each with a repair.
    #[default]
    Strip,
    /// They stay.
    Keep,
}

/// What a normalization did, and what it could not do.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Normalized {
    /// Every difference between what came in and what is there now.
    pub repairs: Vec<Repair>,
    /// What still does not fit.
    pub issues: Vec<Issue>,
}
