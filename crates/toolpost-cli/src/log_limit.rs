//! Limits the number of log lines per source, so that no source can fill a disk or hide the lines of
//! others.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Number of lines that a source may log at once.
const BURST: f64 = 200.0;
/// Number of lines per second that a source may log continuously.
const LINES_PER_SECOND: f64 = 10.0;
/// Interval between two lines about dropped lines.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of sources that are distinguished. Further ones share one limit.
const MAX_SOURCES: usize = 4_096;
const OTHERS: &str = "(others)";
/// Target of the lines about dropped lines, which are not limited.
const REPORT_TARGET: &str = "toolpost::log_limit";

/// Fields that name the source of a line, best first. An operation names its namespace.
const SOURCE_FIELDS: [&str; 5] = ["source", "spoke", "hub", "operation", "host"];

/// A layer that drops the lines of a source beyond its limit. Lines of one statement count as one
/// source if they name none. Lines below the level `info` are not limited.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogLimit(Arc<Mutex<LimitState>>);

#[derive(Debug, Default)]
struct LimitState {
    sources: HashMap<String, LineBucket>,
    /// Whether a thread will report the dropped lines.
    is_reporting: bool,
}

#[derive(Debug)]
struct LineBucket {
    lines: f64,
    updated: Instant,
    dropped: u64,
}

impl LogLimit {
    /// Takes a line from the budget of a source. Returns false if it is used up.
    fn try_take(&self, source: &str, now: Instant) -> bool {
        let mut state = self.0.lock();
        let bucket = state.bucket(source, now);
        let refilled = (now - bucket.updated).as_secs_f64() * LINES_PER_SECOND;
        (bucket.lines, bucket.updated) = ((bucket.lines + refilled).min(BURST), now);
        if bucket.lines >= 1.0 {
            bucket.lines -= 1.0;
            return true;
        }
        bucket.dropped += 1;
        if !std::mem::replace(&mut state.is_reporting, true) {
            let limit = self.clone();
            // A line cannot be logged from within another one.
            std::thread::spawn(move || limit.report());
        }
        false
    }

    /// Reports the dropped lines of every interval until no more are dropped.
    fn report(&self) {
        loop {
            std::thread::sleep(REPORT_INTERVAL);
            let dropped = self.take_dropped();
            if dropped.is_empty() {
                return;
            }
            for (source, lines) in dropped {
                tracing::warn!(target: REPORT_TARGET, source, lines, "log rate limit exceeded; lines dropped");
            }
        }
    }

    fn take_dropped(&self) -> Vec<(String, u64)> {
        let mut state = self.0.lock();
        let sources = state.sources.iter_mut().filter(|(_, bucket)| bucket.dropped > 0);
        let dropped: Vec<_> = sources
            .map(|(source, bucket)| (source.clone(), std::mem::take(&mut bucket.dropped)))
            .collect();
        state.is_reporting = !dropped.is_empty();
        dropped
    }
}

impl LimitState {
    fn bucket(&mut self, source: &str, now: Instant) -> &mut LineBucket {
        let is_new = !self.sources.contains_key(source);
        let source = if is_new && self.sources.len() >= MAX_SOURCES { OTHERS } else { source };
        let new = || LineBucket { lines: BURST, updated: now, dropped: 0 };
        self.sources.entry(source.to_owned()).or_insert_with(new)
    }
}

impl<S: Subscriber> Layer<S> for LogLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == REPORT_TARGET {
            return true;
        }
        let mut found = SourceField { rank: SOURCE_FIELDS.len(), name: String::new() };
        event.record(&mut found);
        let source = if found.name.is_empty() { metadata.name() } else { &found.name };
        self.try_take(source, Instant::now())
    }
}

/// The best field of a line that names its source.
struct SourceField {
    rank: usize,
    name: String,
}

impl Visit for SourceField {
    fn record_str(&mut self, field: &Field, value: &str) {
        let Some(rank) = SOURCE_FIELDS.iter().position(|name| *name == field.name()) else {
            return;
        };
        if rank < self.rank {
            self.rank = rank;
            value.split('.').next().unwrap_or_default().clone_into(&mut self.name);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if SOURCE_FIELDS.contains(&field.name()) {
            self.record_str(field, &format!("{value:?}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_budget_are_dropped_and_counted() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        limit.0.lock().is_reporting = true;
        let taken = (0..300).filter(|_| limit.try_take("a", start)).count();
        assert_eq!(taken, 200);
        assert!(limit.try_take("b", start), "sources do not affect each other");
        assert_eq!(limit.take_dropped(), [("a".to_owned(), 100)]);
        let later = start + Duration::from_secs(2);
        assert_eq!((0..300).filter(|_| limit.try_take("a", later)).count(), 20);
    }

    #[test]
    fn number_of_sources_is_bounded() {
        let (limit, now) = (LogLimit::default(), Instant::now());
        limit.0.lock().is_reporting = true;
        let taken = (0..10_000).filter(|n| limit.try_take(&n.to_string(), now)).count();
        assert_eq!((taken, limit.0.lock().sources.len()), (4_096 + 200, 4_097));
    }
}
