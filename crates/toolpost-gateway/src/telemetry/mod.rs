//! What can be seen from outside: numbers for Prometheus, and the spans of a trace for OpenTelemetry.
//!
//! Every call goes by here twice, so both are a few atomic numbers; spans are only made where
//! somebody takes them. Neither knows what a call carries.

mod config_metrics;
mod export;
mod exposition;
mod metrics;
mod process;
mod settings;
mod tracer;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolpost::{AuditOutcome, CallSpan, CallTimes, CallView, Observer, Operation};

pub use settings::TelemetrySettings;
pub(crate) use settings::otlp_address;

use config_metrics::ConfigMetrics;
use metrics::Metrics;
use tracer::Tracer;

pub(crate) use exposition::{Exposition, GatewayGauges, SourceHealth};

/// Watches the calls of a pipeline. Cloning it shares everything.
#[derive(Clone)]
pub struct Telemetry(Arc<TelemetryInner>);

struct TelemetryInner {
    metrics: Metrics,
    tracer: Option<Tracer>,
    config: ConfigMetrics,
}

impl Telemetry {
    /// Counts calls, and records their spans where the settings say who takes them. In that case it
    /// needs a tokio runtime, in which it owns a task.
    ///
    /// # Errors
    ///
    /// The address for spans cannot be used; the words say why.
    pub fn new(settings: &TelemetrySettings) -> Result<Self, String> {
        let tracer = settings.otlp.as_ref().map(|_| Tracer::start(settings)).transpose()?;
        let (metrics, reloads) = (Metrics::new(settings.per_operation), ConfigMetrics::default());
        Ok(Self(Arc::new(TelemetryInner { metrics, tracer, config: reloads })))
    }

    /// Who is told of every call.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.0) as _
    }

    /// Sends what was recorded and is still here, for so long at most.
    pub async fn close(&self, timeout: Duration) {
        if let Some(tracer) = &self.0.tracer {
            tracer.close(timeout).await;
        }
    }

    /// The configuration was read, and holds or was refused.
    pub(crate) fn record_reload(&self, is_successful: bool) {
        self.0.config.record(is_successful);
    }

    pub(crate) fn write(&self, exposition: &mut Exposition) {
        self.0.metrics.write(exposition);
        self.0.config.write(exposition);
        if let Some(tracer) = &self.0.tracer {
            tracer.write(exposition);
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        let (metrics, reloads) = (Metrics::new(false), ConfigMetrics::default());
        Self(Arc::new(TelemetryInner { metrics, tracer: None, config: reloads }))
    }
}

impl std::fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Telemetry")
            .field("traces", &self.0.tracer.is_some())
            .finish_non_exhaustive()
    }
}

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

/// How a call ended, in one word: `ok`, `isError` for a tool that reports a failure, else the code.
fn outcome<'a>(audit_outcome: &AuditOutcome<'a>) -> &'a str {
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) if outcome.envelope.is_error() => "isError",
        AuditOutcome::Failed(error) => error.code().as_str(),
        _ => "ok",
    }
}
