//! Validation of `[telemetry]`.

use super::super::document::TomlDocument;
use super::super::file::TelemetryText;
use crate::telemetry::{TelemetrySettings, otlp_address};

pub(super) fn telemetry(document: &TomlDocument<'_>, mut text: TelemetryText) -> TelemetrySettings {
    if !(0.0..=1.0).contains(&text.sample) {
        document.report(&["telemetry", "sample"], "a share is a number from 0 to 1");
    }
    let otlp = text.otlp.take();
    let mut settings = text.settings();
    match otlp.as_deref().map(otlp_address) {
        Some(Ok(address)) => settings.otlp = Some(address),
        Some(Err(message)) => document.report(&["telemetry", "otlp"], message),
        None => {}
    }
    settings
}
