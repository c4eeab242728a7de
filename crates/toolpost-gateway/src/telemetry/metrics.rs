//! Call metrics, per source and operation kind, and optionally per operation.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use toolpost::{AuditOutcome, CallTimes, CallView, ErrorCode, Limit, OperationKind};

use super::exposition::{Exposition, Label, MetricFamily};
use crate::limits::ConcurrentMap;

/// Upper bounds of the histogram buckets, in microseconds. The last bucket is unbounded.
const BUCKETS: [u64; 16] = [
    100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// Number of values of the `outcome` label: success, a tool that reports a failure, each error code,
/// and one for all declared codes, since operations can declare any number of them.
const OUTCOMES: usize = ErrorCode::INFRASTRUCTURE.len() + 3;

const KINDS: [OperationKind; 3] =
    [OperationKind::Query, OperationKind::Mutation, OperationKind::Subscription];

/// Source label of calls to unknown operations.
const NO_SOURCE: &str = "(none)";

pub(super) struct Metrics {
    sources: ConcurrentMap<SourceMetrics>,
    operations: Option<ConcurrentMap<CallMetrics>>,
    rejections: [AtomicU64; Limit::ALL.len()],
}

#[derive(Default)]
struct SourceMetrics {
    in_flight: AtomicI64,
    kinds: [CallMetrics; KINDS.len()],
}

#[derive(Default)]
struct CallMetrics {
    outcomes: [AtomicU64; OUTCOMES],
    warnings: AtomicU64,
    buckets: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
}

impl CallMetrics {
    fn record(&self, outcome: usize, warnings: u64, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|end| *end < took);
        self.outcomes[outcome].fetch_add(1, Ordering::Relaxed);
        if warnings > 0 {
            self.warnings.fetch_add(warnings, Ordering::Relaxed);
        }
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
        let (outcome, warnings) = (outcome_index(audit_outcome), audit_outcome.warnings());
        source.kinds[kind_index(call)].record(outcome, warnings, times.total);
        if let AuditOutcome::Failed(error) = audit_outcome
            && let Some(limit) = error.local_limit()
        {
            self.rejections[limit as usize].fetch_add(1, Ordering::Relaxed);
        }
        if let (Some(operations), Some(operation)) = (&self.operations, call.operation) {
            let counted = operations.get_or_insert(operation.id().as_str(), CallMetrics::default);
            counted.record(outcome, warnings, times.total);
        }
    }

    pub(super) fn write(&self, exposition: &mut Exposition) {
        let sources = self.sources.all();
        let by_kind = sources.iter().flat_map(|(name, source)| {
            let kinds = KINDS.iter().zip(&source.kinds);
            kinds.map(|(kind, calls)| (vec![("source", &**name), ("kind", kind.as_str())], calls))
        });
        let totals = ("toolpost_calls_total", "Completed calls by outcome.");
        let help = "Call duration from request to response, in seconds.";
        let durations = ("toolpost_call_duration_seconds", help);
        let by_kind: Vec<_> = by_kind.collect();
        write_calls(exposition, totals, durations, &by_kind);
        let help = "Mismatches between results and output schemas.";
        let mut warnings = exposition.counter("toolpost_call_warnings_total", help);
        for (labels, calls) in &by_kind {
            let number = calls.warnings.load(Ordering::Relaxed);
            if number > 0 {
                warnings.sample(labels, number);
            }
        }
        let help = "Running calls and subscriptions.";
        let mut in_flight = exposition.gauge("toolpost_calls_in_flight", help);
        for (name, source) in &*sources {
            let number = source.in_flight.load(Ordering::Relaxed).max(0);
            in_flight.sample(&[("source", name)], number);
        }
        let help = "Calls rejected by a limit, by limit.";
        let mut rejections = exposition.counter("toolpost_rejections_total", help);
        for (limit, number) in Limit::ALL.iter().zip(&self.rejections) {
            rejections.sample(&[("limit", limit.as_str())], number.load(Ordering::Relaxed));
        }
        if let Some(operations) = &self.operations {
            let operations = operations.all();
            let each = operations.iter().map(|(id, calls)| (vec![("operation", &**id)], &**calls));
            let help = "Completed calls by operation and outcome.";
            let totals = ("toolpost_operation_calls_total", help);
            let help = "Call duration by operation, in seconds.";
            let durations = ("toolpost_operation_duration_seconds", help);
            write_calls(exposition, totals, durations, &each.collect::<Vec<_>>());
        }
    }
}

