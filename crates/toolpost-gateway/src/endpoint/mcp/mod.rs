//! The MCP endpoint: operations as tools, over streamable HTTP and stdio.

mod batch;
mod generation;
mod http;
mod listeners;
mod response;
mod session;
mod stdio;

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc;

use crate::auth::Authenticator;
use crate::endpoint::settings::GatewaySettings;
use crate::mcp_service::{
    McpEndpointSettings, McpRequest, McpResponse, McpService, Notifier, SegmentedBody,
};
pub(crate) use http::serve;
pub(crate) use stdio::serve as serve_streams;

/// State of the MCP endpoint that outlives a request.
#[derive(Debug)]
pub(crate) struct McpEndpoint {
    service: Arc<McpService>,
    authenticator: Authenticator,
    settings: Arc<GatewaySettings>,
    /// Canceled when the gateway stops.
    stopping: CancellationToken,
    sessions: session::SessionStore,
    /// Listener streams without a session.
    listeners: listeners::Listeners,
    /// Permits for listener streams.
    listener_permits: Arc<Semaphore>,
}

impl McpEndpoint {
    pub(crate) fn new(
        service: Arc<McpService>,
        authenticator: Authenticator,
        settings: Arc<GatewaySettings>,
        stopping: CancellationToken,
    ) -> Self {
        let permits = settings.mcp.max_listeners.min(Semaphore::MAX_PERMITS);
        Self {
            service,
            authenticator,
            settings,
            stopping,
            sessions: session::SessionStore::default(),
            listeners: listeners::Listeners::default(),
            listener_permits: Arc::new(Semaphore::new(permits)),
        }
    }

    /// Replaces the settings for new requests.
    pub(crate) fn update_settings(&self, settings: &McpEndpointSettings) {
        self.service.configure(settings);
    }

    /// Ends the sessions and streams of revoked identities and returns their number.
    pub(crate) fn disconnect_identities(&self, is_revoked: &dyn Fn(&str) -> bool) -> usize {
        self.sessions.disconnect_identities(is_revoked)
            + self.listeners.disconnect_identities(is_revoked)
    }

    /// Returns the number of sessions.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.count()
    }
}

/// A complete message for the client.
struct EncodedResponse {
    message: SegmentedBody,
    /// The JSON-RPC error code, if this server rejected the request.
    error_code: Option<i64>,
    /// False if the client canceled the request.
    is_expected: bool,
}

/// Handles a request and encodes its response.
async fn handle(request: McpRequest, notifier: Notifier) -> EncodedResponse {
    let id = request.id.clone();
    let out = json_rpc::start_result(&id);
    let McpResponse { result, is_expected } = request.handle(notifier, out).await;
    match result {
        Ok(mut message) => {
            message.tail_mut().push(b'}');
            EncodedResponse { message, error_code: None, is_expected }
        }
        Err(error) => EncodedResponse {
            message: error.encode(Some(&id)).into(),
            error_code: (!error.is_forwarded).then_some(error.code),
            is_expected,
        },
    }
}
