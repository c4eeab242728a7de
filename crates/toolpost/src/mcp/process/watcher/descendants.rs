//! The descendants of a watcher.

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use tokio::signal::unix;

use super::super::exit_status::SIGNAL_BASE;
use super::super::process_group::ProcessSet;

/// The server, its descendants, and orphans that were reparented to the watcher.
pub(super) struct Descendants {
    server: Pid,
    status: Option<WaitStatus>,
}

impl Descendants {
    pub(super) fn new(server: Pid) -> Self {
        Self { server, status: None }
    }

    /// Waits until the server has exited, and reaps other children that exit before it.
    pub(super) async fn wait_server_exit(&mut self, child_signals: &mut unix::Signal) {
        loop {
            self.reap();
            if self.status.is_some() {
                return;
            }
            child_signals.recv().await;
        }
    }

    /// Returns the exit code of the server by shell convention.
    pub(super) fn exit_code(&self) -> u8 {
        let code = self.status.and_then(|status| {
            status.exit_status().or_else(|| Some(SIGNAL_BASE + status.terminating_signal()?))
        });
        // The status is missing only if the server could not be killed.
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::EXIT_INTERNAL_ERROR)
    }

    /// Reaps exited children. Returns whether a child is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.server => self.status = Some(status),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

#[cfg(target_os = "linux")]
impl ProcessSet for Descendants {
    /// Orphans are reparented to the watcher, so a descendant exists only if there is a child.
    fn poll_running(&mut self) -> bool {
        self.reap()
    }

    fn signal(&self, signal: Signal) {
        use super::super::process_table;
        use rustix::process::{getpid, kill_process};
        match process_table::read() {
            Some(table) => {
                process_table::descendants(getpid(), &table)
                    .iter()
                    .for_each(|entry| process_table::signal(entry, signal));
            }
            // Without a process table only the server can be signaled, unless it was reaped.
            None if self.status.is_none() => {
                let _ = kill_process(self.server, signal);
            }
            None => {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ProcessSet for Descendants {
    fn poll_running(&mut self) -> bool {
        self.reap();
        super::super::process_group::ProcessGroup(self.server).poll_running()
    }

    fn signal(&self, signal: Signal) {
        super::super::process_group::ProcessGroup(self.server).signal(signal);
    }
}
