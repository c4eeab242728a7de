//! Settings for calls that require approval.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::glob::Glob;
use crate::units::{Count, PositiveDuration};

/// Which calls require approval, in addition to operations that declare it, and the limits for
/// pending calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    deny_unknown_fields,
    default,
    expecting = "a table such as { operations = [\"files.write*\"] }"
)]
#[schemars(rename = "Approval")]
#[non_exhaustive]
pub struct ApprovalSettings {
    /// Patterns of operation ids that require approval; `*` is any run of characters. They do not
    /// apply to the namespaces `gateway` and `hub`.
    pub operations: Vec<Glob>,
    /// Time after which a pending call expires.
    #[serde(with = "PositiveDuration")]
    pub expires: Duration,
    /// Maximum number of pending calls. Further calls are rejected with `OVERLOADED`.
    #[serde(with = "Count")]
    pub max_pending: usize,
    /// Maximum number of pending calls per caller.
    #[serde(with = "Count")]
    pub max_pending_per_caller: usize,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        Self {
            operations: Vec::new(),
            expires: Duration::from_secs(600),
            max_pending: 100,
            max_pending_per_caller: 10,
        }
    }
}

/// Namespaces that patterns do not apply to. `hub.call` is subject to the approval of its target,
/// and `gateway.approve` must not itself require approval.
const EXEMPT_NAMESPACES: [&str; 2] = ["gateway", "hub"];

impl ApprovalSettings {
    /// Whether a pattern requires approval for the operation.
    pub fn requires_approval(&self, id: &str) -> bool {
        let namespace = id.split_once('.').map_or(id, |(namespace, _)| namespace);
        !EXEMPT_NAMESPACES.contains(&namespace)
            && self.operations.iter().any(|glob| glob.matches(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_full_ids_and_exempt_builtin_namespaces() {
        let settings = |patterns: &[&str]| ApprovalSettings {
            operations: patterns.iter().map(|text| Glob::new(*text)).collect(),
            ..ApprovalSettings::default()
        };
        for (patterns, id, expected) in [
            (&[][..], "files.write", false),
            (&["files.write"], "files.write", true),
            (&["files.write"], "files.write_all", false),
            (&["files.*"], "files.write", true),
            (&["*.delete"], "files.delete", true),
            (&["a.b", "files.*"], "files.delete", true),
            (&["*"], "files.delete", true),
            (&["*"], "hub.call", false),
            (&["*"], "gateway.approve", false),
            (&["gateway.approve"], "gateway.approve", false),
        ] {
            assert_eq!(settings(patterns).requires_approval(id), expected, "{patterns:?} {id}");
        }
    }
}
