//! Whether a source is called at all after it was lost or late again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use toolpost::SourceSignal;

use super::settings::BreakerLimits;

/// What is said to those who come while another one tries.
const HALF_OPEN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// The breaker of one source. A source that is well costs one look at a flag.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerLimits,
    is_degraded: AtomicBool,
    state: Mutex<BreakerPhase>,
}

/// Time is an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerPhase {
    /// It is called; it has failed so often in a row, and was lost at that time.
    Closed { failures: u32, last_disconnect: Option<Instant> },
    /// It is not called until then.
    Open { until: Instant },
    /// One call finds out whether it is back.
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

/// What the end of a call has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transition {
    /// Calls are rejected from now on.
    Opened,
    /// It is called again.
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

    /// Lets a call through, or says how long to wait.
    fn admit(&mut self, settings: &BreakerLimits, now: Instant) -> Result<(), Duration> {
        match *self {
            Self::Closed { .. } => Ok(()),
            Self::Open { until } if now < until => Err(until - now),
            // One who tries and is not heard of again must not keep everybody out.
            Self::HalfOpen { since } if now < since + settings.open_for => {
                Err(HALF_OPEN_RETRY_AFTER)
            }
            Self::Open { .. } | Self::HalfOpen { .. } => {
                *self = Self::HalfOpen { since: now };
                Ok(())
            }
        }
    }

    /// Learns from the end of a call that began at `began`.
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
                    // All calls of one connection are lost together, which is one loss.
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
                // The next call tries instead.
                _ => *self = Self::Open { until: now },
            },
            // What began before the source was given up says nothing new.
            Self::HalfOpen { .. } | Self::Open { .. } => {}
        }
    }
}

impl Breaker {
    pub(super) fn new(settings: BreakerLimits) -> Self {
        Self { settings, is_degraded: AtomicBool::new(false), state: Mutex::new(BreakerPhase::NEW) }
    }

    /// Lets a call through, or says how long to wait.
    pub(super) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Duration> {
        if !self.is_degraded.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.lock().admit(&self.settings, now())
    }

    /// How long calls are refused for, without letting one through.
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

    /// Learns from the end of a call, and says whether that has opened or closed it.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum BreakerEvent {
        /// A call that began and ended at these milliseconds, and how.
        Ends(u64, u64, SourceSignal),
        /// A call wants in at this millisecond; it may, or must wait for so long.
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
