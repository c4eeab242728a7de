//! The circuit breaker of a source. It opens after consecutive connection losses or timeouts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolpost::{BreakerState, CircuitBreaker, HealthSignal, SourceSignal};

use super::settings::BreakerLimits;

/// Circuit breaker of one source. While the source is healthy, admitting a call is one atomic load.
#[derive(Debug)]
pub(super) struct Breaker {
    slow: Duration,
    is_degraded: AtomicBool,
    /// The breaker, and the time of the last connection loss.
    state: Mutex<(CircuitBreaker, Option<Instant>)>,
}

impl Breaker {
    pub(super) fn new(settings: BreakerLimits) -> Self {
        let breaker = CircuitBreaker::new(settings.failures, settings.open_for);
        let (is_degraded, state) = (AtomicBool::new(false), Mutex::new((breaker, None)));
        Self { slow: settings.slow, is_degraded, state }
    }

    /// Admits a call, or returns how long to wait.
    pub(super) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Duration> {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.state.lock().0.admit(now())
    }

    /// Returns how long calls are rejected, without admitting one.
    pub(super) fn retry_after(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return None;
        }
        self.state.lock().0.clone().admit(now()).err()
    }

    /// The current state.
    pub(super) fn state(&self) -> BreakerState {
        self.state.lock().0.state()
    }

    /// Records the end of a call. Returns the new state if the breaker opened or closed.
    pub(super) fn record(
        &self,
        signal: SourceSignal,
        took: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Option<BreakerState> {
        if signal == SourceSignal::Alive && !self.is_degraded.load(Ordering::Relaxed) {
            return None;
        }
        let now = now();
        let began = now.checked_sub(took).unwrap_or(now);
        let (breaker, last_loss) = &mut *self.state.lock();
        let failure =
            |counts| if counts { HealthSignal::Failure } else { HealthSignal::ProbeFailure };
        let signal = match signal {
            SourceSignal::Alive => HealthSignal::Success,
            // All calls of a connection are lost together and count as one failure.
            SourceSignal::Disconnected => {
                failure(last_loss.replace(now).is_none_or(|last_loss| began > last_loss))
            }
            SourceSignal::TimedOut => failure(took >= self.slow),
            _ => HealthSignal::Unknown,
        };
        let changed = breaker.record(signal, began, now);
        self.is_degraded.store(!breaker.is_healthy(), Ordering::Relaxed);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum BreakerEvent {
        /// A call with its start and end time in milliseconds, and its result.
        Ends(u64, u64, SourceSignal),
        /// A call requests admission at this millisecond; the expected result, or the wait.
        Wants(u64, Result<(), u64>),
    }
    use BreakerEvent::{Ends, Wants};
    use SourceSignal::{Alive, Disconnected, TimedOut, Unknown};

    #[test]
    fn breaker_opens_after_failures_and_probes_recovery() {
        let settings = BreakerLimits {
            failures: 3,
            open_for: Duration::from_secs(10),
            slow: Duration::from_secs(5),
        };
        let lost = |from, to| [Ends(from, from, Disconnected), Ends(to, to, Disconnected)];
        let [first, second] = lost(1, 2);
        let open =
            || [Ends(1, 1, Disconnected), Ends(2, 2, Disconnected), Ends(3, 3, Disconnected)];
        let with = |more: Vec<BreakerEvent>| open().into_iter().chain(more).collect::<Vec<_>>();
        let rows: Vec<(&str, Vec<BreakerEvent>)> = vec![
            ("two losses do not open the breaker", vec![first, second, Wants(3, Ok(()))]),
            (
                "three losses open the breaker",
                with(vec![Wants(4, Err(9_999)), Wants(10_002, Err(1))]),
            ),
            (
                "a success resets the count",
                vec![
                    Ends(1, 1, Disconnected),
                    Ends(2, 2, Disconnected),
                    Ends(2, 3, Alive),
                    Ends(4, 4, Disconnected),
                    Wants(5, Ok(())),
                ],
            ),
            (
                "several calls lost with one connection count once",
                vec![
                    Ends(0, 9, Disconnected),
                    Ends(1, 9, Disconnected),
                    Ends(2, 9, Disconnected),
                    Wants(10, Ok(())),
                ],
            ),
            (
                "every timeout counts",
                vec![
                    Ends(0, 5_000, TimedOut),
                    Ends(1, 5_001, TimedOut),
                    Ends(2, 5_002, TimedOut),
                    Wants(5_003, Err(9_999)),
                ],
            ),
            (
                "a call that times out before `slow` does not count",
                vec![
                    Ends(0, 10, TimedOut),
                    Ends(0, 11, TimedOut),
                    Ends(0, 12, TimedOut),
                    Wants(13, Ok(())),
                ],
            ),
            (
                "a canceled call does not count",
                vec![
                    Ends(0, 1, Unknown),
                    Ends(2, 3, Unknown),
                    Ends(4, 5, Unknown),
                    Wants(6, Ok(())),
                ],
            ),
            (
                "a successful probe closes the breaker",
                with(vec![
                    Wants(10_003, Ok(())),
                    Wants(10_004, Err(1_000)),
                    Ends(10_003, 10_100, Alive),
                    Wants(10_101, Ok(())),
                    Wants(10_102, Ok(())),
                ]),
            ),
            (
                "a failed probe opens the breaker again",
                with(vec![
                    Wants(10_003, Ok(())),
                    Ends(10_003, 10_100, TimedOut),
                    Wants(10_101, Err(9_999)),
                ]),
            ),
            (
                "a canceled probe admits another one",
                with(vec![
                    Wants(10_003, Ok(())),
                    Ends(10_003, 10_100, Unknown),
                    Wants(10_101, Ok(())),
                ]),
            ),
            (
                "a probe without a result admits another one after `open`",
                with(vec![Wants(10_003, Ok(())), Wants(20_002, Err(1_000)), Wants(20_003, Ok(()))]),
            ),
            (
                "a call from before the breaker opened does not count",
                with(vec![
                    Ends(0, 5, Alive),
                    Wants(6, Err(9_997)),
                    Wants(10_003, Ok(())),
                    Ends(2, 10_004, Alive),
                    Wants(10_005, Err(1_000)),
                ]),
            ),
        ];
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        for (name, events) in rows {
            let breaker = Breaker::new(settings);
            for (index, event) in events.into_iter().enumerate() {
                match event {
                    Ends(from, to, signal) => {
                        breaker.record(signal, Duration::from_millis(to - from), || at(to));
                    }
                    Wants(when, expected) => {
                        let expected = expected.map_err(Duration::from_millis);
                        assert_eq!(breaker.admit(|| at(when)), expected, "{name}: {index}");
                    }
                }
            }
        }
    }
}
