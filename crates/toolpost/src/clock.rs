//! Wall-clock time. No other module reads the system clock.

mod timestamp;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use timestamp::timestamp;

/// Returns the time since the Unix epoch.
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the milliseconds since the Unix epoch, the unit of every timestamp on the wire.
pub fn epoch_ms() -> i64 {
    let since = since_epoch();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX / 1_000);
    seconds.saturating_mul(1_000).saturating_add(i64::from(since.subsec_millis()))
}
