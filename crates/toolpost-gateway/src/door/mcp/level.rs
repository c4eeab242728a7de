//! How much a line of a log matters.

use std::sync::atomic::{AtomicU8, Ordering};

/// The names, from the least important on.
const NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// One of the eight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(u8);

/// The least important lines that a client of before 2026-07-28 wants to hear.
#[derive(Debug)]
pub(super) struct Asked(AtomicU8);

impl Level {
    /// What a person who follows a call wants to know.
    pub(super) const INFO: Self = Self(1);

    /// The level of that name.
    pub(super) fn of(name: &str) -> Option<Self> {
        let position = NAMES.iter().position(|known| *known == name)?;
        u8::try_from(position).ok().map(Self)
    }

    /// What is there to choose from.
    pub(super) fn names() -> String {
        NAMES.join(", ")
    }
}

impl Asked {
    pub(super) fn get(&self) -> Level {
        Level(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn set(&self, level: Level) {
        self.0.store(level.0, Ordering::Relaxed);
    }
}

/// Whoever does not say hears everything but the details.
impl Default for Asked {
    fn default() -> Self {
        Self(AtomicU8::new(Level::INFO.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered() {
        assert_eq!(Level::of("info"), Some(Asked::default().get()));
        assert!(Level::of("warning") > Level::of("notice"));
        assert_eq!(Level::of("loud"), None);
    }
}
