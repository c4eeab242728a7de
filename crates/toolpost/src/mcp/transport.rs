//! Common interface of the stdio and HTTP transports.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::dispatcher::Dispatcher;
use super::error::RequestError;
use super::http::HttpTransport;
use super::pending::RequestResult;
use super::protocol_version::ProtocolProfile;
use super::request::ClientRequest;
use super::settings::{McpSettings, McpTransport};
use super::source::OAuthHooks;
use super::stdio::StdioTransport;

/// A connection to a server.
#[derive(Debug)]
pub(super) enum ClientTransport {
    Stdio(StdioTransport),
    Http(HttpTransport),
}

impl ClientTransport {
    pub(super) fn open(
        settings: &Arc<McpSettings>,
        oauth: &OAuthHooks,
        dispatcher: Dispatcher,
        tasks: &TaskTracker,
    ) -> Result<Self, RequestError> {
        match &settings.transport {
            McpTransport::Stdio(stdio) => {
                StdioTransport::start(settings, stdio, dispatcher, tasks).map(Self::Stdio)
            }
            McpTransport::Http(http) => {
                HttpTransport::start(settings, http, oauth, dispatcher, tasks).map(Self::Http)
            }
        }
    }

    pub(super) fn is_http(&self) -> bool {
        matches!(self, Self::Http(_))
    }

    /// Sends a request and waits for its response.
    ///
    /// # Cancellation
    ///
    /// The request is canceled at the server.
    pub(super) async fn request(
        &self,
        protocol: &ProtocolProfile,
        request: &ClientRequest<'_>,
    ) -> RequestResult {
        match self {
            Self::Stdio(stdio) => stdio.request(protocol, request).await,
            Self::Http(http) => http.request(protocol, request).await,
        }
    }

    pub(super) async fn notify(
        &self,
        protocol: &ProtocolProfile,
        method: &str,
    ) -> Result<(), RequestError> {
        match self {
            Self::Stdio(stdio) => {
                stdio.notify(protocol, method).await;
                Ok(())
            }
            Self::Http(http) => http.notify(protocol, method).await,
        }
    }

    /// Resolves with the reason when the server disconnects.
    pub(super) async fn closed(&self) -> String {
        match self {
            Self::Stdio(stdio) => stdio.closed().await,
            Self::Http(http) => http.closed().await,
        }
    }

    /// Adds what is known about the server to the reason why it cannot be used.
    pub(super) fn explain(&self, failure: RequestError) -> RequestError {
        match self {
            Self::Stdio(stdio) => stdio.explain(failure),
            Self::Http(_) => failure,
        }
    }

    /// Marks an HTTP server as disconnected. The exit of a process is detected separately.
    pub(super) fn mark_disconnected(&self, reason: &str) {
        if let Self::Http(http) = self {
            http.mark_disconnected(reason);
        }
    }

    /// Stops a process. Over HTTP, calls in flight have their own connections and can complete.
    pub(super) fn drain(&self) {
        match self {
            Self::Stdio(stdio) => stdio.stop(),
            Self::Http(http) => http.drain(),
        }
    }

    /// Starts closing the connection; its async tasks complete the shutdown.
    pub(super) fn stop(&self) {
        match self {
            Self::Stdio(stdio) => stdio.stop(),
            Self::Http(http) => http.stop(),
        }
    }
}

impl Drop for ClientTransport {
    /// Stops the connection even if the handshake is canceled.
    fn drop(&mut self) {
        self.stop();
    }
}
