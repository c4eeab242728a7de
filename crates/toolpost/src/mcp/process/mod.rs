//! Child processes that are MCP servers over their standard input and output.
//!
//! | file | holds |
//! |---|---|
//! | `spawn` | the command line, the environment, and why a server cannot be started |
//! | `keeper` | the task that owns the process: it waits for its end, and brings it about |
//! | `family` | how processes are ended that belong together |
//! | `watcher` | the process between us and the server, which outlives us by a moment |
//! | `stderr`, `last_words` | what the server says beside the protocol, logged and remembered |
//! | `ended` | how it ended, in words |
//!
//! A server is started in a process group of its own, so that a Ctrl-C in a terminal reaches this
//! process alone, and with the part of our environment that programs need to find their way (`PATH`,
//! `HOME`, the language, proxies and the like) plus what its settings add: the rest may hold secrets of
//! others.
//!
//! Ending a server takes at most [`patience::TOTAL`]: its standard input is closed and it may leave,
//! then come SIGTERM and SIGKILL. Without a watcher they go to the process group, and whoever left
//! the group is missed. With one they go to every descendant, also to a daemon, and they come even
//! if this process is killed: see [`watch_child`].
//!
//! This room is for Unix: it is made of process groups and signals.

mod ended;
mod family;
mod keeper;
mod last_words;
mod spawn;
mod stderr;
#[cfg(target_os = "linux")]
mod table;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use last_words::LastWords;

pub(crate) use ended::Ended;
pub use spawn::DEPTH_VARIABLE;
pub(crate) use spawn::spawn;
pub use watcher::watch_child;

/// How long each step on the way to the end may take.
pub(crate) mod patience {
    use std::time::Duration;

    /// A server whose standard input was closed may take so long to leave.
    pub(crate) const LEAVE: Duration = Duration::from_millis(1500);
    /// Processes that got SIGTERM may take so long before SIGKILL.
    pub(crate) const TERMINATE: Duration = Duration::from_millis(1500);
    /// SIGKILL is repeated for so long; who is left then hangs in the kernel, or is not ours.
    pub(crate) const KILL: Duration = Duration::from_millis(750);
    /// A watcher that got SIGTERM may take so long to end everything below it.
    pub(crate) const WATCHER: Duration = TERMINATE.saturating_add(KILL);
    /// What was said before the end is read for so long.
    pub(crate) const LAST_WORDS: Duration = Duration::from_millis(300);
    /// The longest way: a server that ignores everything, below a watcher that hangs, with a process
    /// that cannot be ended at all. Without the latter two it is the first two steps.
    pub(crate) const TOTAL: Duration = LEAVE
        .saturating_add(WATCHER)
        .saturating_add(KILL)
        .saturating_add(LAST_WORDS)
        .saturating_add(KILL);
}

/// A server that was started.
#[derive(Debug)]
pub(crate) struct Child {
    /// Dropping it is how the server is asked to leave; its owner does so when
    /// [`Process::stopping`] says so.
    pub(crate) stdin: ChildStdin,
    /// Ends when the server does, or closes it.
    pub(crate) stdout: ChildStdout,
    /// The process itself.
    pub(crate) process: Process,
}

/// The handle of a process that a task keeps.
///
/// Dropping it ends the process and everything below it as [`Process::end`] does, in that task.
#[derive(Debug)]
pub(crate) struct Process {
    stop: DropGuard,
    stopping: CancellationToken,
    /// The task holds the sender until nothing is left of the process and its kin.
    ended: watch::Receiver<Option<Ended>>,
    words: Arc<LastWords>,
}

impl Process {
    /// Resolves when the process has ended and what it said last has been read.
    ///
    /// # Cancellation
    ///
    /// Nothing happens to the process, and it can be awaited again.
    pub(crate) async fn ended(&self) -> Ended {
        let mut ended = self.ended.clone();
        let seen = ended.wait_for(Option::is_some).await;
        // The sender is gone without a word only if the runtime drops its tasks.
        seen.ok().and_then(|ended| *ended).unwrap_or(Ended::Unknown)
    }

    /// Ends the process and waits until nothing is left of it, at most [`patience::TOTAL`].
    ///
    /// # Cancellation
    ///
    /// The end goes on in the task that keeps the process.
    pub(crate) async fn end(self) -> Ended {
        let mut gone = self.ended.clone();
        drop(self.stop);
        let leaving = async { while gone.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(patience::TOTAL, leaving).await;
        let ended = *gone.borrow();
        ended.unwrap_or(Ended::Unknown)
    }

    /// Canceled as soon as the end was asked for: whoever holds the standard input drops it then.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// The last lines of its standard error, for the message that says how it ended.
    pub(crate) fn last_words(&self) -> String {
        self.words.text()
    }
}
