//! Everything below a watcher.

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, wait};
use tokio::signal::unix;

use super::super::ended::SIGNAL_BASE;
use super::super::family::Family;

/// The server, its descendants, and those that became ours when their parents went.
pub(super) struct Brood {
    server: Pid,
    status: Option<WaitStatus>,
}

impl Brood {
    pub(super) fn new(server: Pid) -> Self {
        Self { server, status: None }
    }

    /// Resolves when the server has ended, and buries everybody who ends before.
    pub(super) async fn server_ends(&mut self, deaths: &mut unix::Signal) {
        loop {
            self.bury();
            if self.status.is_some() {
                return;
            }
            deaths.recv().await;
        }
    }

    /// The code of the server, as a shell would tell it.
    pub(super) fn exit_code(&self) -> u8 {
        let code = self.status.and_then(|status| {
            status.exit_status().or_else(|| Some(SIGNAL_BASE + status.terminating_signal()?))
        });
        // Only a server that cannot be killed has none.
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::BROKEN)
    }

    /// Takes note of everybody who ended. Says whether a child is left.
    fn bury(&mut self) -> bool {
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
impl Family for Brood {
    /// Whoever is below us is a child of ours, or below one.
    fn is_left(&mut self) -> bool {
        self.bury()
    }

    fn signal(&self, signal: Signal) {
        use super::super::table;
        use rustix::process::{getpid, kill_process};
        match table::read() {
            Some(table) => {
                table::below(getpid(), &table)
                    .iter()
                    .for_each(|entry| table::signal(entry, signal));
            }
            // Without a table there is one of whom we know, unless it has ended.
            None if self.status.is_none() => {
                let _ = kill_process(self.server, signal);
            }
            None => {}
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Family for Brood {
    fn is_left(&mut self) -> bool {
        self.bury();
        super::super::family::Group(self.server).is_left()
    }

    fn signal(&self, signal: Signal) {
        super::super::family::Group(self.server).signal(signal);
    }
}
