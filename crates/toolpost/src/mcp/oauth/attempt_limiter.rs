//! How often a person is asked for the same thing.

use std::time::Duration;

use tokio::time::Instant;

/// How long an attempt is remembered.
const WINDOW: Duration = Duration::from_secs(600);
/// How often the same is asked for within that time.
const MAX_SAME_SCOPE: usize = 3;
/// How often anything is asked for within that time: a server may think of a new scope every time.
const MAX_TOTAL: usize = 16;

/// The recent authorizations. A server that is never content must not open one window after another.
#[derive(Debug, Default)]
pub(super) struct AttemptLimiter(Vec<(String, String, Instant)>);

impl AttemptLimiter {
    /// Whether there were not enough of them yet.
    pub(super) fn allow(&mut self, issuer: &str, scope: &str) -> bool {
        self.0.retain(|(_, _, at)| at.elapsed() < WINDOW);
        let same = self.0.iter().filter(|(of, with, _)| of == issuer && with == scope).count();
        same < MAX_SAME_SCOPE && self.0.len() < MAX_TOTAL
    }

    /// Notes one.
    pub(super) fn record(&mut self, issuer: &str, scope: &str) {
        self.0.push((issuer.to_owned(), scope.to_owned(), Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn authorization_attempts_are_limited_per_window() {
        let mut attempts = AttemptLimiter::default();
        let mut start = |issuer: &str, scope: &str| {
            let open = attempts.allow(issuer, scope);
            if open {
                attempts.record(issuer, scope);
            }
            open
        };
        assert_eq!([0; 4].map(|_| start("issuer", "scope")), [true, true, true, false]);
        tokio::time::advance(WINDOW).await;
        assert_eq!([0; 4].map(|_| start("issuer", "scope")), [true, true, true, false]);
        assert!(start("other", "scope"));
        let open = (0..100).filter(|scope| start("issuer", &scope.to_string())).count();
        assert_eq!(open, MAX_TOTAL - 4);
    }
}
