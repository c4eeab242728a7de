//! Metrics of configuration reloads.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use toolpost::epoch_ms;

use super::Exposition;

/// Result and time of the last configuration load. The first one is at startup.
#[derive(Debug)]
pub(super) struct ConfigMetrics {
    was_rejected: AtomicBool,
    reloaded_at_ms: AtomicI64,
}

impl Default for ConfigMetrics {
    fn default() -> Self {
        Self { was_rejected: AtomicBool::new(false), reloaded_at_ms: AtomicI64::new(epoch_ms()) }
    }
}

impl ConfigMetrics {
    pub(super) fn record(&self, is_successful: bool) {
        self.was_rejected.store(!is_successful, Ordering::Relaxed);
        self.reloaded_at_ms.store(epoch_ms(), Ordering::Relaxed);
    }

    pub(super) fn write(&self, exposition: &mut Exposition) {
        let name = "toolpost_config_last_reload_successful";
        exposition.gauge(name, "Whether the last reload of the configuration succeeded.");
        exposition.sample(name, &[], u8::from(!self.was_rejected.load(Ordering::Relaxed)));
        let name = "toolpost_config_last_reload_timestamp_seconds";
        exposition.gauge(name, "When the configuration was last reloaded.");
        exposition.sample(name, &[], self.reloaded_at_ms.load(Ordering::Relaxed) / 1_000);
    }
}
