//! Metrics for Prometheus and trace spans for OpenTelemetry.
//!
//! Each call is observed at its start and its end. Metrics are atomic counters, and spans are
//! created only if an exporter is configured. Neither contains the input or output of a call.

mod export;
mod exposition;
mod metrics;
mod process;
mod settings;
mod tracer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use toolpost::{AuditOutcome, CallSpan, CallTimes, CallView, Observer, Operation, epoch_ms};

pub use settings::TelemetrySettings;

use metrics::Metrics;
use tracer::Tracer;

pub(crate) use exposition::{Exposition, GatewayGauges, SourceHealth};

/// Collects metrics and spans for the calls of a pipeline. Clones share the same state.
#[derive(Clone)]
pub struct Telemetry(Arc<TelemetryInner>);

struct TelemetryInner {
    metrics: Metrics,
    tracer: Option<Tracer>,
    /// Whether the last reload of the configuration was rejected.
    was_reload_rejected: AtomicBool,
    /// Time of the last reload, or of the start.
    reloaded_at_ms: AtomicI64,
}

impl Telemetry {
    /// Counts calls, and records spans if an OTLP endpoint is configured. In that case it must be
    /// created in a Tokio runtime, where it spawns an async task.
    ///
    /// # Errors
    ///
    /// The OTLP settings are invalid; the message describes the problem.
    pub fn new(settings: &TelemetrySettings) -> Result<Self, String> {
        let tracer = settings.otlp.as_ref().map(|_| Tracer::start(settings)).transpose()?;
        Ok(Self::with_tracer(settings.per_operation, tracer))
    }

    fn with_tracer(per_operation: bool, tracer: Option<Tracer>) -> Self {
        Self(Arc::new(TelemetryInner {
            metrics: Metrics::new(per_operation),
            tracer,
            was_reload_rejected: AtomicBool::new(false),
            reloaded_at_ms: AtomicI64::new(epoch_ms()),
        }))
    }

    /// Returns the observer of all calls.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.0) as _
    }

    /// Sends the remaining spans, for at most `timeout`.
    pub async fn close(&self, timeout: Duration) {
        if let Some(tracer) = &self.0.tracer {
            tracer.exporter.close(timeout).await;
        }
    }

    /// Records a successful or rejected reload.
    pub(crate) fn record_reload(&self, is_successful: bool) {
        self.0.was_reload_rejected.store(!is_successful, Ordering::Relaxed);
        self.0.reloaded_at_ms.store(epoch_ms(), Ordering::Relaxed);
    }

    pub(crate) fn write(&self, exposition: &mut Exposition) {
        self.0.metrics.write(exposition);
        let help = "Whether the last configuration reload succeeded.";
        let was_rejected = self.0.was_reload_rejected.load(Ordering::Relaxed);
        exposition
            .gauge("toolpost_config_last_reload_successful", help)
            .sample(&[], u8::from(!was_rejected));
        let help = "Time of the last configuration reload, in seconds since 1970.";
        exposition
            .gauge("toolpost_config_last_reload_timestamp_seconds", help)
            .sample(&[], self.0.reloaded_at_ms.load(Ordering::Relaxed) / 1_000);
        if let Some(tracer) = &self.0.tracer {
            tracer.exporter.write(exposition);
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::with_tracer(false, None)
    }
}

toolpost::debug_fields!(telemetry: Telemetry, traces = telemetry.0.tracer.is_some());

impl Observer for TelemetryInner {
    fn span(
        &self,
        metadata: Option<&Map<String, Value>>,
        operation: Option<&Operation>,
    ) -> Option<Box<CallSpan>> {
        self.tracer.as_ref()?.span(metadata, operation)
    }

    fn begin(&self, call: &CallView<'_>) {
        self.metrics.begin(call);
    }

    fn end(&self, call: &CallView<'_>, audit_outcome: &AuditOutcome<'_>, times: CallTimes) {
        self.metrics.end(call, audit_outcome, times);
        if let (Some(tracer), Some(span)) = (&self.tracer, call.span) {
            tracer.record(call, span, audit_outcome, times);
        }
    }
}

/// Returns the outcome label: `ok`, `isError` for a tool failure, else the error code.
fn outcome<'a>(audit_outcome: &AuditOutcome<'a>) -> &'a str {
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) if outcome.envelope.is_error() => "isError",
        AuditOutcome::Failed(error) => error.code().as_str(),
        _ => "ok",
    }
}
