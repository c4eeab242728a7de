//! How processes are ended that belong together.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::Instant;

use super::timeouts;

/// The first and the longest pause between two looks at who is left.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));

/// Processes that are ended together.
pub(super) trait ProcessSet {
    /// Whether one of them runs.
    fn poll_running(&mut self) -> bool;

    /// Sends a signal to each of them.
    fn signal(&self, signal: Signal);
}

/// Asks everybody to end, then makes them. Says whether nobody is left.
pub(super) async fn terminate(processes: &mut impl ProcessSet) -> bool {
    if !processes.poll_running() {
        return true;
    }
    processes.signal(Signal::TERM);
    if wait_until_exited(processes, timeouts::TERMINATE, |_| {}).await {
        return true;
    }
    kill(processes).await
}

/// Ends everybody at once. Says whether nobody is left.
pub(super) async fn kill(processes: &mut impl ProcessSet) -> bool {
    if !processes.poll_running() {
        return true;
    }
    // Again and again, because one that forks may have a child that the last look missed.
    wait_until_exited(processes, timeouts::KILL, |processes| processes.signal(Signal::KILL)).await
}

async fn wait_until_exited<F: ProcessSet>(
    processes: &mut F,
    limit: Duration,
    mut on_poll: impl FnMut(&F),
) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = POLL_INTERVALS.0;
    loop {
        on_poll(processes);
        tokio::time::sleep(pause).await;
        if !processes.poll_running() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        pause = (pause * 2).min(POLL_INTERVALS.1);
    }
}

/// A process group, by the process that leads it or led it.
pub(super) struct ProcessGroup(pub(super) Pid);

impl ProcessSet for ProcessGroup {
    fn poll_running(&mut self) -> bool {
        // Whoever may not be signaled is not ours to end.
        test_kill_process_group(self.0).is_ok() && has_live_members(self.0)
    }

    fn signal(&self, signal: Signal) {
        // The group is gone, which is what is wanted.
        let _ = kill_process_group(self.0, signal);
    }
}

/// Whether there is more in a group than processes that ended and that nobody has asked about.
#[cfg(target_os = "linux")]
fn has_live_members(group: Pid) -> bool {
    super::process_table::read().is_none_or(|table| {
        table.iter().any(|entry| entry.group == group.as_raw_pid() && !entry.is_zombie)
    })
}

#[cfg(not(target_os = "linux"))]
fn has_live_members(_: Pid) -> bool {
    true
}
