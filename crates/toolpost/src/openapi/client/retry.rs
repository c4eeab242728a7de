//! Retry decisions and delays.

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::http::retry_after;
use crate::openapi::settings::RetrySettings;

/// Outcome of an attempt, for the retry decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptOutcome {
    /// The request was not sent.
    NotSent,
    /// The request may have been received, but there is no response.
    NoResponse,
    /// The service responded with this status and possibly with `Retry-After`.
    Responded { status: u16, retry_after: Option<Duration> },
}

impl AttemptOutcome {
    /// Creates the outcome of a response, with its `Retry-After` delay.
    pub(super) fn from_response(status: u16, headers: &HeaderMap) -> Self {
        Self::Responded { status, retry_after: retry_after(headers) }
    }

    /// Whether the same request may succeed later.
    fn is_transient(self) -> bool {
        match self {
            Self::NotSent | Self::NoResponse => true,
            Self::Responded { status, .. } => matches!(status, 429 | 502 | 503 | 504),
        }
    }
}

/// Returns the delay before the next attempt, or `None` if there is none.
///
/// A retry is safe if nothing was sent, or if the operation is a query or declared idempotent.
/// There is no retry after the deadline of the call.
pub(super) fn retry_delay(
    settings: &RetrySettings,
    retries_before: u32,
    attempt: AttemptOutcome,
    is_idempotent: bool,
    remaining: Duration,
    random: impl FnOnce() -> u32,
) -> Option<Duration> {
    let is_safe = is_idempotent || attempt == AttemptOutcome::NotSent;
    let is_allowed = is_safe && attempt.is_transient() && retries_before < settings.retries;
    let wish = match attempt {
        AttemptOutcome::Responded { retry_after, .. } => retry_after.unwrap_or_default(),
        _ => Duration::ZERO,
    };
    if !is_allowed || wish > settings.max_retry_after {
        return None;
    }
    let pause = backoff_with_jitter(settings, retries_before, random()).max(wish);
    (pause < remaining).then_some(pause)
}

/// Random delay up to a limit that doubles with each retry.
fn backoff_with_jitter(settings: &RetrySettings, retries_before: u32, random: u32) -> Duration {
    let doubled =
        settings.base_delay.saturating_mul(1_u32.checked_shl(retries_before).unwrap_or(u32::MAX));
    doubled.min(settings.max_delay).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMPLE_DEADLINE: Duration = Duration::from_secs(60);

    fn settings() -> RetrySettings {
        RetrySettings {
            retries: 2,
            base_delay: Duration::from_millis(200),
            max_delay: Duration::from_secs(5),
            max_retry_after: Duration::from_secs(20),
        }
    }

    fn response(status: u16, seconds: Option<u64>) -> AttemptOutcome {
        AttemptOutcome::Responded { status, retry_after: seconds.map(Duration::from_secs) }
    }

    #[test]
    fn retry_only_when_safe_and_transient() {
        use AttemptOutcome::{NoResponse, NotSent};
        let rows: [(&str, AttemptOutcome, bool, u32, bool); 16] = [
            ("nothing sent, writes", NotSent, false, 0, true),
            ("nothing sent, reads", NotSent, true, 1, true),
            ("nothing sent, too many attempts", NotSent, true, 2, false),
            ("lost, writes", NoResponse, false, 0, false),
            ("lost, reads", NoResponse, true, 0, true),
            ("429 writes", response(429, None), false, 0, false),
            ("429 reads", response(429, None), true, 0, true),
            ("502", response(502, None), true, 0, true),
            ("503", response(503, Some(3)), true, 0, true),
            ("504", response(504, None), true, 0, true),
            ("500", response(500, None), true, 0, false),
            ("501", response(501, None), true, 0, false),
            ("404", response(404, None), true, 0, false),
            ("200", response(200, None), true, 0, false),
            ("a retry delay that is too long", response(503, Some(21)), true, 0, false),
            ("503 writes", response(503, Some(0)), false, 0, false),
        ];
        for (name, attempt, is_idempotent, before, expected) in rows {
            let pause =
                retry_delay(&settings(), before, attempt, is_idempotent, AMPLE_DEADLINE, || 7);
            assert_eq!(pause.is_some(), expected, "{name}");
        }
    }

    #[test]
    fn retry_delay_doubles_with_jitter_within_the_deadline() {
        let ms = Duration::from_millis;
        let rows = [
            (0, 0, response(503, None), AMPLE_DEADLINE, Some(ms(0))),
            (0, u32::MAX, response(503, None), AMPLE_DEADLINE, Some(ms(200))),
            (1, u32::MAX, response(503, None), AMPLE_DEADLINE, Some(ms(400))),
            (1, u32::MAX, response(503, Some(3)), AMPLE_DEADLINE, Some(ms(3_000))),
            (1, u32::MAX, response(503, Some(0)), AMPLE_DEADLINE, Some(ms(400))),
            (1, u32::MAX, response(503, Some(3)), ms(3_000), None),
            (1, u32::MAX, response(503, None), ms(399), None),
        ];
        for (before, random, attempt, remaining, expected) in rows {
            let pause = retry_delay(&settings(), before, attempt, true, remaining, || random);
            assert_eq!(pause, expected, "{before} {random} {attempt:?}");
        }
        let many = RetrySettings { retries: 100, ..settings() };
        for before in [5, 31, 32, 99] {
            let longest = retry_delay(
                &many,
                before,
                AttemptOutcome::NoResponse,
                true,
                AMPLE_DEADLINE,
                || u32::MAX,
            );
            assert_eq!(longest, Some(settings().max_delay));
        }
    }
}
