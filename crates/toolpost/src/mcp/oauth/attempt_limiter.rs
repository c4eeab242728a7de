//! Limits how often the user is prompted for authorization.

use std::time::Duration;

use tokio::time::Instant;

/// Time window in which attempts are counted.
const WINDOW: Duration = Duration::from_secs(600);
/// Maximum number of attempts with the same issuer and scope within the window.
const MAX_SAME_SCOPE: usize = 3;
/// Maximum number of attempts within the window, since a server may require a new scope each time.
const MAX_TOTAL: usize = 16;

/// Limits user authorizations, so that a server cannot open browser windows endlessly.
#[derive(Debug, Default)]
pub(super) struct AttemptLimiter(Vec<(String, String, Instant)>);

impl AttemptLimiter {
    /// Whether another authorization is within the limits.
    pub(super) fn allow(&mut self, issuer: &str, scope: &str) -> bool {
        self.0.retain(|(_, _, at)| at.elapsed() < WINDOW);
        let same = self.0.iter().filter(|(of, with, _)| of == issuer && with == scope).count();
        same < MAX_SAME_SCOPE && self.0.len() < MAX_TOTAL
    }

    /// Records an authorization.
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
