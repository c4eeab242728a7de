//! Log levels of MCP.

use std::sync::atomic::{AtomicU8, Ordering};

/// Names of the levels, in order of increasing severity.
const NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A log level: an index into `NAMES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogLevel(u8);

/// Minimum log level of a client before 2026-07-28.
#[derive(Debug)]
pub(super) struct SessionLogLevel(AtomicU8);

impl LogLevel {
    /// The level `info`.
    pub(super) const INFO: Self = Self(1);

    /// Returns the level with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let position = NAMES.iter().position(|candidate| *candidate == name)?;
        u8::try_from(position).ok().map(Self)
    }

    /// Returns the names of all levels, separated by commas.
    pub(super) fn names() -> String {
        NAMES.join(", ")
    }
}

impl SessionLogLevel {
    pub(super) fn get(&self) -> LogLevel {
        LogLevel(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, level: LogLevel) {
        self.0.store(level.0, Ordering::Relaxed);
    }
}

/// The default is `info`.
impl Default for SessionLogLevel {
    fn default() -> Self {
        Self(AtomicU8::new(LogLevel::INFO.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_are_ordered_by_severity() {
        assert_eq!(LogLevel::from_name("info"), Some(SessionLogLevel::default().get()));
        assert!(LogLevel::from_name("warning") > LogLevel::from_name("notice"));
        assert_eq!(LogLevel::from_name("loud"), None);
    }
}
