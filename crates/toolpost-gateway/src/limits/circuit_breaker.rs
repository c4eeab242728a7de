//! The circuit breaker of a source. It opens after consecutive connection losses or timeouts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use toolpost::SourceSignal;

use super::settings::BreakerLimits;

/// Retry delay for calls that are rejected while a test call is in flight.
const HALF_OPEN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Circuit breaker of one source. While the source is healthy, admitting a call is one atomic load.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerLimits,
    is_degraded: AtomicBool,
    state: Mutex<BreakerPhase>,
}

/// State machine of the breaker. The current time is an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerPhase {
    /// Calls pass. Holds the number of consecutive failures and the time of the last connection
    /// loss.
    Closed { failures: u32, last_disconnect: Option<Instant> },
    /// Calls are rejected until this time.
    Open { until: Instant },
    /// One call probes whether the source has recovered.
    HalfOpen { since: Instant },
}

/// The state of a circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls are rejected.
    Open,
    /// One call tests whether the source has recovered; the others are rejected.
    HalfOpen,
}

impl BreakerState {
    /// Whether calls are rejected, or let through one at a time.
    pub fn is_tripped(self) -> bool {
        self != Self::Closed
    }
}

/// A state change caused by the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    /// Calls are rejected.
    Opened,
    /// Calls are admitted again.
    Closed,
}

impl BreakerPhase {
    const NEW: Self = Self::Closed { failures: 0, last_disconnect: None };

    fn is_tripped(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    fn state(self) -> BreakerState {
        if !self.is_tripped() {
            BreakerState::Closed
        } else if matches!(self, Self::Open { .. }) {
            BreakerState::Open
        } else {
            BreakerState::HalfOpen
        }
    }

    /// Admits a call, or returns how long to wait.
    fn admit(&mut self, settings: &BreakerLimits, now: Instant) -> Result<(), Duration> {
        match *self {
            Self::Closed { .. } => Ok(()),
            Self::Open { until } if now < until => Err(until - now),
            // After `open_for`, a test call without a result no longer blocks other calls.
            Self::HalfOpen { since } if now < since + settings.open_for => {
                Err(HALF_OPEN_RETRY_AFTER)
            }
            Self::Open { .. } | Self::HalfOpen { .. } => {
                *self = Self::HalfOpen { since: now };
                Ok(())
            }
        }
    }

    /// Updates the state with the result of a call that started at `began`.
    fn record(
        &mut self,
        settings: &BreakerLimits,
        signal: SourceSignal,
        began: Instant,
        now: Instant,
    ) {
        let open = Self::Open { until: now + settings.open_for };
        match *self {
            Self::Closed { failures, last_disconnect: last_lost } => {
                let failed = match signal {
                    SourceSignal::Alive => return *self = Self::NEW,
                    // All calls of a connection are lost together and count as one failure.
                    SourceSignal::Disconnected => {
                        last_lost.is_none_or(|last_lost| began > last_lost)
                    }
                    SourceSignal::TimedOut => now - began >= settings.slow,
                    _ => false,
                };
                let failures = failures + u32::from(failed);
                let last_lost =
                    if signal == SourceSignal::Disconnected { Some(now) } else { last_lost };
                let is_enough = failures >= settings.failures;
                *self = if is_enough {
                    open
                } else {
                    Self::Closed { failures, last_disconnect: last_lost }
                };
            }
            Self::HalfOpen { since } if began >= since => match signal {
                SourceSignal::Alive => *self = Self::NEW,
                SourceSignal::Disconnected | SourceSignal::TimedOut => *self = open,
                // The probe was inconclusive; the next call probes again.
                _ => *self = Self::Open { until: now },
            },
            // A call that began before the breaker opened carries no new information.
            Self::HalfOpen { .. } | Self::Open { .. } => {}
        }
    }
}

impl Breaker {
    pub(super) fn new(settings: BreakerLimits) -> Self {
        Self { settings, is_degraded: AtomicBool::new(false), state: Mutex::new(BreakerPhase::NEW) }
    }

