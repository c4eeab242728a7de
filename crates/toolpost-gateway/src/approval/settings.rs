//! What holds for calls that wait.

use std::time::Duration;

use crate::config::Glob;

/// Which calls wait beside those of operations that ask for it themselves, for how long, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalSettings {
    /// Patterns over operation ids.
    pub operations: Vec<Glob>,
    /// How long a call waits for a decision.
    pub expires: Duration,
    /// How many calls may wait; more are refused as `OVERLOADED`.
    pub max_pending: usize,
    /// How many calls of one caller may wait.
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

/// Namespaces that no pattern is about: `hub.call` asks for what it calls, and whoever had to be
/// allowed to allow would wait for himself.
const EXEMPT_NAMESPACES: [&str; 2] = ["gateway", "hub"];

impl ApprovalSettings {
    /// Whether a pattern says that calls of the operation wait.
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
