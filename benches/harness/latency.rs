//! Latency percentiles.

use std::time::Duration;

/// Formats the median and the 99th percentile.
pub(crate) fn latency(mut times: Vec<Duration>) -> String {
    times.sort();
    let percentile = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e6;
    format!("p50 {:7.1} p99 {:7.1} µs", percentile(50), percentile(99))
}
