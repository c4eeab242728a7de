//! Whether a host is asked at all after it has failed again and again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use url::Url;

use crate::openapi::settings::BreakerSettings;

/// How many hosts are remembered; patterns of hosts may stand for any number of them.
const MOST_HOSTS: usize = 256;
/// What is said to those who come while another one tries.
const PROBING: Duration = Duration::from_secs(1);

/// The state of one host. Time is an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breaker {
    /// It is asked; so many requests in a row have failed.
    Closed { failures: u32 },
    /// It is not asked until then.
    Open { until: Instant },
    /// One request finds out whether it is back.
    Probing,
}

/// How a request was let through, which decides what its end says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    Plain,
    Probe,
}

/// How a request ended, as far as the health of its host is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    Bad,
    /// Nobody waited for the end.
    Unknown,
}

impl Breaker {
    const NEW: Self = Self::Closed { failures: 0 };

    /// Lets a request through, or says how long to wait.
    fn admit(&mut self, now: Instant) -> Result<Admission, Duration> {
        match *self {
            Self::Closed { .. } => Ok(Admission::Plain),
            Self::Open { until } if now < until => Err(until - now),
            Self::Open { .. } => {
                *self = Self::Probing;
                Ok(Admission::Probe)
            }
            Self::Probing => Err(PROBING),
        }
    }

    fn note(
        &mut self,
        settings: &BreakerSettings,
        admission: Admission,
        health: Health,
        now: Instant,
    ) {
        let open = Self::Open { until: now + settings.open_for };
        match (admission, health, *self) {
            (Admission::Probe, Health::Good, _) => *self = Self::NEW,
            (Admission::Probe, Health::Bad, _) => *self = open,
            // The next request tries instead.
            (Admission::Probe, Health::Unknown, _) => *self = Self::Open { until: now },
            (Admission::Plain, Health::Good, Self::Closed { .. }) => *self = Self::NEW,
            (Admission::Plain, Health::Bad, Self::Closed { failures }) => {
                let failures = failures + 1;
                *self = if failures < settings.failures { Self::Closed { failures } } else { open };
            }
            // What began before the host was given up says nothing new.
            (Admission::Plain, ..) => {}
        }
    }
}

/// The breakers of all hosts of a source.
#[derive(Debug)]
pub(super) struct Breakers {
    settings: BreakerSettings,
    /// Few, so that looking through them is quicker than any table.
    hosts: Mutex<Vec<(String, u16, Breaker)>>,
}

/// Leave to send one request; whoever drops it without a word has not waited for the end.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    breakers: &'a Breakers,
    host: (&'a str, u16),
    admission: Admission,
    is_noted: bool,
}

