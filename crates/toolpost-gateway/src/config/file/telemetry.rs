//! `[telemetry]`: what is seen from outside.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::telemetry::TelemetrySettings;

/// What is seen from outside, beside the numbers at `/metrics`.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { otlp = \"http://…\" }")]
#[schemars(rename = "Telemetry")]
pub(in super::super) struct TelemetryText {
    /// The collector that spans are sent to as OTLP over HTTP, such as `http://127.0.0.1:4318`; the
    /// variable `OTEL_EXPORTER_OTLP_ENDPOINT` if absent. Without either traces only pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(in super::super) otlp: Option<String>,
    /// More headers for the collector, such as a key.
    headers: BTreeMap<String, String>,
    /// What this gateway is called there; the variable `OTEL_SERVICE_NAME` comes first.
    service: String,
    /// How many of the traces that begin here are recorded, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(in super::super) sample: f64,
    /// Whether `/metrics` counts calls for each operation too.
    per_operation: bool,
}

impl Default for TelemetryText {
    fn default() -> Self {
        let TelemetrySettings { service, sample, per_operation, .. } = TelemetrySettings::default();
        Self { otlp: None, headers: BTreeMap::new(), service, sample, per_operation }
    }
}

impl TelemetryText {
    /// Everything but the address, which has to be one.
    pub(in super::super) fn settings(self) -> TelemetrySettings {
        TelemetrySettings {
            headers: self.headers.into_iter().collect(),
            service: self.service,
            sample: self.sample,
            per_operation: self.per_operation,
            ..TelemetrySettings::default()
        }
    }
}

/// Without the headers.
impl fmt::Debug for TelemetryText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryText").finish_non_exhaustive()
    }
}
