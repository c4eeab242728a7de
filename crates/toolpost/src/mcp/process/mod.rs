//! Child processes that are MCP servers over their standard input and output.
//!
//! | file | holds |
//! |---|---|
//! | `spawn` | the command line, the environment, and why a server cannot be started |
//! | `child` | the async task that owns the process: waits for its exit and shuts it down |
//! | `process_group` | terminating a set of processes |
//! | `watcher` | the process between us and the server, which outlives us by a moment |
//! | `stderr`, `stderr_tail` | standard error of the server: logged, and the last lines kept |
//! | `exit_status` | how the process exited |
//!
//! A server is started in a process group of its own, so that a Ctrl-C in a terminal reaches this
//! process alone, and with the part of our environment that programs need to find their way (`PATH`,
//! `HOME`, the language, proxies and the like) plus what its settings add: the rest may hold secrets of
//! others.
//!
//! Ending a server takes at most [`timeouts::TOTAL`]: its standard input is closed and it may leave,
//! then come SIGTERM and SIGKILL. Without a watcher they go to the process group, and whoever left
//! the group is missed. With one they go to every descendant, also to a daemon, and they come even
//! if this process is killed: see [`watch_child`].
//!
//! Unix only: it uses process groups and signals.

mod child;
mod exit_status;
mod process_group;
#[cfg(target_os = "linux")]
mod process_table;
mod spawn;
mod stderr;
mod stderr_tail;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use stderr_tail::StderrTail;

pub(crate) use exit_status::ProcessExit;
pub use spawn::DEPTH_VARIABLE;
pub(crate) use spawn::spawn;
pub use watcher::watch_child;

/// How long each step on the way to the end may take.
pub(crate) mod timeouts {
    use std::time::Duration;

    /// A server whose standard input was closed may take so long to leave.
    pub(crate) const GRACEFUL_EXIT: Duration = Duration::from_millis(1500);
    /// Processes that got SIGTERM may take so long before SIGKILL.
    pub(crate) const TERMINATE: Duration = Duration::from_millis(1500);
    /// SIGKILL is repeated for so long; who is left then hangs in the kernel, or is not ours.
    pub(crate) const KILL: Duration = Duration::from_millis(750);
    /// A watcher that got SIGTERM may take so long to end everything below it.
    pub(crate) const WATCHER: Duration = TERMINATE.saturating_add(KILL);
    /// What was said before the end is read for so long.
    pub(crate) const STDERR_DRAIN: Duration = Duration::from_millis(300);
    /// The longest way: a server that ignores everything, below a watcher that hangs, with a process
    /// that cannot be ended at all. Without the latter two it is the first two steps.
    pub(crate) const TOTAL: Duration = GRACEFUL_EXIT
        .saturating_add(WATCHER)
        .saturating_add(KILL)
        .saturating_add(STDERR_DRAIN)
        .saturating_add(KILL);
}

/// A server that was started.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Dropping it is how the server is asked to leave; its owner does so when
    /// [`ProcessHandle::stopping`] says so.
    pub(crate) stdin: ChildStdin,
    /// Ends when the server does, or closes it.
    pub(crate) stdout: ChildStdout,
    /// The process itself.
    pub(crate) handle: ProcessHandle,
}

/// The handle of a process that a task keeps.
///
/// Dropping it ends the process and everything below it as [`ProcessHandle::terminate`] does, in that task.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    stop: DropGuard,
    stopping: CancellationToken,
    /// The task holds the sender until nothing is left of the process and its kin.
    exit: watch::Receiver<Option<ProcessExit>>,
    stderr_tail: Arc<StderrTail>,
}

impl ProcessHandle {
    /// Resolves when the process has ended and what it said last has been read.
    ///
    /// # Cancellation
    ///
    /// Nothing happens to the process, and it can be awaited again.
    pub(crate) async fn exited(&self) -> ProcessExit {
        let mut ended = self.exit.clone();
        let seen = ended.wait_for(Option::is_some).await;
        // The sender is gone without a word only if the runtime drops its tasks.
        seen.ok().and_then(|ended| *ended).unwrap_or(ProcessExit::Unknown)
    }

    /// Ends the process and waits until nothing is left of it, at most [`timeouts::TOTAL`].
    ///
    /// # Cancellation
    ///
    /// The end goes on in the task that keeps the process.
    pub(crate) async fn terminate(self) -> ProcessExit {
        let mut exit_watch = self.exit.clone();
        drop(self.stop);
        let exit_wait = async { while exit_watch.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(timeouts::TOTAL, exit_wait).await;
        let ended = *exit_watch.borrow();
        ended.unwrap_or(ProcessExit::Unknown)
    }

    /// Canceled as soon as the end was asked for: whoever holds the standard input drops it then.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// The last lines of its standard error, for the message that says how it ended.
    pub(crate) fn stderr_tail(&self) -> String {
        self.stderr_tail.text()
    }
}
