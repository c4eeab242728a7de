//! The parent process whose exit is watched.

use std::time::Duration;

use rustix::process::{Pid, getppid};
use tokio::sync::oneshot;

/// Poll interval if the operating system does not report the exit.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The expected parent process.
pub(super) struct ParentProcess {
    id: Pid,
    /// Completes when the process exits; `None` if the operating system cannot report it.
    exit: Option<oneshot::Receiver<()>>,
}

impl ParentProcess {
    pub(super) fn new(id: Pid) -> Self {
        Self { id, exit: watch_exit(id) }
    }

    /// Whether the parent has exited. If it has not after the pidfd was opened, the pidfd refers to
    /// the parent and not to another process with a reused id.
    pub(super) fn has_exited(&self) -> bool {
        getppid() != Some(self.id)
    }

    /// Waits until the process has exited.
    pub(super) async fn wait_exit(&mut self) {
        if let Some(end) = self.exit.take()
            && end.await.is_ok()
        {
            return;
        }
        while !self.has_exited() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Spawns a thread that polls a pidfd of the process, and that ends with the watcher.
#[cfg(target_os = "linux")]
fn watch_exit(id: Pid) -> Option<oneshot::Receiver<()>> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open};

    /// Stack size of the thread, which only calls `poll`.
    const STACK: usize = 64 * 1024;

    let handle = pidfd_open(id, PidfdFlags::empty()).ok()?;
    let (sender, end) = oneshot::channel();
    let wait = move || {
        let mut handles = [PollFd::new(&handle, PollFlags::IN)];
        let seen = loop {
            match poll(&mut handles, None) {
                Err(Errno::INTR) => {}
                seen => break seen,
            }
        };
        // On an error the sender is dropped, and the receiver polls instead.
        if seen.is_ok() {
            let _ = sender.send(());
        }
    };
    std::thread::Builder::new().stack_size(STACK).spawn(wait).ok()?;
    Some(end)
}

#[cfg(not(target_os = "linux"))]
fn watch_exit(_: Pid) -> Option<oneshot::Receiver<()>> {
    None
}
