//! Whether the configuration that lies there is the one that holds.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use toolpost::epoch_ms;

use super::Page;

/// What came of the last reading of the configuration. The first was at the start.
#[derive(Debug)]
pub(super) struct Reloads {
    was_refused: AtomicBool,
    at_ms: AtomicI64,
}

impl Default for Reloads {
    fn default() -> Self {
        Self { was_refused: AtomicBool::new(false), at_ms: AtomicI64::new(epoch_ms()) }
    }
}

impl Reloads {
    pub(super) fn note(&self, is_successful: bool) {
        self.was_refused.store(!is_successful, Ordering::Relaxed);
        self.at_ms.store(epoch_ms(), Ordering::Relaxed);
    }

    pub(super) fn write(&self, page: &mut Page) {
        let name = "toolpost_config_last_reload_successful";
        page.gauge(name, "Whether the configuration that was read last holds.");
        page.value(name, &[], u8::from(!self.was_refused.load(Ordering::Relaxed)));
        let name = "toolpost_config_last_reload_timestamp_seconds";
        page.gauge(name, "When the configuration was read last.");
        page.value(name, &[], self.at_ms.load(Ordering::Relaxed) / 1_000);
    }
}
