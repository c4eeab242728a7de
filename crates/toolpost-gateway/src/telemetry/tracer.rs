//! Creates spans for calls.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use serde_json::{Map, Value};
use toolpost::hub::RESERVED_NAMES;
use toolpost::{
    AuditOutcome, CallSpan, CallTimes, CallView, Endpoint, Operation, TraceContext, since_epoch,
};

use super::export::{Exporter, SpanKind, SpanRecord};
use super::settings::TelemetrySettings;

/// Creates spans and passes them to the exporter.
pub(super) struct Tracer {
    pub(super) exporter: Exporter,
    /// Fraction of new traces that are sampled, by the low half of their ids.
    sample_ratio: f64,
}

impl Tracer {
    pub(super) fn start(settings: &TelemetrySettings) -> Result<Self, String> {
        let exporter = Exporter::start(settings)?;
        Ok(Self { exporter, sample_ratio: settings.sample.clamp(0.0, 1.0) })
    }

    /// Creates the span of a call; `None` if the incoming trace is not sampled.
    pub(super) fn span(
        &self,
        metadata: Option<&Map<String, Value>>,
        operation: Option<&Operation>,
    ) -> Option<Box<CallSpan>> {
        let above = metadata.and_then(TraceContext::from_metadata);
        if above.is_some_and(|above| !above.is_sampled()) {
            return None;
        }
        let span_id = random_id();
        let call = above.map_or_else(|| self.new_trace(span_id), |above| above.with_span(span_id));
        let is_elsewhere =
            operation.is_some_and(|known| !RESERVED_NAMES.contains(&known.id().namespace()));
        let dispatch = is_elsewhere.then(random_id);
        Some(Box::new(CallSpan::new(call, above.map(|above| above.span_id), dispatch)))
    }

    fn new_trace(&self, span_id: u64) -> TraceContext {
        let (high, low) = (random_id(), random_id());
        let trace_id = u128::from(high) << 64 | u128::from(low);
        #[expect(clippy::cast_precision_loss, reason = "a ratio needs no more digits")]
        let share = low as f64 / u64::MAX as f64;
        TraceContext { trace_id, span_id, flags: u8::from(share < self.sample_ratio) }
    }

    pub(super) fn record(
        &self,
        call: &CallView<'_>,
        span: &CallSpan,
        audit_outcome: &AuditOutcome<'_>,
        times: CallTimes,
    ) {
        if !span.call.is_sampled() {
            return;
        }
        let end = since_epoch();
        let outcome = super::outcome(audit_outcome);
        let source = call.operation.map_or("", |operation| operation.id().namespace());
        let kind = match call.depth() {
            0 if call.endpoint != Endpoint::Local => SpanKind::Server,
            _ => SpanKind::Internal,
        };
        let record = |span_id: u64, parent: Option<u64>, kind, took: Duration| SpanRecord {
            trace_id: span.call.trace_id,
            span_id,
            parent,
            kind,
            operation: call.operation_id.into(),
            source: source.into(),
            endpoint: call.endpoint,
            request_id: call.request_id.clone(),
            identity: call.identity.map(|identity| (*identity.key()).into()),
            outcome: outcome.into(),
            start: end.saturating_sub(took),
            end,
        };
        self.exporter.enqueue(record(span.call.span_id, span.parent, kind, times.total));
        if let (Some(id), Some(took)) = (span.dispatch, times.handler) {
            self.exporter.enqueue(record(id, Some(span.call.span_id), SpanKind::Client, took));
        }
    }
}

/// Returns a random id for a trace or span, which is never zero and not secret.
fn random_id() -> u64 {
    RandomState::new().build_hasher().finish().max(1)
}
