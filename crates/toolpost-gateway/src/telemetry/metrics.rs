//! The numbers of calls: per source and kind of operation, and per operation where that is wanted.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use toolpost::{CallView, Ending, ErrorCode, Kind, Times};

use super::page::Page;
use crate::limits::Named;

/// The upper ends of the buckets, in microseconds; the last bucket has none.
const BUCKETS: [u64; 16] = [
    100, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

/// What calls end with, as labels. Declared codes share one: operations may declare any number.
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

/// The limits that refuse calls, by the names of their settings.
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

const KINDS: [Kind; 3] = [Kind::Query, Kind::Mutation, Kind::Subscription];

/// Whose calls they are where there is no such operation.
const NOBODY: &str = "(none)";

pub(super) struct Metrics {
    sources: Named<Source>,
    operations: Option<Named<Counted>>,
    refusals: [AtomicU64; LIMITS.len()],
}

#[derive(Default)]
struct Source {
    in_flight: AtomicI64,
    kinds: [Counted; KINDS.len()],
}

#[derive(Default)]
struct Counted {
    outcomes: [AtomicU64; OUTCOMES.len()],
    buckets: [AtomicU64; BUCKETS.len() + 1],
    microseconds: AtomicU64,
}

impl Counted {
    fn count(&self, outcome: usize, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BUCKETS.partition_point(|end| *end < took);
        self.outcomes[outcome].fetch_add(1, Ordering::Relaxed);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.microseconds.fetch_add(took, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(super) fn new(per_operation: bool) -> Self {
        let (sources, refusals) = Default::default();
        Self { sources, operations: per_operation.then(Named::default), refusals }
    }

    pub(super) fn begin(&self, call: &CallView<'_>) {
        let source = self.sources.get_or_insert(source_of(call), Source::default);
        source.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn end(&self, call: &CallView<'_>, ending: &Ending<'_>, times: Times) {
        let source = self.sources.get_or_insert(source_of(call), Source::default);
        source.in_flight.fetch_sub(1, Ordering::Relaxed);
        let outcome = outcome_of(ending);
        source.kinds[kind_of(call)].count(outcome, times.total);
        if let Ending::Failed(error) = ending
            && let Some(limit) = error.own_limit()
            && let Ok(limit) = LIMITS.binary_search(&limit)
        {
            self.refusals[limit].fetch_add(1, Ordering::Relaxed);
        }
        if let (Some(operations), Some(operation)) = (&self.operations, call.operation) {
            let counted = operations.get_or_insert(operation.id().as_str(), Counted::default);
            counted.count(outcome, times.total);
        }
    }

    pub(super) fn write(&self, page: &mut Page) {
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
        page.counter("toolpost_calls_total", "Calls that have ended, by how they ended.");
        for (labels, counted) in counted() {
            write_outcomes(page, "toolpost_calls_total", labels, counted);
        }
        let name = "toolpost_call_duration_seconds";
        page.histogram(name, "How long calls took, from the door to the answer.");
        for (labels, counted) in counted() {
            write_histogram(page, name, &labels, counted);
        }
        page.gauge("toolpost_calls_in_flight", "Calls and subscriptions that have not ended.");
        for (name, source) in &*sources {
            let number = source.in_flight.load(Ordering::Relaxed).max(0);
            page.value("toolpost_calls_in_flight", &[("source", name)], number);
        }
        page.counter("toolpost_refusals_total", "Calls that a limit refused, by its setting.");
        for (limit, refused) in LIMITS.iter().zip(&self.refusals) {
            let number = refused.load(Ordering::Relaxed);
            page.value("toolpost_refusals_total", &[("limit", limit)], number);
        }
        if let Some(operations) = &self.operations {
            write_operations(page, operations);
        }
    }
}

fn write_operations(page: &mut Page, operations: &Named<Counted>) {
    let operations = operations.all();
    let name = "toolpost_operation_calls_total";
    page.counter(name, "Calls of each operation that have ended, by how they ended.");
    for (id, counted) in &*operations {
        write_outcomes(page, name, [("operation", id)], counted);
    }
    let name = "toolpost_operation_duration_seconds";
    page.histogram(name, "How long calls of each operation took.");
    for (id, counted) in &*operations {
        write_histogram(page, name, &[("operation", id)], counted);
    }
}

fn write_outcomes<const N: usize>(
    page: &mut Page,
    name: &str,
    labels: [(&str, &str); N],
    counted: &Counted,
) {
    for (outcome, number) in OUTCOMES.iter().zip(&counted.outcomes) {
        let number = number.load(Ordering::Relaxed);
        // Most never happen.
        if number > 0 {
            let mut all = labels.to_vec();
            all.push(("outcome", outcome));
            page.value(name, &all, number);
        }
    }
}

fn write_histogram(page: &mut Page, name: &str, labels: &[(&str, &str)], counted: &Counted) {
    let buckets = counted.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
    if buckets.iter().all(|number| *number == 0) {
        return;
    }
    let ends = BUCKETS.iter().map(|end| seconds(*end)).chain(["+Inf".to_owned()]);
    let mut below = 0;
    for (end, number) in ends.zip(buckets) {
        below += number;
        let mut all = labels.to_vec();
        all.push(("le", &end));
        page.value(&format!("{name}_bucket"), &all, below);
    }
    let sum = seconds(counted.microseconds.load(Ordering::Relaxed));
    page.value(&format!("{name}_sum"), labels, sum);
    page.value(&format!("{name}_count"), labels, below);
}

fn seconds(microseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "a sum of years is still exact to the second")]
    let seconds = microseconds as f64 / 1e6;
    seconds.to_string()
}

fn source_of<'a>(call: &CallView<'a>) -> &'a str {
    call.operation.map_or(NOBODY, |operation| operation.id().namespace())
}

fn kind_of(call: &CallView<'_>) -> usize {
    match call.operation.map(|operation| operation.spec().kind) {
        Some(Kind::Mutation) => 1,
        Some(Kind::Subscription) => 2,
        _ => 0,
    }
}

fn outcome_of(ending: &Ending<'_>) -> usize {
    match ending {
        Ending::Failed(error) if matches!(error.code(), ErrorCode::Domain(_)) => OUTCOMES.len() - 1,
        _ => {
            let outcome = super::outcome(ending);
            OUTCOMES.iter().position(|known| *known == outcome).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_and_every_limit_has_its_place() {
        for code in ErrorCode::INFRASTRUCTURE {
            assert!(OUTCOMES.contains(&code.as_str()), "{code}");
        }
        assert!(LIMITS.is_sorted() && BUCKETS.is_sorted());
    }

    #[test]
    fn durations_fall_into_their_buckets() {
        for (micros, bucket) in
            [(0, 0), (100, 0), (101, 1), (1_000, 2), (60_000_000, 15), (60_000_001, 16)]
        {
            let counted = Counted::default();
            counted.count(0, Duration::from_micros(micros));
            assert_eq!(counted.buckets[bucket].load(Ordering::Relaxed), 1, "{micros}");
        }
    }
}
