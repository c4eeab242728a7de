//! How long many answers took.

use std::time::Duration;

/// How long it usually took, and how long at most but for one in a hundred.
pub(crate) fn latency(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
    format!("p50 {:7.1} p99 {:7.1} µs", at(50), at(99))
}
