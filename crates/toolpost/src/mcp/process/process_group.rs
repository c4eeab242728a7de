//! Termination of a set of processes.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::time::Instant;

use super::timeouts;

/// First and longest interval between two polls for running processes.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(64));

/// Processes that are terminated together.
pub(super) trait ProcessSet {
    /// Whether at least one of the processes is running.
    fn poll_running(&mut self) -> bool;

    /// Sends a signal to each process.
    fn signal(&self, signal: Signal);
}

/// Sends SIGTERM, then SIGKILL. Returns whether all processes have exited.
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

/// Sends SIGKILL. Returns whether all processes have exited.
pub(super) async fn kill(processes: &mut impl ProcessSet) -> bool {
    if !processes.poll_running() {
        return true;
    }
    // SIGKILL is repeated, because a forking process may have a child that the last poll missed.
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

/// A process group, identified by its leader, which may have exited.
pub(super) struct ProcessGroup(pub(super) Pid);

impl ProcessSet for ProcessGroup {
    fn poll_running(&mut self) -> bool {
        // A group that cannot be signaled is gone or belongs to another user.
        test_kill_process_group(self.0).is_ok() && has_live_members(self.0)
    }

    fn signal(&self, signal: Signal) {
        // Fails if the group is gone.
        let _ = kill_process_group(self.0, signal);
    }
}

/// Whether a group has members other than zombies.
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
