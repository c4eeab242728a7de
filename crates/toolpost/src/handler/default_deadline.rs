//! The deadline of a call that named none.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::context::{CallContext, deadline_after};

/// When a call that named no deadline ends. It begins to count when the call first has to wait, and
/// stands still while a person is waited for, in the call or in one inside it.
#[derive(Debug, Default)]
pub(super) struct DefaultDeadline {
    at: OnceLock<Instant>,
    pauses: Mutex<DeadlinePauses>,
}

/// For how long it stood still.
#[derive(Debug, Default)]
struct DeadlinePauses {
    /// How many are waited for now, and since when there is one.
    waiters: u32,
    since: Option<Instant>,
    /// The pauses that are over.
    elapsed: Duration,
}

impl DefaultDeadline {
    /// The deadline, if it counts already. While it stands still it is always as far away.
    pub(super) fn get(&self) -> Option<Instant> {
        let at = self.at.get()?;
        let pauses = self.pauses();
        let current = pauses.since.map(|since| since.elapsed()).unwrap_or_default();
        at.checked_add(pauses.elapsed + current)
    }

    pub(super) fn start(&self, timeout: Duration) -> Option<Instant> {
        let deadline = deadline_after(timeout)?;
        self.at.get_or_init(|| deadline);
        self.get()
    }

    fn pause(&self) {
        let mut pauses = self.pauses();
        pauses.waiters += 1;
        pauses.since.get_or_insert_with(Instant::now);
    }

    fn resume(&self) {
        let mut pauses = self.pauses();
        pauses.waiters -= 1;
        if pauses.waiters == 0 {
            let current = pauses.since.take().map(|since| since.elapsed());
            pauses.elapsed += current.unwrap_or_default();
        }
    }

    fn pauses(&self) -> MutexGuard<'_, DeadlinePauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The default deadlines of a call and of those that it is part of stand still until this is dropped.
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

    /// Each row: what is done after a second each, and how many seconds are left of ten at the end.
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
