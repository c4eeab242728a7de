//! How often a person is asked for the same thing.

use std::time::Duration;

use tokio::time::Instant;

/// How long an attempt is remembered.
const WINDOW: Duration = Duration::from_secs(600);
/// How often the same is asked for within that time.
const SAME: usize = 3;
/// How often anything is asked for within that time: a server may think of a new scope every time.
const ALL: usize = 16;

/// The recent authorizations. A server that is never content must not open one window after another.
#[derive(Debug, Default)]
pub(super) struct Attempts(Vec<(String, String, Instant)>);

impl Attempts {
    /// Whether there were not enough of them yet.
    pub(super) fn is_open(&mut self, issuer: &str, scope: &str) -> bool {
        self.0.retain(|(_, _, at)| at.elapsed() < WINDOW);
        let same = self.0.iter().filter(|(of, with, _)| of == issuer && with == scope).count();
        same < SAME && self.0.len() < ALL
    }

    /// Notes one.
    pub(super) fn note(&mut self, issuer: &str, scope: &str) {
        self.0.push((issuer.to_owned(), scope.to_owned(), Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_is_asked_for_a_few_times_and_again_after_a_while() {
        let mut attempts = Attempts::default();
        let mut start = |issuer: &str, scope: &str| {
            let open = attempts.is_open(issuer, scope);
            if open {
                attempts.note(issuer, scope);
            }
            open
        };
        assert_eq!([0; 4].map(|_| start("issuer", "scope")), [true, true, true, false]);
        tokio::time::advance(WINDOW).await;
        assert_eq!([0; 4].map(|_| start("issuer", "scope")), [true, true, true, false]);
        assert!(start("other", "scope"));
        let open = (0..100).filter(|scope| start("issuer", &scope.to_string())).count();
        assert_eq!(open, ALL - 4);
    }
}
