//! The task that owns a process: it waits for its end, and brings it about.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::ended::Ended;
use super::family::{self, Family, Group};
use super::patience;

/// Who owns the process.
pub(super) struct Keeper {
    child: Child,
    /// It leads its group, so its id is that of the group too.
    leader: Pid,
    is_watched: bool,
    is_over: bool,
}

impl Keeper {
    pub(super) fn new(child: Child, leader: Pid, is_watched: bool) -> Self {
        Self { child, leader, is_watched, is_over: false }
    }

    /// Runs until nothing is left of the process; `ended` says how it ended, and is dropped then.
    pub(super) async fn keep(
        mut self,
        stop: CancellationToken,
        mut stderr: JoinHandle<()>,
        ended: watch::Sender<Option<Ended>>,
    ) {
        let is_asked = tokio::select! {
            biased;
            // An error would come again below.
            _ = self.child.wait() => false,
            () = stop.cancelled() => true,
        };
        if is_asked {
            self.leave().await;
        }
        let how = self.how_it_ended().await;
        if tokio::time::timeout(patience::LAST_WORDS, &mut stderr).await.is_err() {
            // Somebody else holds the pipe, and may do so for ever.
            stderr.abort();
        }
        ended.send_replace(Some(how));
        self.is_over = self.end_leftovers(is_asked).await;
        if !self.is_over {
            tracing::warn!(
                group = self.leader.as_raw_pid(),
                "processes of a server cannot be ended"
            );
        }
    }

    /// The process may leave, then it is told to, then it is made to.
    async fn leave(&mut self) {
        if self.exits_within(patience::LEAVE).await {
            return;
        }
        let mut group = Group(self.leader);
        // Only a process that somebody waits for goes away for good, hence the two at once.
        if !self.is_watched {
            tokio::join!(family::end(&mut group), self.exits_within(patience::WATCHER));
            return;
        }
        // To the watcher alone: it knows better than we who is to be ended.
        self.signal_leader(Signal::TERM);
        if !self.exits_within(patience::WATCHER).await {
            tokio::join!(family::kill(&mut group), self.exits_within(patience::KILL));
        }
    }

    /// What a server leaves behind in its group, or a watcher that was killed.
    async fn end_leftovers(&self, had_its_time: bool) -> bool {
        let mut group = Group(self.leader);
        if had_its_time { family::kill(&mut group).await } else { family::end(&mut group).await }
    }

    async fn exits_within(&mut self, patience: Duration) -> bool {
        tokio::time::timeout(patience, self.child.wait()).await.is_ok()
    }

    async fn how_it_ended(&mut self) -> Ended {
        match tokio::time::timeout(Duration::ZERO, self.child.wait()).await {
            Ok(Ok(status)) if self.is_watched => Ended::of_watched(status),
            Ok(Ok(status)) => Ended::of(status),
            _ => Ended::Unknown,
        }
    }

    /// Its id is its own as long as nobody has asked how it ended.
    fn signal_leader(&self, signal: Signal) {
        if self.child.id().is_some() {
            let _ = kill_process(self.leader, signal);
        }
    }
}

impl Drop for Keeper {
    /// A runtime that is dropped takes its tasks with it; this is what can be done without one.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.is_watched && self.child.id().is_some() {
            self.signal_leader(Signal::TERM);
        } else if Group(self.leader).is_left() {
            Group(self.leader).signal(Signal::KILL);
        }
    }
}
