//! Whether a request is sent once more, and when.

use std::time::Duration;

use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::clock;
use crate::openapi::settings::RetrySettings;

/// What became of an attempt, as far as repeating it is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    /// Nothing of it has left.
    NotSent,
    /// It may have arrived, and there is no answer.
    Lost,
    /// The service has answered with this status, and perhaps said when to come back.
    Answered { status: u16, retry_after: Option<Duration> },
}

impl Attempt {
    /// An answer with its wish.
    pub(super) fn answered(status: u16, headers: &HeaderMap) -> Self {
        Self::Answered { status, retry_after: retry_after(headers) }
    }

    /// Whether the same request could succeed a moment later.
    fn is_transient(self) -> bool {
        match self {
            Self::NotSent | Self::Lost => true,
            Self::Answered { status, .. } => matches!(status, 429 | 502 | 503 | 504),
        }
    }

    fn wish(self) -> Duration {
        match self {
            Self::Answered { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// How long to wait before the next attempt, if there is to be one.
///
/// Repeating is safe if nothing was sent, or if the operation is a query or declared idempotent: the
/// same rule decides what the caller is told. It is of no use if the time of the call is over before.
pub(super) fn pause(
    settings: &RetrySettings,
    retries_before: u32,
    attempt: Attempt,
    is_repeatable: bool,
    remaining: Duration,
    random: impl FnOnce() -> u32,
) -> Option<Duration> {
    let is_safe = is_repeatable || attempt == Attempt::NotSent;
    let is_allowed = is_safe && attempt.is_transient() && retries_before < settings.retries;
    let wish = attempt.wish();
    if !is_allowed || wish > settings.retry_after_max {
        return None;
    }
    let pause = jitter(settings, retries_before, random()).max(wish);
    (pause < remaining).then_some(pause)
}

/// Anything up to a limit that doubles each time, so that those who failed together come back apart.
fn jitter(settings: &RetrySettings, retries_before: u32, random: u32) -> Duration {
    let doubled =
        settings.pause.saturating_mul(1_u32.checked_shl(retries_before).unwrap_or(u32::MAX));
    doubled.min(settings.pause_max).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// When the service wants to be asked again: seconds, or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    read_retry_after(text, clock::epoch_ms())
}

fn read_retry_after(text: &str, now: i64) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(at.saturating_sub(Duration::from_millis(u64::try_from(now).unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn settings() -> RetrySettings {
        RetrySettings {
            retries: 2,
            pause: Duration::from_millis(200),
            pause_max: Duration::from_secs(5),
            retry_after_max: Duration::from_secs(20),
        }
    }

    fn answer(status: u16, seconds: Option<u64>) -> Attempt {
        Attempt::Answered { status, retry_after: seconds.map(Duration::from_secs) }
    }

    #[test]
    fn only_what_is_safe_and_can_help_is_repeated() {
        use Attempt::{Lost, NotSent};
        let rows: [(&str, Attempt, bool, u32, bool); 16] = [
            ("nothing sent, writes", NotSent, false, 0, true),
            ("nothing sent, reads", NotSent, true, 1, true),
            ("nothing sent, too often", NotSent, true, 2, false),
            ("lost, writes", Lost, false, 0, false),
            ("lost, reads", Lost, true, 0, true),
            ("429 writes", answer(429, None), false, 0, false),
            ("429 reads", answer(429, None), true, 0, true),
            ("502", answer(502, None), true, 0, true),
            ("503", answer(503, Some(3)), true, 0, true),
            ("504", answer(504, None), true, 0, true),
            ("500", answer(500, None), true, 0, false),
            ("501", answer(501, None), true, 0, false),
            ("404", answer(404, None), true, 0, false),
            ("200", answer(200, None), true, 0, false),
            ("wants too much", answer(503, Some(21)), true, 0, false),
            ("503 writes", answer(503, Some(0)), false, 0, false),
        ];
        for (name, attempt, is_repeatable, before, expected) in rows {
            let pause = pause(&settings(), before, attempt, is_repeatable, LONG, || 7);
            assert_eq!(pause.is_some(), expected, "{name}");
        }
    }

    #[test]
    fn pauses_double_are_random_and_end_with_the_call() {
        let ms = Duration::from_millis;
        let rows = [
            (0, 0, answer(503, None), LONG, Some(ms(0))),
            (0, u32::MAX, answer(503, None), LONG, Some(ms(200))),
            (1, u32::MAX, answer(503, None), LONG, Some(ms(400))),
            (1, u32::MAX, answer(503, Some(3)), LONG, Some(ms(3_000))),
            (1, u32::MAX, answer(503, Some(0)), LONG, Some(ms(400))),
            (1, u32::MAX, answer(503, Some(3)), ms(3_000), None),
            (1, u32::MAX, answer(503, None), ms(399), None),
        ];
        for (before, random, attempt, remaining, expected) in rows {
            let pause = pause(&settings(), before, attempt, true, remaining, || random);
            assert_eq!(pause, expected, "{before} {random} {attempt:?}");
        }
        let many = RetrySettings { retries: 100, ..settings() };
        for before in [5, 31, 32, 99] {
            let longest = pause(&many, before, Attempt::Lost, true, LONG, || u32::MAX);
            assert_eq!(longest, Some(settings().pause_max));
        }
    }

    #[test]
    fn services_say_when_to_come_back_in_seconds_or_by_date() {
        let now = 784_111_777_000;
        let rows = [
            ("120", Some(120)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(read_retry_after(text, now), expected.map(Duration::from_secs), "{text}");
        }
    }
}
