//! MCP servers that run as child processes.
//!
//! | file | contents |
//! |---|---|
//! | `spawn` | the command line, the environment, and why a server cannot be started |
//! | `child` | the async task that owns the process: waits for its exit and shuts it down |
//! | `process_group` | terminating a set of processes |
//! | `watcher` | the process between this process and the server, which outlives this process |
//! | `stderr`, `stderr_tail` | standard error of the server: logged, and the last lines kept |
//! | `exit_status` | how the process exited |
//!
//! A server runs in its own process group, so that Ctrl-C in a terminal reaches only this process.
//! It gets the variables from its settings and inherits only those that programs commonly need,
//! such as `PATH`, `HOME`, locale and proxy variables. Other variables may contain secrets.
//!
//! Terminating a server takes at most [`timeouts::TOTAL`]: its standard input is closed and it can
//! exit gracefully, then SIGTERM and SIGKILL follow. Without a watcher the signals go to the
//! process group and miss processes that left the group. With a watcher they go to every
//! descendant, including daemons, and are sent even if this process is killed: see [`watch_child`].
//!
//! Unix only: it uses process groups and signals.

mod child;
mod exit_status;
#[cfg(target_os = "linux")]
mod orphans;
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

pub(crate) use exit_status::ProcessExit;
#[cfg(target_os = "linux")]
pub use orphans::reap_orphans;
pub use spawn::DEPTH_VARIABLE;
pub(crate) use spawn::spawn;
pub(crate) use stderr_tail::StderrTail;
pub use watcher::watch_child;

/// Maximum duration of each termination step.
pub(crate) mod timeouts {
    use std::time::Duration;

    /// How long a server may take to exit after its standard input was closed.
    pub(crate) const GRACEFUL_EXIT: Duration = Duration::from_millis(1500);
    /// Time between SIGTERM and SIGKILL.
    pub(crate) const TERMINATE: Duration = Duration::from_millis(1500);
    /// How long SIGKILL is repeated. A process that still runs then is stuck in the kernel or
    /// cannot be signaled.
    pub(crate) const KILL: Duration = Duration::from_millis(750);
    /// Time for a watcher to terminate its descendants after SIGTERM.
    pub(crate) const WATCHER: Duration = TERMINATE.saturating_add(KILL);
    /// How long the remaining standard error is read after the exit.
    pub(crate) const STDERR_DRAIN: Duration = Duration::from_millis(300);
    /// Maximum duration of the whole termination. It is reached only if the server ignores the
    /// closed input and SIGTERM, its watcher hangs, and a process cannot be killed.
    pub(crate) const TOTAL: Duration = GRACEFUL_EXIT
        .saturating_add(WATCHER)
        .saturating_add(KILL)
        .saturating_add(STDERR_DRAIN)
        .saturating_add(KILL);
}

/// A started server.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    /// Dropping it requests a graceful exit; the owner drops it when [`ProcessHandle::stopping`] is
    /// canceled.
    pub(crate) stdin: ChildStdin,
    /// Reaches its end when the server exits or closes it.
    pub(crate) stdout: ChildStdout,
    /// Handle to the process.
    pub(crate) handle: ProcessHandle,
}

/// Handle to a process that an async task owns.
///
/// Dropping it terminates the process and its descendants like [`ProcessHandle::terminate`], in
/// that task.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    stop: DropGuard,
    stopping: CancellationToken,
    /// Exit status; the task holds the sender until the process and its group are terminated.
    exit: watch::Receiver<Option<ProcessExit>>,
    stderr_tail: Arc<StderrTail>,
}

impl ProcessHandle {
    /// Resolves when the process has exited and its remaining standard error has been read.
    ///
    /// # Cancellation
    ///
    /// The process is not affected, and the exit can be awaited again.
    pub(crate) async fn exited(&self) -> ProcessExit {
        let mut ended = self.exit.clone();
        let seen = ended.wait_for(Option::is_some).await;
        // The sender is dropped without a status only if the runtime drops its tasks.
        seen.ok().and_then(|ended| *ended).unwrap_or(ProcessExit::Unknown)
    }

    /// Terminates the process and waits until it and its group have exited, at most
    /// [`timeouts::TOTAL`].
    ///
    /// # Cancellation
    ///
    /// Termination continues in the task that owns the process.
    pub(crate) async fn terminate(self) -> ProcessExit {
        let mut exit_watch = self.exit.clone();
        drop(self.stop);
        let exit_wait = async { while exit_watch.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(timeouts::TOTAL, exit_wait).await;
        let ended = *exit_watch.borrow();
        ended.unwrap_or(ProcessExit::Unknown)
    }

    /// Canceled when termination is requested; the owner of the standard input then drops it.
    pub(crate) fn stopping(&self) -> CancellationToken {
        self.stopping.clone()
    }

    /// Returns the last lines of standard error.
    pub(crate) fn stderr_tail(&self) -> Arc<StderrTail> {
        Arc::clone(&self.stderr_tail)
    }
}