/// Writes a counter by outcome and a histogram of durations, with the labels of each entry.
fn write_calls(
    exposition: &mut Exposition,
    totals: (&'static str, &str),
    durations: (&'static str, &str),
    parts: &[(Vec<Label<'_>>, &CallMetrics)],
) {
    let mut family = exposition.counter(totals.0, totals.1);
    for (labels, calls) in parts {
        for (index, number) in calls.outcomes.iter().enumerate() {
            let number = number.load(Ordering::Relaxed);
            // Omits outcomes that never occurred.
            if number > 0 {
                family.sample(&[labels, &[("outcome", outcome_label(index))][..]].concat(), number);
            }
        }
    }
    let mut family = exposition.family(durations.0, "histogram", durations.1);
    for (labels, calls) in parts {
        write_histogram(&mut family, labels, calls);
    }
}

fn write_histogram(family: &mut MetricFamily<'_>, labels: &[Label<'_>], metrics: &CallMetrics) {
    let buckets = metrics.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
    if buckets.iter().all(|number| *number == 0) {
        return;
    }
    let ends = BUCKETS.iter().map(|end| seconds(*end)).chain(["+Inf".to_owned()]);
    let mut below = 0;
    for (end, number) in ends.zip(buckets) {
        below += number;
        family.part("_bucket", &[labels, &[("le", &*end)]].concat(), below);
    }
    family.part("_sum", labels, seconds(metrics.microseconds.load(Ordering::Relaxed)));
    family.part("_count", labels, below);
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
    let kind = call.operation.map(|operation| operation.spec().kind);
    KINDS.iter().position(|known| Some(*known) == kind).unwrap_or_default()
}

fn outcome_index(audit_outcome: &AuditOutcome<'_>) -> usize {
    match audit_outcome {
        AuditOutcome::Succeeded(outcome) if outcome.envelope.is_error() => 1,
        AuditOutcome::Failed(error) => {
            let code = ErrorCode::INFRASTRUCTURE.iter().position(|code| code == error.code());
            code.map_or(OUTCOMES - 1, |index| index + 2)
        }
        _ => 0,
    }
}

fn outcome_label(index: usize) -> &'static str {
    match index {
        0 => "ok",
        1 => "isError",
        _ => ErrorCode::INFRASTRUCTURE.get(index - 2).map_or("DECLARED", ErrorCode::as_str),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_code_has_an_outcome_label() {
        for code in ErrorCode::INFRASTRUCTURE {
            let error = toolpost::CallError::new(code.clone(), "");
            let index = outcome_index(&AuditOutcome::Failed(&error));
            assert_eq!(outcome_label(index), code.as_str());
        }
        assert_eq!((outcome_label(0), outcome_label(OUTCOMES - 1)), ("ok", "DECLARED"));
        assert!(BUCKETS.is_sorted());
        assert!(Limit::ALL.iter().enumerate().all(|(index, limit)| *limit as usize == index));
    }

    #[test]
    fn durations_are_counted_in_their_bucket() {
        for (micros, bucket) in
            [(0, 0), (100, 0), (101, 1), (1_000, 2), (60_000_000, 15), (60_000_001, 16)]
        {
            let counted = CallMetrics::default();
            counted.record(0, 0, Duration::from_micros(micros));
            assert_eq!(counted.buckets[bucket].load(Ordering::Relaxed), 1, "{micros}");
        }
    }
}