    /// Admits a call, or returns how long to wait.
    pub(super) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Duration> {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.lock().admit(&self.settings, now())
    }

    /// Returns how long calls are rejected, without admitting one.
    pub(super) fn retry_after(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return None;
        }
        self.lock().clone().admit(&self.settings, now()).err()
    }

    /// The current state.
    pub(super) fn state(&self) -> BreakerState {
        self.lock().state()
    }

    /// Records the end of a call and returns whether the breaker opened or closed.
    pub(super) fn record(
        &self,
        signal: SourceSignal,
        took: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Option<Transition> {
        if signal == SourceSignal::Alive && !self.is_degraded.load(Ordering::Relaxed) {
            return None;
        }
        let now = now();
        let mut state = self.lock();
        let was_open = state.is_tripped();
        state.record(&self.settings, signal, now.checked_sub(took).unwrap_or(now), now);
        self.is_degraded.store(*state != BreakerPhase::NEW, Ordering::Relaxed);
        match (was_open, state.is_tripped()) {
            (false, true) => Some(Transition::Opened),
            (true, false) => Some(Transition::Closed),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BreakerPhase> {
        self.state.lock()
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
            ("twice is not enough", vec![first, second, Wants(3, Ok(()))]),
            ("thrice is", with(vec![Wants(4, Err(9_999)), Wants(10_002, Err(1))])),
            (
                "a success between counts from the beginning",
                vec![
                    Ends(1, 1, Disconnected),
                    Ends(2, 2, Disconnected),
                    Ends(2, 3, Alive),
                    Ends(4, 4, Disconnected),
                    Wants(5, Ok(())),
                ],
            ),
            (
                "one loss of many calls is one",
                vec![
                    Ends(0, 9, Disconnected),
                    Ends(1, 9, Disconnected),
                    Ends(2, 9, Disconnected),
                    Wants(10, Ok(())),
                ],
            ),
            (
                "every late call counts",
                vec![
                    Ends(0, 5_000, TimedOut),
                    Ends(1, 5_001, TimedOut),
                    Ends(2, 5_002, TimedOut),
                    Wants(5_003, Err(9_999)),
                ],
            ),
            (
                "who is in a hurry says nothing",
                vec![
                    Ends(0, 10, TimedOut),
                    Ends(0, 11, TimedOut),
                    Ends(0, 12, TimedOut),
                    Wants(13, Ok(())),
                ],
            ),
            (
                "who went away says nothing",
                vec![
                    Ends(0, 1, Unknown),
                    Ends(2, 3, Unknown),
                    Ends(4, 5, Unknown),
                    Wants(6, Ok(())),
                ],
            ),
            (
                "one tries, and it is back",
                with(vec![
                    Wants(10_003, Ok(())),
                    Wants(10_004, Err(1_000)),
                    Ends(10_003, 10_100, Alive),
                    Wants(10_101, Ok(())),
                    Wants(10_102, Ok(())),
                ]),
            ),
            (
                "one tries in vain",
                with(vec![
                    Wants(10_003, Ok(())),
                    Ends(10_003, 10_100, TimedOut),
                    Wants(10_101, Err(9_999)),
                ]),
            ),
            (
                "one tries and goes away",
                with(vec![
                    Wants(10_003, Ok(())),
                    Ends(10_003, 10_100, Unknown),
                    Wants(10_101, Ok(())),
                ]),
            ),
            (
                "one tries and is not heard of again",
                with(vec![Wants(10_003, Ok(())), Wants(20_002, Err(1_000)), Wants(20_003, Ok(()))]),
            ),
            (
                "what began before says nothing",
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
            let mut state = BreakerPhase::NEW;
            for (index, event) in events.into_iter().enumerate() {
                match event {
                    Ends(from, to, health) => state.record(&settings, health, at(from), at(to)),
                    Wants(when, expected) => {
                        let expected = expected.map_err(Duration::from_millis);
                        assert_eq!(state.admit(&settings, at(when)), expected, "{name}: {index}");
                    }
                }
            }
        }
    }
}
