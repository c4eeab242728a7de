//! What can be seen from outside: numbers for Prometheus, and the spans of a trace for OpenTelemetry.
//!
//! Every call goes by here twice, so both are a few atomic numbers; spans are only made where
//! somebody takes them. Neither knows what a call carries.

mod export;
mod metrics;
mod page;
mod process;
mod reloads;
mod settings;
mod tracer;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use toolpost::{CallSpan, CallView, Ending, Observer, Operation, Times};

pub use settings::TelemetrySettings;
pub(crate) use settings::otlp_address;

use metrics::Metrics;
use reloads::Reloads;
use tracer::Tracer;

pub(crate) use page::{Page, Standing, State};

/// Watches the calls of a pipeline. Cloning it shares everything.
#[derive(Clone)]
pub struct Sight(Arc<Parts>);

struct Parts {
    metrics: Metrics,
    tracer: Option<Tracer>,
    reloads: Reloads,
}

impl Sight {
    /// Counts calls, and records their spans where the settings say who takes them. In that case it
    /// needs a tokio runtime, in which it owns a task.
    ///
    /// # Errors
    ///
    /// The address for spans cannot be used; the words say why.
    pub fn new(settings: &TelemetrySettings) -> Result<Self, String> {
        let tracer = settings.otlp.as_ref().map(|_| Tracer::start(settings)).transpose()?;
        let (metrics, reloads) = (Metrics::new(settings.per_operation), Reloads::default());
        Ok(Self(Arc::new(Parts { metrics, tracer, reloads })))
    }

    /// Who is told of every call.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.0) as _
    }

    /// Sends what was recorded and is still here, for so long at most.
    pub async fn close(&self, patience: Duration) {
        if let Some(tracer) = &self.0.tracer {
            tracer.close(patience).await;
        }
    }

    /// The configuration was read, and holds or was refused.
    pub(crate) fn note_reload(&self, is_successful: bool) {
        self.0.reloads.note(is_successful);
    }

    pub(crate) fn write(&self, page: &mut Page) {
        self.0.metrics.write(page);
        self.0.reloads.write(page);
        if let Some(tracer) = &self.0.tracer {
            tracer.write(page);
        }
    }
}

impl Default for Sight {
    fn default() -> Self {
        let (metrics, reloads) = (Metrics::new(false), Reloads::default());
        Self(Arc::new(Parts { metrics, tracer: None, reloads }))
    }
}

impl std::fmt::Debug for Sight {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sight").field("traces", &self.0.tracer.is_some()).finish_non_exhaustive()
    }
}

impl Observer for Parts {
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

    fn end(&self, call: &CallView<'_>, ending: &Ending<'_>, times: Times) {
        self.metrics.end(call, ending, times);
        if let (Some(tracer), Some(span)) = (&self.tracer, call.span) {
            tracer.record(call, span, ending, times);
        }
    }
}

/// How a call ended, in one word: `ok`, `isError` for a tool that reports a failure, else the code.
fn outcome<'a>(ending: &Ending<'a>) -> &'a str {
    match ending {
        Ending::Answered(outcome) if outcome.envelope.is_error() => "isError",
        Ending::Failed(error) => error.code().as_str(),
        _ => "ok",
    }
}
