//! Signals: Ctrl-C and SIGTERM stop a command, SIGHUP reloads the configuration.

use std::io::IsTerminal;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listener for signals. Receives them from its creation on.
pub(super) struct Signals(Vec<Signal>);

impl Signals {
    pub(super) fn stop() -> std::io::Result<Self> {
        Ok(Self(vec![signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?]))
    }

    pub(super) fn reload() -> std::io::Result<Self> {
        Ok(Self(vec![signal(SignalKind::hangup())?]))
    }

    pub(super) async fn next(&mut self) {
        std::future::poll_fn(|context| {
            match self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Whether a standard stream is a terminal. After the terminal was closed, none is.
pub(super) fn has_terminal() -> bool {
    std::io::stdin().is_terminal()
        || std::io::stdout().is_terminal()
        || std::io::stderr().is_terminal()
}
