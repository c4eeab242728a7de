//! The process whose end is watched for.

use std::time::Duration;

use rustix::process::{Pid, getppid};
use tokio::sync::oneshot;

/// How often to look where the system does not tell.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Our parent, or who should be.
pub(super) struct ParentProcess {
    id: Pid,
    /// Told when the process ends; `None` where the system cannot tell.
    exit: Option<oneshot::Receiver<()>>,
}

impl ParentProcess {
    pub(super) fn new(id: Pid) -> Self {
        Self { id, exit: watch_exit(id) }
    }

    /// Looked at after the handle was made, this also tells that the handle is that of our parent
    /// and not of another process with an id that was used again.
    pub(super) fn has_exited(&self) -> bool {
        getppid() != Some(self.id)
    }

    /// Resolves when the process has ended.
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

/// A thread that waits for a handle of the process, and ends with the watcher. The runtime could wait
/// for it as well, but can be given a handle only by unsafe code.
#[cfg(target_os = "linux")]
fn watch_exit(id: Pid) -> Option<oneshot::Receiver<()>> {
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, pidfd_open};

    /// It calls one function.
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
        // Without a word, whoever waits looks for itself.
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
