//! Circuit breakers, one per host.

use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use url::Url;

use crate::openapi::settings::BreakerSettings;

/// Maximum number of hosts with a breaker. Host patterns can match any number of hosts.
const MAX_HOSTS: usize = 256;
/// Retry delay for requests that are rejected while a probe is in flight.
const HALF_OPEN_RETRY_AFTER: Duration = Duration::from_secs(1);

/// State of the circuit breaker of one host. The current time is passed as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    /// Requests are sent. `failures` counts consecutive failures.
    Closed { failures: u32 },
    /// Requests are rejected until this time.
    Open { until: Instant },
    /// One probe request determines whether the host has recovered.
    HalfOpen,
}

/// How a request was admitted, which determines how its outcome is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestAdmission {
    Regular,
    Probe,
}

/// Outcome of a request for the circuit breaker of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostOutcome {
    Success,
    Failure,
    /// The request was dropped before it completed.
    Canceled,
}

impl BreakerState {
    const INITIAL: Self = Self::Closed { failures: 0 };

    /// Admits a request, or returns the delay until the next attempt.
    fn admit(&mut self, now: Instant) -> Result<RequestAdmission, Duration> {
        match *self {
            Self::Closed { .. } => Ok(RequestAdmission::Regular),
            Self::Open { until } if now < until => Err(until - now),
            Self::Open { .. } => {
                *self = Self::HalfOpen;
                Ok(RequestAdmission::Probe)
            }
            Self::HalfOpen => Err(HALF_OPEN_RETRY_AFTER),
        }
    }

    fn record(
        &mut self,
        settings: &BreakerSettings,
        admission: RequestAdmission,
        outcome: HostOutcome,
        now: Instant,
    ) {
        let open = Self::Open { until: now + settings.open_for };
        match (admission, outcome, *self) {
            (RequestAdmission::Probe, HostOutcome::Success, _) => *self = Self::INITIAL,
            (RequestAdmission::Probe, HostOutcome::Failure, _) => *self = open,
            // The next request becomes the probe.
            (RequestAdmission::Probe, HostOutcome::Canceled, _) => {
                *self = Self::Open { until: now }
            }
            (RequestAdmission::Regular, HostOutcome::Success, Self::Closed { .. }) => {
                *self = Self::INITIAL;
            }
            (RequestAdmission::Regular, HostOutcome::Failure, Self::Closed { failures }) => {
                let failures = failures + 1;
                *self = if failures < settings.failures { Self::Closed { failures } } else { open };
            }
            // A request that was sent before the breaker opened does not change its state.
            (RequestAdmission::Regular, ..) => {}
        }
    }
}

/// Circuit breakers for all hosts of a source.
#[derive(Debug)]
pub(super) struct CircuitBreakers {
    settings: BreakerSettings,
    /// A linear search is faster than a hash table for so few hosts.
    hosts: Mutex<Vec<(String, u16, BreakerState)>>,
}

/// Permission to send one request. Dropping it without an outcome records
/// [`HostOutcome::Canceled`].
#[derive(Debug)]
pub(super) struct BreakerPermit<'a> {
    breakers: &'a CircuitBreakers,
    host: (&'a str, u16),
    admission: RequestAdmission,
    is_recorded: bool,
}

impl CircuitBreakers {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, hosts: Mutex::default() }
    }

    /// Admits a request. Returns `None` if circuit breakers are disabled.
    ///
    /// # Errors
    ///
    /// Returns the delay before the next attempt if the breaker of the host is open, or half-open
    /// with a probe in flight.
    pub(super) fn admit<'a>(&'a self, url: &'a Url) -> Result<Option<BreakerPermit<'a>>, Duration> {
        if self.settings.failures == 0 {
            return Ok(None);
        }
        let host = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let admission = self.with_breaker(host, |breaker| breaker.admit(Instant::now()))?;
        Ok(Some(BreakerPermit { breakers: self, host, admission, is_recorded: false }))
    }

    /// Whether a breaker is open or half-open.
    pub(super) fn has_open(&self) -> bool {
        let is_open = |breaker: &BreakerState| !matches!(breaker, BreakerState::Closed { .. });
        self.lock().iter().any(|(_, _, breaker)| is_open(breaker))
    }

    /// Returns the outcome of a response with this status.
    pub(super) fn outcome_of_status(&self, status: u16) -> HostOutcome {
        match status {
            500.. if self.settings.server_errors => HostOutcome::Failure,
            _ => HostOutcome::Success,
        }
    }

    fn with_breaker<T>(
        &self,
        (host, port): (&str, u16),
        change: impl FnOnce(&mut BreakerState) -> T,
    ) -> T {
        let mut hosts = self.lock();
        let at = hosts.iter().position(|known| known.0 == host && known.1 == port);
        let at = at.unwrap_or_else(|| {
            if hosts.len() >= MAX_HOSTS {
                hosts.retain(|(_, _, breaker)| *breaker != BreakerState::INITIAL);
            }
            if hosts.len() >= MAX_HOSTS {
                hosts.remove(0);
            }
            hosts.push((host.to_owned(), port, BreakerState::INITIAL));
            hosts.len() - 1
        });
        change(&mut hosts[at].2)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, u16, BreakerState)>> {
        self.hosts.lock()
    }
}