impl Breakers {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, hosts: Mutex::default() }
    }

    /// Lets a request through.
    ///
    /// # Errors
    ///
    /// The host has failed too often; it is tried again after that time.
    pub(super) fn admit<'a>(&'a self, url: &'a Url) -> Result<Option<Pass<'a>>, Duration> {
        if self.settings.failures == 0 {
            return Ok(None);
        }
        let host = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let admission = self.with(host, |breaker| breaker.admit(Instant::now()))?;
        Ok(Some(Pass { breakers: self, host, admission, is_noted: false }))
    }

    /// Whether a host is left alone, or is being tried after it was.
    pub(super) fn is_any_open(&self) -> bool {
        let is_open = |breaker: &Breaker| !matches!(breaker, Breaker::Closed { .. });
        self.lock().iter().any(|(_, _, breaker)| is_open(breaker))
    }

    /// Whether an answer with this status is a failure of its host.
    pub(super) fn health(&self, status: u16) -> Health {
        match status {
            500.. if self.settings.server_errors => Health::Bad,
            _ => Health::Good,
        }
    }

    fn with<T>(&self, (host, port): (&str, u16), change: impl FnOnce(&mut Breaker) -> T) -> T {
        let mut hosts = self.lock();
        let at = hosts.iter().position(|known| known.0 == host && known.1 == port);
        let at = at.unwrap_or_else(|| {
            if hosts.len() >= MOST_HOSTS {
                hosts.retain(|(_, _, breaker)| *breaker != Breaker::NEW);
            }
            if hosts.len() >= MOST_HOSTS {
                hosts.remove(0);
            }
            hosts.push((host.to_owned(), port, Breaker::NEW));
            hosts.len() - 1
        });
        change(&mut hosts[at].2)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, u16, Breaker)>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Says how the request ended.
    pub(super) fn note(mut self, health: Health) {
        self.tell(health);
        self.is_noted = true;
    }

    fn tell(&self, health: Health) {
        let settings = &self.breakers.settings;
        self.breakers.with(self.host, |breaker| {
            let before = *breaker;
            breaker.note(settings, self.admission, health, Instant::now());
            let host = self.host.0;
            match (before, *breaker) {
                (Breaker::Closed { .. }, Breaker::Open { .. }) => {
                    tracing::warn!(host, "the host failed too often and is left alone for a while");
                }
                (Breaker::Probing, Breaker::Closed { .. }) => {
                    tracing::info!(host, "the host is back");
                }
                _ => {}
            }
        });
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if !self.is_noted {
            self.tell(Health::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happens at a second: a request is let through or not, or one of those ends.
    enum Step {
        Admit(u64, Result<Admission, u64>),
        End(u64, Admission, Health),
    }
    use Admission::{Plain, Probe};
    use Health::{Bad, Good, Unknown};
    use Step::{Admit, End};

    fn check(name: &str, steps: &[Step]) {
        let settings = BreakerSettings {
            failures: 3,
            open_for: Duration::from_secs(10),
            server_errors: false,
        };
        let began = Instant::now();
        let at = |second: &u64| began + Duration::from_secs(*second);
        let mut breaker = Breaker::NEW;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Admit(second, expected) => {
                    let admitted = breaker.admit(at(second)).map_err(|wait| wait.as_secs());
                    assert_eq!(admitted, *expected, "{name}, step {number}: {breaker:?}");
                }
                End(second, admission, health) => {
                    breaker.note(&settings, *admission, *health, at(second));
                }
            }
        }
    }

    #[test]
    fn a_host_is_left_alone_after_failures_in_a_row_and_tried_by_one_request() {
        let fallen = || vec![End(0, Plain, Bad), End(0, Plain, Bad), End(0, Plain, Bad)];
        let rows: [(&str, Vec<Step>); 8] = [
            ("below", vec![End(0, Plain, Bad), End(0, Plain, Bad), Admit(0, Ok(Plain))]),
            (
                "not in a row",
                vec![
                    End(0, Plain, Bad),
                    End(0, Plain, Bad),
                    End(0, Plain, Good),
                    End(0, Plain, Bad),
                    End(0, Plain, Unknown),
                    End(0, Plain, Bad),
                    Admit(0, Ok(Plain)),
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
                [fallen(), vec![Admit(10, Ok(Probe)), End(11, Probe, Good), Admit(11, Ok(Plain))]]
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
                        End(11, Probe, Bad),
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
                    vec![Admit(10, Ok(Probe)), End(11, Probe, Unknown), Admit(11, Ok(Probe))],
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
                        End(5, Plain, Bad),
                        Admit(9, Err(1)),
                        End(9, Plain, Good),
                        Admit(9, Err(1)),
                        Admit(10, Ok(Probe)),
                        End(10, Plain, Good),
                        Admit(10, Err(1)),
                    ],
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
        ];
        for (name, steps) in rows {
            check(name, &steps);
        }
    }

    #[test]
    fn hosts_and_ports_are_told_apart_and_a_dropped_pass_counts_for_nothing() {
        let settings =
            BreakerSettings { failures: 1, open_for: Duration::from_secs(10), server_errors: true };
        let breakers = Breakers::new(settings);
        let url = |text: &str| Url::parse(text).unwrap();
        let (one, other) = (url("http://a.example:81/x"), url("http://a.example/x"));
        drop(breakers.admit(&one).unwrap());
        assert!(!breakers.is_any_open());
        breakers.admit(&one).unwrap().unwrap().note(breakers.health(503));
        assert!(breakers.admit(&one).is_err());
        breakers.admit(&other).unwrap().unwrap().note(breakers.health(404));
        assert!(breakers.admit(&other).is_ok());
        assert!(breakers.is_any_open());
    }
}
