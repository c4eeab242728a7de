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
use toolpost::Identity;

use crate::auth::{AccessEnd, Authenticator};
use crate::endpoint::settings::GatewaySettings;
use crate::mcp_service::{McpEndpointSettings, McpService};
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
    pub(crate) fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        access_end: AccessEnd,
    ) -> usize {
        let sessions = match access_end {
            AccessEnd::Revoked => self.sessions.disconnect_identities(is_ended),
            // The client continues its session with another token.
            AccessEnd::Expired => 0,
        };
        sessions + self.listeners.disconnect_identities(is_ended)
    }

    /// Returns the number of sessions.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.count()
    }
}
