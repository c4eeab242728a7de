//! The methods of MCP as requests and results, without a transport.

mod call;
mod client;
mod initialize;
mod list_changed;
mod notifier;
mod params;
mod passthrough;
mod request;
mod resource_subscriptions;
mod room_calls;
mod segmented_body;
mod server_requests;
mod settings;
mod tool_cache;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolpost::Pipeline;

use crate::auth::Authenticator;

pub(crate) use client::{ClientContext, ClientState, LogLevel};
pub(crate) use initialize::{VERSIONS, negotiate_version};
pub(crate) use list_changed::ChangeNotifier;
pub(crate) use notifier::Notifier;
pub(crate) use params::{RequestParams, SubscriptionFilter, parse_canceled};
pub(crate) use request::{McpRequest, McpResponse};
pub(crate) use segmented_body::SegmentedBody;
pub use settings::{McpEndpointSettings, McpView};

/// Handles the requests of MCP clients.
#[derive(Debug)]
pub(crate) struct McpService {
    pipeline: Pipeline,
    authenticator: Authenticator,
    /// Canceled when the gateway stops. Ends subscriptions, but not calls.
    stopping: CancellationToken,
    /// Settings for new requests.
    settings: ArcSwap<McpEndpointSettings>,
    tool_cache: tool_cache::ToolCache,
    /// Permits for resource subscriptions, shared by all clients.
    subscription_permits: Arc<Semaphore>,
}

impl McpService {
    pub(crate) fn new(
        pipeline: Pipeline,
        authenticator: Authenticator,
        stopping: CancellationToken,
        settings: McpEndpointSettings,
    ) -> Arc<Self> {
        let permits = settings.max_resource_subscriptions.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            pipeline,
            authenticator,
            stopping,
            settings: ArcSwap::from_pointee(settings),
            tool_cache: tool_cache::ToolCache::default(),
            subscription_permits: Arc::new(Semaphore::new(permits)),
        })
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> Arc<McpEndpointSettings> {
        self.settings.load_full()
    }

    /// Replaces the settings for new requests. The limits of listeners and resource subscriptions,
    /// whose permits may be in use, do not change.
    pub(crate) fn configure(&self, settings: &McpEndpointSettings) {
        let before = self.settings();
        self.settings.store(Arc::new(McpEndpointSettings {
            max_listeners: before.max_listeners,
            max_resource_subscriptions: before.max_resource_subscriptions,
            ..settings.clone()
        }));
        self.tool_cache.clear();
    }
}
