//! The async task that owns a child process, waits for its exit and terminates it.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::exit_status::ProcessExit;
use super::process_group::{self, ProcessGroup, ProcessSet};
use super::timeouts;

/// Owns the process, waits for its exit and shuts it down.
pub(super) struct ChildSupervisor {
    child: Child,
    /// Leader of the process group; its id is also the id of the group.
    leader: Pid,
    is_watched: bool,
    is_reaped: bool,
}

impl ChildSupervisor {
    pub(super) fn new(child: Child, leader: Pid, is_watched: bool) -> Self {
        Self { child, leader, is_watched, is_reaped: false }
    }

    /// Runs until the process and its group are terminated. `ended` receives the exit status.
    pub(super) async fn run(
        mut self,
        stop: CancellationToken,
        mut stderr: JoinHandle<()>,
        ended: watch::Sender<Option<ProcessExit>>,
    ) {
        let was_requested = tokio::select! {
            biased;
            // `exit_status` waits again and handles an error.
            _ = self.child.wait() => false,
            () = stop.cancelled() => true,
        };
        if was_requested {
            self.shut_down().await;
        }
        let exit = self.exit_status().await;
        if tokio::time::timeout(timeouts::STDERR_DRAIN, &mut stderr).await.is_err() {
            // Another process holds the pipe, possibly forever.
            stderr.abort();
        }
        ended.send_replace(Some(exit));
        self.is_reaped = self.terminate_group(was_requested).await;
        if !self.is_reaped {
            tracing::warn!(
                group = self.leader.as_raw_pid(),
                "failed to terminate server processes"
            );
        }
    }

    /// Shuts the process down: waits for a graceful exit, then sends SIGTERM, then SIGKILL.
    async fn shut_down(&mut self) {
        if self.wait_exit_within(timeouts::GRACEFUL_EXIT).await {
            return;
        }
        let mut group = ProcessGroup(self.leader);
        // Waiting reaps the leader, which otherwise stays in the group as a zombie.
        if !self.is_watched {
            tokio::join!(
                process_group::terminate(&mut group),
                self.wait_exit_within(timeouts::WATCHER)
            );
            return;
        }
        // Only the watcher gets SIGTERM; it terminates all descendants.
        self.signal_leader(Signal::TERM);
        if !self.wait_exit_within(timeouts::WATCHER).await {
            tokio::join!(process_group::kill(&mut group), self.wait_exit_within(timeouts::KILL));
        }
    }

    /// Terminates the processes that the server, or a killed watcher, left in its group.
    async fn terminate_group(&self, skip_sigterm: bool) -> bool {
        let mut group = ProcessGroup(self.leader);
        if skip_sigterm {
            process_group::kill(&mut group).await
        } else {
            process_group::terminate(&mut group).await
        }
    }

    async fn wait_exit_within(&mut self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.child.wait()).await.is_ok()
    }

    async fn exit_status(&mut self) -> ProcessExit {
        match tokio::time::timeout(Duration::ZERO, self.child.wait()).await {
            Ok(Ok(status)) if self.is_watched => ProcessExit::from_watched_status(status),
            Ok(Ok(status)) => ProcessExit::from_status(status),
            _ => ProcessExit::Unknown,
        }
    }

    /// Signals the leader unless it was reaped, because its pid may then belong to another process.
    fn signal_leader(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = kill_process(self.leader, signal);
        }
    }
}

impl Drop for ChildSupervisor {
    /// Sends signals only: a dropped runtime drops this task, so the exit cannot be awaited.
    fn drop(&mut self) {
        if self.is_reaped {
            return;
        }
        if self.is_watched && self.child.id().is_some() {
            self.signal_leader(Signal::TERM);
        } else if ProcessGroup(self.leader).poll_running() {
            ProcessGroup(self.leader).signal(Signal::KILL);
        }
    }
}
