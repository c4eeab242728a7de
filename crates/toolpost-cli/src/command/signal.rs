//! Being asked to stop: Ctrl-C, and the signal that supervisors and agents send. Being asked to read
//! the configuration again: SIGHUP.

/// The requests to stop, from the moment in which this is made.
pub(super) struct StopRequests {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl StopRequests {
    pub(super) fn new() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
            })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Resolves on the next request.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            // Without signals there is nothing to wait for.
            std::future::pending::<()>().await;
        }
    }
}

/// The requests to read the configuration again, where there is a signal for that.
pub(super) struct ReloadRequests {
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

impl ReloadRequests {
    pub(super) fn new() -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            Ok(Self { hangup: signal(SignalKind::hangup())? })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// Resolves on the next request.
    pub(super) async fn next(&mut self) {
        #[cfg(unix)]
        self.hangup.recv().await;
        #[cfg(not(unix))]
        std::future::pending::<()>().await;
    }
}
