//! How much a line of a log matters.

use std::sync::atomic::{AtomicU8, Ordering};

/// The names, from the least important on.
const NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One of the eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LogLevel(u8);

/// The least important lines that a client of before 2026-07-28 wants to hear.
#[derive(Debug)]
pub(super) struct SessionLogLevel(AtomicU8);

impl LogLevel {
    /// What a person who follows a call wants to know.
    pub(super) const INFO: Self = Self(1);

    /// The level of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        let position = NAMES.iter().position(|candidate| *candidate == name)?;
        u8::try_from(position).ok().map(Self)
    }

    /// What is there to choose from.
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

/// Whoever does not say hears everything but the details.
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
