//! Circuit breaker for a host or a source. Callers pass in the current time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

/// Retry delay for calls that are rejected while a probe is in flight.
const HALF_OPEN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Rejects calls after consecutive failures, until a probe succeeds.
#[derive(Debug, Clone)]
pub struct CircuitBreaker {
    max_failures: u32,
    open_for: Duration,
    phase: BreakerPhase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerPhase {
    /// Calls pass. Counts consecutive failures.
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    HalfOpen {
        since: Instant,
    },
}

/// The state of a circuit breaker. An open breaker is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass.
    Closed = 0,
    /// Calls are rejected.
    Open = 2,
    /// One call tests whether the source has recovered; the others are rejected.
    HalfOpen = 1,
}

impl BreakerState {
    /// Whether the breaker is open or half-open.
    pub fn is_tripped(self) -> bool {
        self != Self::Closed
    }
}

/// What the result of a call indicates about the health of its host or source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthSignal {
    /// The host or source responded.
    Success,
    /// The host or source failed.
    Failure,
    /// A failure that counts only if the call is a probe.
    ProbeFailure,
    /// No indication: the call was canceled or not sent.
    Unknown,
}

impl CircuitBreaker {
    /// Creates a closed breaker that opens after a number of consecutive failures.
    pub fn new(max_failures: u32, open_for: Duration) -> Self {
        Self { max_failures, open_for, phase: BreakerPhase::Closed { failures: 0 } }
    }

    /// Returns the current state.
    pub fn state(&self) -> BreakerState {
        match self.phase {
            BreakerPhase::Closed { .. } => BreakerState::Closed,
            BreakerPhase::Open { .. } => BreakerState::Open,
            BreakerPhase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether the breaker is closed and the last call did not fail.
    pub fn is_healthy(&self) -> bool {
        self.phase == BreakerPhase::Closed { failures: 0 }
    }

    /// Admits a call.
    ///
    /// # Errors
    ///
    /// Returns how long to wait if the breaker is open, or half-open with a probe in flight.
    pub fn admit(&mut self, now: Instant) -> Result<(), Duration> {
        match self.phase {
            BreakerPhase::Closed { .. } => return Ok(()),
            BreakerPhase::Open { until } if now < until => return Err(until - now),
            // After `open_for`, a probe without a result no longer blocks other calls.
            BreakerPhase::HalfOpen { since } if now < since + self.open_for => {
                return Err(HALF_OPEN_RETRY_AFTER);
            }
            _ => self.phase = BreakerPhase::HalfOpen { since: now },
        }
        Ok(())
    }

    /// Records the end of a call that was admitted at `began`. Returns the new state if the breaker
    /// opened or closed.
    pub fn record(
        &mut self,
        signal: HealthSignal,
        began: Instant,
        now: Instant,
    ) -> Option<BreakerState> {
        use HealthSignal::{Failure, ProbeFailure, Success, Unknown};
        let was_tripped = self.state().is_tripped();
        let open = BreakerPhase::Open { until: now + self.open_for };
        self.phase = match (self.phase, signal) {
            (BreakerPhase::Closed { .. }, Success) => BreakerPhase::Closed { failures: 0 },
            (BreakerPhase::Closed { failures }, Failure) if failures + 1 < self.max_failures => {
                BreakerPhase::Closed { failures: failures + 1 }
            }
            (BreakerPhase::Closed { .. }, Failure) => open,
            (BreakerPhase::HalfOpen { since }, signal) if began >= since => match signal {
                Success => BreakerPhase::Closed { failures: 0 },
                Failure | ProbeFailure => open,
                // The next call is the probe.
                Unknown => BreakerPhase::Open { until: now },
            },
            // Ignore calls that began before the breaker opened.
            (phase, _) => phase,
        };
        Some(self.state()).filter(|state| state.is_tripped() != was_tripped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a scenario, with times in seconds.
    enum BreakerEvent {
        /// A call requests admission: the expected result, or the delay.
        Admit(u64, Result<(), u64>),
        /// A call ends: when it began, when it ended, what it showed.
        End(u64, u64, HealthSignal),
    }
    use BreakerEvent::{Admit, End};
    use HealthSignal::{Failure, ProbeFailure, Success, Unknown};

    #[test]
    fn breaker_opens_after_consecutive_failures_and_probes_once() {
        let with = |more: Vec<BreakerEvent>| {
            let failures = [End(0, 0, Failure), End(0, 0, Failure), End(0, 0, Failure)];
            failures.into_iter().chain(more).collect::<Vec<_>>()
        };
        let rows = [
            ("below the limit", vec![End(0, 0, Failure), End(0, 0, Failure), Admit(0, Ok(()))]),
            (
                "not consecutive",
                vec![
                    End(0, 0, Failure),
                    End(0, 0, Failure),
                    End(0, 0, Success),
                    End(0, 0, Failure),
                    End(0, 0, Unknown),
                    End(0, 0, ProbeFailure),
                    End(0, 0, Failure),
                    Admit(0, Ok(())),
                ],
            ),
            ("open", with(vec![Admit(0, Err(10)), Admit(7, Err(3))])),
            (
                "one probe",
                with(vec![
                    Admit(10, Ok(())),
                    Admit(10, Err(1)),
                    Admit(19, Err(1)),
                    Admit(20, Ok(())),
                ]),
            ),
            (
                "probe succeeds",
                with(vec![Admit(10, Ok(())), End(10, 11, Success), Admit(11, Ok(()))]),
            ),
            (
                "probe fails",
                with(vec![
                    Admit(10, Ok(())),
                    End(10, 11, Failure),
                    Admit(12, Err(9)),
                    Admit(21, Ok(())),
                    End(21, 22, ProbeFailure),
                    Admit(23, Err(9)),
                ]),
            ),
            (
                "probe is canceled",
                with(vec![Admit(10, Ok(())), End(10, 11, Unknown), Admit(11, Ok(()))]),
            ),
            (
                "calls that began before",
                with(vec![
                    End(0, 5, Failure),
                    Admit(9, Err(1)),
                    End(0, 9, Success),
                    Admit(9, Err(1)),
                    Admit(10, Ok(())),
                    End(0, 10, Success),
                    Admit(10, Err(1)),
                ]),
            ),
        ];
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        for (name, events) in rows {
            let mut breaker = CircuitBreaker::new(3, Duration::from_secs(10));
            for (index, event) in events.into_iter().enumerate() {
                match event {
                    Admit(when, expected) => {
                        let admitted = breaker.admit(at(when)).map_err(|wait| wait.as_secs());
                        assert_eq!(admitted, expected, "{name}, step {index}: {breaker:?}");
                    }
                    End(began, now, signal) => {
                        breaker.record(signal, at(began), at(now));
                    }
                }
            }
        }
    }

    #[test]
    fn record_returns_only_changes() {
        let mut breaker = CircuitBreaker::new(1, Duration::ZERO);
        let now = Instant::now();
        assert_eq!(breaker.record(Success, now, now), None);
        assert_eq!(breaker.record(Failure, now, now), Some(BreakerState::Open));
        assert_eq!(breaker.admit(now), Ok(()));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert_eq!(breaker.record(Failure, now, now), None);
        assert_eq!(breaker.admit(now), Ok(()));
        assert_eq!(breaker.record(Success, now, now), Some(BreakerState::Closed));
    }
}