impl BreakerPermit<'_> {
    /// Records the outcome of the request.
    pub(super) fn record(mut self, outcome: HostOutcome) {
        self.update_breaker(outcome);
        self.is_recorded = true;
    }

    fn update_breaker(&self, outcome: HostOutcome) {
        let settings = &self.breakers.settings;
        self.breakers.with_breaker(self.host, |breaker| {
            let before = *breaker;
            breaker.record(settings, self.admission, outcome, Instant::now());
            let host = self.host.0;
            match (before, *breaker) {
                (BreakerState::Closed { .. }, BreakerState::Open { .. }) => {
                    tracing::warn!(host, "circuit breaker opened");
                }
                (BreakerState::HalfOpen, BreakerState::Closed { .. }) => {
                    tracing::info!(host, "circuit breaker closed");
                }
                _ => {}
            }
        });
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        if !self.is_recorded {
            self.update_breaker(HostOutcome::Canceled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a scenario, with its time in seconds: a request is admitted or rejected, or a
    /// request ends.
    enum BreakerEvent {
        Admit(u64, Result<RequestAdmission, u64>),
        End(u64, RequestAdmission, HostOutcome),
    }
    use BreakerEvent::{Admit, End};
    use HostOutcome::{Canceled, Failure, Success};
    use RequestAdmission::{Probe, Regular};

    fn run_breaker_scenario(name: &str, steps: &[BreakerEvent]) {
        let settings = BreakerSettings {
            failures: 3,
            open_for: Duration::from_secs(10),
            server_errors: false,
        };
        let began = Instant::now();
        let at = |second: &u64| began + Duration::from_secs(*second);
        let mut breaker = BreakerState::INITIAL;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Admit(second, expected) => {
                    let admitted = breaker.admit(at(second)).map_err(|wait| wait.as_secs());
                    assert_eq!(admitted, *expected, "{name}, step {number}: {breaker:?}");
                }
                End(second, admission, outcome) => {
                    breaker.record(&settings, *admission, *outcome, at(second));
                }
            }
        }
    }

    #[test]
    fn breaker_opens_after_consecutive_failures_and_probes_once() {
        let fallen =
            || vec![End(0, Regular, Failure), End(0, Regular, Failure), End(0, Regular, Failure)];
        let rows: [(&str, Vec<BreakerEvent>); 8] = [
            (
                "below",
                vec![End(0, Regular, Failure), End(0, Regular, Failure), Admit(0, Ok(Regular))],
            ),
            (
                "not in a row",
                vec![
                    End(0, Regular, Failure),
                    End(0, Regular, Failure),
                    End(0, Regular, Success),
                    End(0, Regular, Failure),
                    End(0, Regular, Canceled),
                    End(0, Regular, Failure),
                    Admit(0, Ok(Regular)),
                ],
            ),
            (
                "open",
                [fallen(), vec![Admit(0, Err(10)), Admit(7, Err(3))]]
                    .into_iter()
                    .flatten()
                    .collect(),
            ),
            (
                "one probe",
                [fallen(), vec![Admit(10, Ok(Probe)), Admit(10, Err(1)), Admit(60, Err(1))]]
                    .into_iter()
                    .flatten()
                    .collect(),
            ),
            (
                "probe is well",
                [
                    fallen(),
                    vec![Admit(10, Ok(Probe)), End(11, Probe, Success), Admit(11, Ok(Regular))],
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            (
                "probe fails",
                [
                    fallen(),
                    vec![
                        Admit(10, Ok(Probe)),
                        End(11, Probe, Failure),
                        Admit(12, Err(9)),
                        Admit(21, Ok(Probe)),
                    ],
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            (
                "nobody waits for the probe",
                [
                    fallen(),
                    vec![Admit(10, Ok(Probe)), End(11, Probe, Canceled), Admit(11, Ok(Probe))],
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            (
                "late ends",
                [
                    fallen(),
                    vec![
                        End(5, Regular, Failure),
                        Admit(9, Err(1)),
                        End(9, Regular, Success),
                        Admit(9, Err(1)),
                        Admit(10, Ok(Probe)),
                        End(10, Regular, Success),
                        Admit(10, Err(1)),
                    ],
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
        ];
        for (name, steps) in rows {
            run_breaker_scenario(name, &steps);
        }
    }

    #[test]
    fn breaker_is_per_host_and_port_and_ignores_dropped_permits() {
        let settings =
            BreakerSettings { failures: 1, open_for: Duration::from_secs(10), server_errors: true };
        let breakers = CircuitBreakers::new(settings);
        let url = |text: &str| Url::parse(text).unwrap();
        let (one, other) = (url("http://a.example:81/x"), url("http://a.example/x"));
        drop(breakers.admit(&one).unwrap());
        assert!(!breakers.has_open());
        breakers.admit(&one).unwrap().unwrap().record(breakers.outcome_of_status(503));
        assert!(breakers.admit(&one).is_err());
        breakers.admit(&other).unwrap().unwrap().record(breakers.outcome_of_status(404));
        assert!(breakers.admit(&other).is_ok());
        assert!(breakers.has_open());
    }
}
