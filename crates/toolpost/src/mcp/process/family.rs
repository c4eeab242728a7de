//! How processes are ended that belong together.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::Instant;

use super::patience;

/// The first and the longest pause between two looks at who is left.
const PAUSES: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));

/// Processes that are ended together.
pub(super) trait Family {
    /// Whether one of them runs.
    fn is_left(&mut self) -> bool;

    /// Sends a signal to each of them.
    fn signal(&self, signal: Signal);
}

/// Asks everybody to end, then makes them. Says whether nobody is left.
pub(super) async fn end(family: &mut impl Family) -> bool {
    if !family.is_left() {
        return true;
    }
    family.signal(Signal::TERM);
    if is_gone(family, patience::TERMINATE, |_| {}).await {
        return true;
    }
    kill(family).await
}

/// Ends everybody at once. Says whether nobody is left.
pub(super) async fn kill(family: &mut impl Family) -> bool {
    if !family.is_left() {
        return true;
    }
    // Again and again, because one that forks may have a child that the last look missed.
    is_gone(family, patience::KILL, |family| family.signal(Signal::KILL)).await
}

async fn is_gone<F: Family>(family: &mut F, patience: Duration, mut urge: impl FnMut(&F)) -> bool {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSES.0;
    loop {
        urge(family);
        tokio::time::sleep(pause).await;
        if !family.is_left() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// A process group, by the process that leads it or led it.
pub(super) struct Group(pub(super) Pid);

impl Family for Group {
    fn is_left(&mut self) -> bool {
        // Whoever may not be signaled is not ours to end.
        test_kill_process_group(self.0).is_ok() && has_members(self.0)
    }

    fn signal(&self, signal: Signal) {
        // The group is gone, which is what is wanted.
        let _ = kill_process_group(self.0, signal);
    }
}

/// Whether there is more in a group than processes that ended and that nobody has asked about.
#[cfg(target_os = "linux")]
fn has_members(group: Pid) -> bool {
    super::table::read().is_none_or(|table| {
        table.iter().any(|entry| entry.group == group.as_raw_pid() && !entry.is_over)
    })
}

#[cfg(not(target_os = "linux"))]
fn has_members(_: Pid) -> bool {
    true
}
