//! Call metrics, per source and operation kind, and optionally per operation.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use toolpost::{AuditOutcome, CallTimes, CallView, ErrorCode, OperationKind};

use super::exposition::Exposition;
use crate::limits::ConcurrentMap;

/// Upper bounds of the histogram buckets, in microseconds. The last bucket is unbounded.
const BUCKETS: [u64; 16] = [
    100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// Values of the `outcome` label. Declared error codes share one value, since operations can
/// declare any number of them.
const OUTCOMES: [&str; 13] = [
    "ok",
    "isError",
    "OPERATION_NOT_FOUND",
    "ACCESS_DENIED",
    "VALIDATION_ERROR",
    "TIMEOUT",
    "ABORTED",
    "EXECUTION_ERROR",
    "UNKNOWN_ERROR",
    "OUTPUT_VALIDATION_FAILED",
    "UNAVAILABLE",
    "OVERLOADED",
    "DECLARED",
];

/// The limits that reject calls, by the names of their settings.
const LIMITS: [&str; 10] = [
    "breaker",
    "caller_calls",
    "caller_subscriptions",
    "calls",
    "calls_per_minute",
    "exclusive_queue",
    "nesting",
    "queue_wait",
    "source_calls",
    "source_queue",
];

const KINDS: [OperationKind; 3] =
    [OperationKind::Query, OperationKind::Mutation, OperationKind::Subscription];

/// Source label of calls to unknown operations.
const NO_SOURCE: &str = "(none)";

pub(super) struct Metrics {
    sources: ConcurrentMap<SourceMetrics>,
    operations: Option<ConcurrentMap<CallMetrics>>,
    rejections: [AtomicU64; LIMITS.len()],
}

#[derive(Default)]
struct SourceMetrics {
    in_flight: AtomicI64,
    kinds: [CallMetrics; KINDS.len()],
}

#[derive(Default)]
struct CallMetrics {
    outcomes: [AtomicU64; OUTCOMES.len()],
    buckets: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
}

impl CallMetrics {
    fn record(&self, outcome: usize, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|end| *end < took);
        self.outcomes[outcome].fetch_add(1, Ordering::Relaxed);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(took, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(super) fn new(per_operation: bool) -> Self {
        let (sources, rejections) = Default::default();
        Self { sources, operations: per_operation.then(ConcurrentMap::default), rejections }
    }

    pub(super) fn begin(&self, call: &CallView<'_>) {
        let source = self.sources.get_or_insert(source_of(call), SourceMetrics::default);
        source.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(
        &self,
        call: &CallView<'_>,
        audit_outcome: &AuditOutcome<'_>,
        times: CallTimes,
    ) {
        let source = self.sources.get_or_insert(source_of(call), SourceMetrics::default);
        source.in_flight.fetch_sub(1, Ordering::Relaxed);
        let outcome = outcome_index(audit_outcome);
        source.kinds[kind_index(call)].record(outcome, times.total);
        if let AuditOutcome::Failed(error) = audit_outcome
            && let Some(limit) = error.local_limit()
            && let Ok(limit) = LIMITS.binary_search(&limit)
        {
            self.rejections[limit].fetch_add(1, Ordering::Relaxed);
        }
        if let (Some(operations), Some(operation)) = (&self.operations, call.operation) {
            let counted = operations.get_or_insert(operation.id().as_str(), CallMetrics::default);
            counted.record(outcome, times.total);
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition) {
        let sources = self.sources.all();
        let counted = || {
            let sources = sources.iter();
            sources.flat_map(|(name, source)| {
                let kinds = KINDS.iter().zip(&source.kinds);
                kinds.map(move |(kind, counted)| {
                    ([("source", &**name), ("kind", kind.as_str())], counted)
                })
            })
        };
        exposition.counter("toolpost_calls_total", "Calls that have ended, by outcome.");
        for (labels, counted) in counted() {
            write_outcomes(exposition, "toolpost_calls_total", labels, counted);
        }
        let name = "toolpost_call_duration_seconds";
        exposition.histogram(name, "How long calls took, from request to response.");
        for (labels, counted) in counted() {
            write_histogram(exposition, name, &labels, counted);
        }
        exposition
            .gauge("toolpost_calls_in_flight", "Calls and subscriptions that have not ended.");
        for (name, source) in &*sources {
            let number = source.in_flight.load(Ordering::Relaxed).max(0);
            exposition.sample("toolpost_calls_in_flight", &[("source", name)], number);
        }
        exposition
            .counter("toolpost_rejections_total", "Calls rejected by a limit, by its setting.");
        for (limit, rejection) in LIMITS.iter().zip(&self.rejections) {
            let number = rejection.load(Ordering::Relaxed);
            exposition.sample("toolpost_rejections_total", &[("limit", limit)], number);
        }
        if let Some(operations) = &self.operations {
            write_operations(exposition, operations);
        }
    }
}

fn write_operations(exposition: &mut Exposition, operations: &ConcurrentMap<CallMetrics>) {
    let operations = operations.all();
    let name = "toolpost_operation_calls_total";
    exposition.counter(name, "Calls of each operation that have ended, by outcome.");
    for (id, metrics) in &*operations {
        write_outcomes(exposition, name, [("operation", id)], metrics);
    }
    let name = "toolpost_operation_duration_seconds";
    exposition.histogram(name, "How long calls of each operation took.");
    for (id, metrics) in &*operations {
        write_histogram(exposition, name, &[("operation", id)], metrics);
    }
}

fn write_outcomes<const N: usize>(
    exposition: &mut Exposition,
    name: &str,
    labels: [(&str, &str); N],
    metrics: &CallMetrics,
) {
    for (outcome, number) in OUTCOMES.iter().zip(&metrics.outcomes) {
        let number = number.load(Ordering::Relaxed);
        // Omit outcomes that never occurred.
        if number > 0 {
            let mut all = labels.to_vec();
            all.push(("outcome", outcome));
            exposition.sample(name, &all, number);
        }
    }
}

fn write_histogram(
    exposition: &mut Exposition,
    name: &str,
    labels: &[(&str, &str)],
    metrics: &CallMetrics,
) {
    let buckets = metrics.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
    if buckets.iter().all(|number| *number == 0) {
        return;
    }
    let ends = BUCKETS.iter().map(|end| seconds(*end)).chain(["+Inf".to_owned()]);
    let mut below = 0;
    for (end, number) in ends.zip(buckets) {
        below += number;
        let mut all = labels.to_vec();
        all.push(("le", &end));
        exposition.sample(&format!("{name}_bucket"), &all, below);
    }
    let sum = seconds(metrics.microseconds.load(Ordering::Relaxed));
    exposition.sample(&format!("{name}_sum"), labels, sum);
    exposition.sample(&format!("{name}_count"), labels, below);
}

fn seconds(microseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a sum of years is still exact to the second")]
    let seconds = microseconds as f64 / 1e6;
    seconds.to_string()
}

fn source_of<'a>(call: &CallView<'a>) -> &'a str {
    call.operation.map_or(NO_SOURCE, |operation| operation.id().namespace())
}

fn kind_index(call: &CallView<'_>) -> usize {
    match call.operation.map(|operation| operation.spec().kind) {
        Some(OperationKind::Mutation) => 1,
        Some(OperationKind::Subscription) => 2,
        _ => 0,
    }
}

fn outcome_index(audit_outcome: &AuditOutcome<'_>) -> usize {
    match audit_outcome {
        AuditOutcome::Failed(error) if matches!(error.code(), ErrorCode::Domain(_)) => {
            OUTCOMES.len() - 1
        }
        _ => {
            let outcome = super::outcome(audit_outcome);
            OUTCOMES.iter().position(|known| *known == outcome).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_an_outcome_label() {
        for code in ErrorCode::INFRASTRUCTURE {
            assert!(OUTCOMES.contains(&code.as_str()), "{code}");
        }
        assert!(LIMITS.is_sorted() && BUCKETS.is_sorted());
    }

    #[test]
    fn durations_are_counted_in_their_bucket() {
        for (micros, bucket) in
            [(0, 0), (100, 0), (101, 1), (1_000, 2), (60_000_000, 15), (60_000_001, 16)]
        {
            let counted = CallMetrics::default();
            counted.record(0, Duration::from_micros(micros));
            assert_eq!(counted.buckets[bucket].load(Ordering::Relaxed), 1, "{micros}");
        }
    }
}
