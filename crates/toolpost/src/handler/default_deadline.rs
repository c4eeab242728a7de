//! The deadline of calls that specify none.

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::context::{CallContext, deadline_after};

/// Deadline of a call that specifies none. It starts when the call first waits. Waiting for
/// approval pauses it.
#[derive(Debug, Default)]
pub(super) struct DefaultDeadline {
    at: OnceLock<Instant>,
    pauses: Mutex<DeadlinePauses>,
}

/// How long the deadline has been paused.
#[derive(Debug, Default)]
struct DeadlinePauses {
    /// Number of active pauses; `since` is the start of the first.
    waiters: u32,
    since: Option<Instant>,
    /// Total duration of finished pauses.
    elapsed: Duration,
}

impl DefaultDeadline {
    /// Returns the deadline if it has started. While paused, the remaining time stays constant.
    pub(super) fn get(&self) -> Option<Instant> {
        let at = self.at.get()?;
        let pauses = self.pauses.lock();
        let current = pauses.since.map(|since| since.elapsed()).unwrap_or_default();
        at.checked_add(pauses.elapsed + current)
    }

    pub(super) fn start(&self, timeout: Duration) -> Option<Instant> {
        let deadline = deadline_after(timeout)?;
        self.at.get_or_init(|| deadline);
        self.get()
    }

    fn pause(&self) {
        let mut pauses = self.pauses.lock();
        pauses.waiters += 1;
        pauses.since.get_or_insert_with(Instant::now);
    }

    fn resume(&self) {
        let mut pauses = self.pauses.lock();
        pauses.waiters -= 1;
        if pauses.waiters == 0 {
            let current = pauses.since.take().map(|since| since.elapsed());
            pauses.elapsed += current.unwrap_or_default();
        }
    }
}

/// Pauses the default deadlines of a call and its ancestors until dropped.
#[must_use]
pub(crate) struct DeadlinePause(CallContext);

impl DeadlinePause {
    pub(crate) fn new(context: &CallContext) -> Self {
        context.self_and_ancestors().for_each(|call| call.default_deadline().pause());
        Self(context.clone())
    }
}

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        self.0.self_and_ancestors().for_each(|call| call.default_deadline().resume());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each row: the steps (`.` advances one second, `p` pauses, `g` resumes) and the seconds left
    /// of ten.
    #[tokio::test(start_paused = true)]
    async fn default_deadline_pauses_while_waiting_for_approval() {
        for (steps, expected) in
            [("..", 8), ("p.g.", 9), ("pp.g.g.", 9), (".p...g", 9), ("p....", 10)]
        {
            let deadline = DefaultDeadline::default();
            assert_eq!(deadline.get(), None);
            deadline.start(Duration::from_secs(10));
            for step in steps.chars() {
                match step {
                    'p' => deadline.pause(),
                    'g' => deadline.resume(),
                    _ => tokio::time::advance(Duration::from_secs(1)).await,
                }
            }
            let remaining = deadline.get().map(|at| (at - Instant::now()).as_secs());
            assert_eq!(remaining, Some(expected), "{steps}");
        }
    }
}
