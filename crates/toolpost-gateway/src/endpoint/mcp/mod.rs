//! The MCP endpoint: operations as tools, over streamable HTTP and stdio.
//!
//! | file | contents |
//! |---|---|
//! | `http`, `response`, `batch`, `generation` | `/mcp`: requests, their headers, responses as JSON and as events |
//! | `stdio` | one client on a pair of streams |
//! | `json_rpc`, `params` | JSON-RPC messages and request params |
//! | `request`, `call` | a request and its response, on any transport |
//! | `room_requests` | requests from rooms |
//! | `passthrough` | resources and prompts, served by their sources |
//! | `server_requests` | requests to clients: elicitation, sampling, roots |
//! | `notifier`, `log_level`, `list_changed` | notifications to clients |
//! | `resource_subscriptions` | the resource subscriptions of one client |
//! | `session`, `tool_cache`, `listeners` | state between requests |

mod audit_rejected;
mod batch;
mod call;
mod generation;
mod http;
mod initialize;
mod json_rpc;
mod list_changed;
mod listeners;
mod log_level;
mod notifier;
mod params;
mod passthrough;
mod request;
mod resource_subscriptions;
mod response;
mod room_requests;
mod segmented_body;
mod server_requests;
mod session;
mod settings;
mod stdio;
mod tool_cache;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;

pub(super) use http::serve;
pub(crate) use room_requests::{
    RoomRequest, handle as handle_room_request, mask_secrets as mask_room_secrets,
};
pub use settings::{McpEndpointSettings, McpView};
pub(crate) use stdio::serve as serve_streams;

/// State of the MCP endpoint that outlives a request.
#[derive(Debug)]
pub(crate) struct McpEndpoint {
    /// Settings for new requests.
    settings: ArcSwap<McpEndpointSettings>,
    started_at: tokio::time::Instant,
    tool_cache: tool_cache::ToolCache,
    sessions: session::SessionStore,
    /// Listener streams without a session.
    listeners: listeners::Listeners,
    /// Permits for listener streams.
    listener_permits: Arc<Semaphore>,
    /// Permits for resource subscriptions, shared by all clients.
    subscription_permits: Arc<Semaphore>,
}

impl McpEndpoint {
    pub(crate) fn new(settings: &McpEndpointSettings) -> Self {
        let sessions =
            session::SessionStore::new(settings.max_sessions, settings.session_idle_timeout);
        let listener_permits =
            Arc::new(Semaphore::new(settings.max_listeners.min(Semaphore::MAX_PERMITS)));
        let subscription_permits = Arc::new(Semaphore::new(
            settings.max_resource_subscriptions.min(Semaphore::MAX_PERMITS),
        ));
        let (started_at, tool_cache) =
            (tokio::time::Instant::now(), tool_cache::ToolCache::default());
        let (settings, listeners) =
            (ArcSwap::from_pointee(settings.clone()), listeners::Listeners::default());
        Self {
            settings,
            started_at,
            tool_cache,
            sessions,
            listeners,
            listener_permits,
            subscription_permits,
        }
    }

    /// Returns the current settings.
    pub(super) fn settings(&self) -> Arc<McpEndpointSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings for new requests. The limits of listeners and resource subscriptions,
    /// whose permits may be in use, and the startup timeout do not change.
    pub(crate) fn update_settings(&self, settings: &McpEndpointSettings) {
        let before = self.settings();
        let mut settings = settings.clone();
        (settings.max_listeners, settings.max_resource_subscriptions) =
            (before.max_listeners, before.max_resource_subscriptions);
        settings.startup_source_timeout = before.startup_source_timeout;
        self.sessions.set_limits(settings.max_sessions, settings.session_idle_timeout);
        self.settings.store(Arc::new(settings));
        self.tool_cache.clear();
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
