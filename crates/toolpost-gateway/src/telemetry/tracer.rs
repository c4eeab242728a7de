//! Creates spans for calls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use toolpost::hub::RESERVED_NAMES;
use toolpost::{
    AuditOutcome, CallSpan, CallTimes, CallView, Endpoint, Operation, TraceContext, since_epoch,
};

use super::export::{Exporter, SpanKind, SpanRecord};
use super::exposition::Exposition;
use super::settings::TelemetrySettings;

/// Creates spans and passes them to the exporter.
pub(super) struct Tracer {
    exporter: Exporter,
    ids: IdGenerator,
    /// A trace that starts here is sampled if the low half of its id, as a fraction, is below this
    /// value.
    sample_ratio: f64,
}

impl Tracer {
    pub(super) fn start(settings: &TelemetrySettings) -> Result<Self, String> {
        let exporter = Exporter::start(settings)?;
        let sampled_below = settings.sample.clamp(0.0, 1.0);
        Ok(Self { exporter, ids: IdGenerator::new()?, sample_ratio: sampled_below })
    }

    /// Creates the span of a call. `None` if the incoming trace is not sampled; it is passed on
    /// unchanged.
    pub(super) fn span(
        &self,
        metadata: Option<&Map<String, Value>>,
        operation: Option<&Operation>,
    ) -> Option<Box<CallSpan>> {
        let above = metadata.and_then(TraceContext::from_metadata);
        if above.is_some_and(|above| !above.is_sampled()) {
            return None;
        }
        let span_id = self.ids.next();
        let call = above.map_or_else(|| self.new_trace(span_id), |above| above.with_span(span_id));
        let is_elsewhere =
            operation.is_some_and(|known| !RESERVED_NAMES.contains(&known.id().namespace()));
        let dispatch = is_elsewhere.then(|| self.ids.next());
        Some(Box::new(CallSpan::new(call, above.map(|above| above.span_id), dispatch)))
    }

    fn new_trace(&self, span_id: u64) -> TraceContext {
        let (high, low) = (self.ids.next(), self.ids.next());
        let trace_id = u128::from(high) << 64 | u128::from(low);
        #[expect(clippy::cast_precision_loss, reason = "a share needs no more digits")]
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
            identity: call.identity.map(|identity| identity.id.as_str().into()),
            outcome: outcome.into(),
            is_failure: outcome != "ok",
            start: end.saturating_sub(took),
            end,
        };
        self.exporter.enqueue(record(span.call.span_id, span.parent, kind, times.total));
        if let (Some(id), Some(took)) = (span.dispatch, times.handler) {
            self.exporter.enqueue(record(id, Some(span.call.span_id), SpanKind::Client, took));
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition) {
        self.exporter.write(exposition);
    }

    pub(super) async fn close(&self, timeout: Duration) {
        self.exporter.close(timeout).await;
    }
}

/// Generates unique ids for traces and spans. They are not secret.
struct IdGenerator {
    seed: u64,
    count: AtomicU64,
}

impl IdGenerator {
    fn new() -> Result<Self, String> {
        let seed = getrandom::u64().map_err(|error| format!("no randomness: {error}"))?;
        Ok(Self { seed, count: AtomicU64::new(0) })
    }

    /// Returns the next id, which is never zero. SplitMix64 maps different counts to different ids.
    fn next(&self) -> u64 {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = self.seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        id = (id ^ id >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        id = (id ^ id >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (id ^ id >> 31).max(1)
    }
}
