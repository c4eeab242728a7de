//! The task that owns a process: it waits for its end, and brings it about.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::exit_status::ProcessExit;
use super::process_group::{self, ProcessGroup, ProcessSet};
use super::timeouts;

/// Who owns the process.
pub(super) struct ChildSupervisor {
    child: Child,
    /// It leads its group, so its id is that of the group too.
    leader: Pid,
    is_watched: bool,
    is_reaped: bool,
}

impl ChildSupervisor {
    pub(super) fn new(child: Child, leader: Pid, is_watched: bool) -> Self {
        Self { child, leader, is_watched, is_reaped: false }
    }

    /// Runs until nothing is left of the process; `ended` says how it ended, and is dropped then.
    pub(super) async fn run(
        mut self,
        stop: CancellationToken,
        mut stderr: JoinHandle<()>,
        ended: watch::Sender<Option<ProcessExit>>,
    ) {
        let was_requested = tokio::select! {
            biased;
            // An error would come again below.
            _ = self.child.wait() => false,
            () = stop.cancelled() => true,
        };
        if was_requested {
            self.shut_down().await;
        }
        let exit = self.exit_status().await;
        if tokio::time::timeout(timeouts::STDERR_DRAIN, &mut stderr).await.is_err() {
            // Somebody else holds the pipe, and may do so for ever.
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

    /// The process may leave, then it is told to, then it is made to.
    async fn shut_down(&mut self) {
        if self.wait_exit_within(timeouts::GRACEFUL_EXIT).await {
            return;
        }
        let mut group = ProcessGroup(self.leader);
        // Only a process that somebody waits for goes away for good, hence the two at once.
        if !self.is_watched {
            tokio::join!(
                process_group::terminate(&mut group),
                self.wait_exit_within(timeouts::WATCHER)
            );
            return;
        }
        // To the watcher alone: it knows better than we who is to be ended.
        self.signal_leader(Signal::TERM);
        if !self.wait_exit_within(timeouts::WATCHER).await {
            tokio::join!(process_group::kill(&mut group), self.wait_exit_within(timeouts::KILL));
        }
    }

    /// What a server leaves behind in its group, or a watcher that was killed.
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

    /// Its id is its own as long as nobody has asked how it ended.
    fn signal_leader(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = kill_process(self.leader, signal);
        }
    }
}

impl Drop for ChildSupervisor {
    /// A runtime that is dropped takes its tasks with it; this is what can be done without one.
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
