//! The one place where wall-clock time is read.

mod timestamp;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use timestamp::timestamp;

/// The time since 1970.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Milliseconds since 1970, as every timestamp on the wire counts.
pub fn epoch_ms() -> i64 {
    let since = since_epoch();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX / 1_000);
    seconds.saturating_mul(1_000).saturating_add(i64::from(since.subsec_millis()))
}
