//! Circuit breakers, one per host.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use crate::circuit_breaker::{BreakerState, CircuitBreaker, HealthSignal};
use crate::openapi::settings::BreakerSettings;

/// Maximum number of hosts with a breaker. Host patterns can match any number of hosts.
const MAX_HOSTS: usize = 256;

/// Circuit breakers for all hosts of a source.
#[derive(Debug)]
pub(super) struct CircuitBreakers {
    settings: BreakerSettings,
    /// A list, because a linear search is faster than a hash table for few hosts.
    hosts: Mutex<Vec<(String, u16, CircuitBreaker)>>,
}

/// Permission to send one request. Dropping it records the result for the host.
#[derive(Debug)]
pub(super) struct BreakerPermit<'a> {
    breakers: &'a CircuitBreakers,
    host: (&'a str, u16),
    began: Instant,
    signal: HealthSignal,
}

impl CircuitBreakers {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, hosts: Mutex::default() }
    }

    /// Admits a request. Returns `None` if circuit breakers are disabled.
    pub(super) fn admit<'a>(&'a self, url: &'a Url) -> Result<Option<BreakerPermit<'a>>, Duration> {
        if self.settings.failures == 0 {
            return Ok(None);
        }
        let host = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(0));
        let began = Instant::now();
        self.with_breaker(host, |breaker| breaker.admit(began))?;
        Ok(Some(BreakerPermit { breakers: self, host, began, signal: HealthSignal::Unknown }))
    }

    /// Returns the worst breaker state.
    pub(super) fn state(&self) -> BreakerState {
        let hosts = self.hosts.lock();
        hosts.iter().map(|(_, _, breaker)| breaker.state()).max().unwrap_or(BreakerState::Closed)
    }

    /// Returns the health signal of a response with this status.
    pub(super) fn signal_of_status(&self, status: u16) -> HealthSignal {
        match status {
            500.. if self.settings.server_errors => HealthSignal::Failure,
            _ => HealthSignal::Success,
        }
    }

    fn with_breaker<T>(
        &self,
        (host, port): (&str, u16),
        change: impl FnOnce(&mut CircuitBreaker) -> T,
    ) -> T {
        let mut hosts = self.hosts.lock();
        let at = hosts.iter().position(|known| known.0 == host && known.1 == port);
        let at = at.unwrap_or_else(|| {
            if hosts.len() >= MAX_HOSTS {
                hosts.retain(|(_, _, breaker)| !breaker.is_healthy());
            }
            if hosts.len() >= MAX_HOSTS {
                hosts.remove(0);
            }
            let breaker = CircuitBreaker::new(self.settings.failures, self.settings.open_for);
            hosts.push((host.to_owned(), port, breaker));
            hosts.len() - 1
        });
        change(&mut hosts[at].2)
    }
}

impl BreakerPermit<'_> {
    /// Records the result of the request.
    pub(super) fn record(mut self, signal: HealthSignal) {
        self.signal = signal;
    }
}

impl Drop for BreakerPermit<'_> {
    fn drop(&mut self) {
        let (signal, began, host) = (self.signal, self.began, self.host.0);
        let record = |breaker: &mut CircuitBreaker| breaker.record(signal, began, Instant::now());
        match self.breakers.with_breaker(self.host, record) {
            Some(BreakerState::Open) => tracing::warn!(host, "circuit breaker opened"),
            Some(_) => tracing::info!(host, "circuit breaker closed"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaker_is_per_host_and_port_and_ignores_dropped_permits() {
        let settings =
            BreakerSettings { failures: 1, open_for: Duration::from_secs(10), server_errors: true };
        let breakers = CircuitBreakers::new(settings);
        let url = |text: &str| Url::parse(text).unwrap();
        let (one, other) = (url("http://a.example:81/x"), url("http://a.example/x"));
        drop(breakers.admit(&one).unwrap());
        assert_eq!(breakers.state(), BreakerState::Closed);
        breakers.admit(&one).unwrap().unwrap().record(breakers.signal_of_status(503));
        assert!(breakers.admit(&one).is_err());
        breakers.admit(&other).unwrap().unwrap().record(breakers.signal_of_status(404));
        assert!(breakers.admit(&other).is_ok());
        assert_eq!(breakers.state(), BreakerState::Open);
    }
}
