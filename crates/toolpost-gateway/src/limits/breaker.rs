//! Whether a source is called at all after it was lost or late again and again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use toolpost::Health;

use super::settings::BreakerLimits;

/// What is said to those who come while another one tries.
const PROBING: Duration = Duration::from_secs(1);

/// The breaker of one source. A source that is well costs one look at a flag.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerLimits,
    is_troubled: AtomicBool,
    state: Mutex<State>,
}

/// Time is an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is called; it has failed so often in a row, and was lost at that time.
    Closed { failures: u32, lost: Option<Instant> },
    /// It is not called until then.
    Open { until: Instant },
    /// One call finds out whether it is back.
    Probing { since: Instant },
}

/// What the end of a call has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The source is left alone from now on.
    Opened,
    /// It is called again.
    Closed,
}

impl State {
    const NEW: Self = Self::Closed { failures: 0, lost: None };

    fn is_open(self) -> bool {
        !matches!(self, Self::Closed { .. })
    }

    /// Lets a call through, or says how long to wait.
    fn admit(&mut self, settings: &BreakerLimits, now: Instant) -> Result<(), Duration> {
        match *self {
            Self::Closed { .. } => Ok(()),
            Self::Open { until } if now < until => Err(until - now),
            // One who tries and is not heard of again must not keep everybody out.
            Self::Probing { since } if now < since + settings.open_for => Err(PROBING),
            Self::Open { .. } | Self::Probing { .. } => {
                *self = Self::Probing { since: now };
                Ok(())
            }
        }
    }

    /// Learns from the end of a call that began at `began`.
    fn note(&mut self, settings: &BreakerLimits, health: Health, began: Instant, now: Instant) {
        let open = Self::Open { until: now + settings.open_for };
        match *self {
            Self::Closed { failures, lost } => {
                let failed = match health {
                    Health::Present => return *self = Self::NEW,
                    // All calls of one connection are lost together, which is one loss.
                    Health::Lost => lost.is_none_or(|lost| began > lost),
                    Health::Late => now - began >= settings.slow,
                    _ => false,
                };
                let failures = failures + u32::from(failed);
                let lost = if health == Health::Lost { Some(now) } else { lost };
                let is_enough = failures >= settings.failures;
                *self = if is_enough { open } else { Self::Closed { failures, lost } };
            }
            Self::Probing { since } if began >= since => match health {
                Health::Present => *self = Self::NEW,
                Health::Lost | Health::Late => *self = open,
                // The next call tries instead.
                _ => *self = Self::Open { until: now },
            },
            // What began before the source was given up says nothing new.
            Self::Probing { .. } | Self::Open { .. } => {}
        }
    }
}

impl Breaker {
    pub(super) fn new(settings: BreakerLimits) -> Self {
        Self { settings, is_troubled: AtomicBool::new(false), state: Mutex::new(State::NEW) }
    }

    /// Lets a call through, or says how long to wait.
    pub(super) fn admit(&self, now: impl FnOnce() -> Instant) -> Result<(), Duration> {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.lock().admit(&self.settings, now())
    }

    /// How long calls are refused for, without letting one through.
    pub(super) fn closed_for(&self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        if !self.is_troubled.load(Ordering::Relaxed) {
            return None;
        }
        self.lock().clone().admit(&self.settings, now()).err()
    }

    /// Whether calls are refused, or let through one at a time.
    pub(super) fn is_open(&self) -> bool {
        self.lock().is_open()
    }

    /// Learns from the end of a call, and says whether that has opened or closed it.
    pub(super) fn note(
        &self,
        health: Health,
        took: Duration,
        now: impl FnOnce() -> Instant,
    ) -> Option<Turn> {
        if health == Health::Present && !self.is_troubled.load(Ordering::Relaxed) {
            return None;
        }
        let now = now();
        let mut state = self.lock();
        let was_open = state.is_open();
        state.note(&self.settings, health, now.checked_sub(took).unwrap_or(now), now);
        self.is_troubled.store(*state != State::NEW, Ordering::Relaxed);
        match (was_open, state.is_open()) {
            (false, true) => Some(Turn::Opened),
            (true, false) => Some(Turn::Closed),
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    enum Event {
        /// A call that began and ended at these milliseconds, and how.
        Ends(u64, u64, Health),
        /// A call wants in at this millisecond; it may, or must wait for so long.
        Wants(u64, Result<(), u64>),
    }
    use Event::{Ends, Wants};
    use Health::{Late, Lost, Present, Unknown};

    #[test]
    fn a_source_is_left_alone_and_tried_again() {
        let settings = BreakerLimits {
            failures: 3,
            open_for: Duration::from_secs(10),
            slow: Duration::from_secs(5),
        };
        let lost = |from, to| [Ends(from, from, Lost), Ends(to, to, Lost)];
        let [first, second] = lost(1, 2);
        let open = || [Ends(1, 1, Lost), Ends(2, 2, Lost), Ends(3, 3, Lost)];
        let with = |more: Vec<Event>| open().into_iter().chain(more).collect::<Vec<_>>();
        let rows: Vec<(&str, Vec<Event>)> = vec![
            ("twice is not enough", vec![first, second, Wants(3, Ok(()))]),
            ("thrice is", with(vec![Wants(4, Err(9_999)), Wants(10_002, Err(1))])),
            (
                "a success between counts from the beginning",
                vec![
                    Ends(1, 1, Lost),
                    Ends(2, 2, Lost),
                    Ends(2, 3, Present),
                    Ends(4, 4, Lost),
                    Wants(5, Ok(())),
                ],
            ),
            (
                "one loss of many calls is one",
                vec![Ends(0, 9, Lost), Ends(1, 9, Lost), Ends(2, 9, Lost), Wants(10, Ok(()))],
            ),
            (
                "every late call counts",
                vec![
                    Ends(0, 5_000, Late),
                    Ends(1, 5_001, Late),
                    Ends(2, 5_002, Late),
                    Wants(5_003, Err(9_999)),
                ],
            ),
            (
                "who is in a hurry says nothing",
                vec![Ends(0, 10, Late), Ends(0, 11, Late), Ends(0, 12, Late), Wants(13, Ok(()))],
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
                    Ends(10_003, 10_100, Present),
                    Wants(10_101, Ok(())),
                    Wants(10_102, Ok(())),
                ]),
            ),
            (
                "one tries in vain",
                with(vec![
                    Wants(10_003, Ok(())),
                    Ends(10_003, 10_100, Late),
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
                    Ends(0, 5, Present),
                    Wants(6, Err(9_997)),
                    Wants(10_003, Ok(())),
                    Ends(2, 10_004, Present),
                    Wants(10_005, Err(1_000)),
                ]),
            ),
        ];
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        for (name, events) in rows {
            let mut state = State::NEW;
            for (index, event) in events.into_iter().enumerate() {
                match event {
                    Ends(from, to, health) => state.note(&settings, health, at(from), at(to)),
                    Wants(when, expected) => {
                        let expected = expected.map_err(Duration::from_millis);
                        assert_eq!(state.admit(&settings, at(when)), expected, "{name}: {index}");
                    }
                }
            }
        }
    }
}
