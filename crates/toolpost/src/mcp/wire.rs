//! The two ways to a server, behind one face.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::ask::Ask;
use super::failure::Failure;
use super::http::Http;
use super::pending::Answer;
use super::settings::{McpSettings, McpTransport};
use super::source::SourceHooks;
use super::speech::Speech;
use super::stdio::Stdio;
use super::switch::Switch;

/// A connection to a server.
#[derive(Debug)]
pub(super) enum Wire {
    Stdio(Stdio),
    Http(Http),
}

impl Wire {
    pub(super) fn open(
        settings: &Arc<McpSettings>,
        hooks: &SourceHooks,
        switch: Switch,
        tasks: &TaskTracker,
    ) -> Result<Self, Failure> {
        match &settings.transport {
            McpTransport::Stdio(stdio) => {
                Stdio::start(settings, stdio, switch, tasks).map(Self::Stdio)
            }
            McpTransport::Http(http) => {
                Http::start(settings, http, hooks, switch, tasks).map(Self::Http)
            }
        }
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Cancellation
    ///
    /// The server is told that nobody waits any more.
    pub(super) async fn ask(&self, speech: &Speech, ask: &Ask<'_>) -> Answer {
        match self {
            Self::Stdio(stdio) => stdio.ask(speech, ask).await,
            Self::Http(http) => http.ask(speech, ask).await,
        }
    }

    pub(super) async fn notify(&self, speech: &Speech, method: &str) -> Result<(), Failure> {
        match self {
            Self::Stdio(stdio) => {
                stdio.notify(speech, method).await;
                Ok(())
            }
            Self::Http(http) => http.notify(speech, method).await,
        }
    }

    /// Resolves when the server is gone, with words about it.
    pub(super) async fn over(&self) -> String {
        match self {
            Self::Stdio(stdio) => stdio.over().await,
            Self::Http(http) => http.over().await,
        }
    }

    /// Takes note that the server could not be reached. Whether a process is there is known anyway.
    pub(super) fn lose(&self, words: &str) {
        if let Self::Http(http) = self {
            http.lose(words);
        }
    }

    /// Ends what is of no use any more. A call over HTTP has a connection of its own, and may come to
    /// its end.
    pub(super) fn retire(&self) {
        match self {
            Self::Stdio(stdio) => stdio.stop(),
            Self::Http(http) => http.retire(),
        }
    }

    /// Begins the end; the tasks of the connection see to it.
    pub(super) fn stop(&self) {
        match self {
            Self::Stdio(stdio) => stdio.stop(),
            Self::Http(http) => http.stop(),
        }
    }
}

impl Drop for Wire {
    /// Whoever is stopped while a server is being greeted never comes to stop the connection.
    fn drop(&mut self) {
        self.stop();
    }
}
