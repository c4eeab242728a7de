//! A client and its state between requests.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::{RpcError, RpcId};
use toolpost::view::{CacheHints, CacheScope, Listing, ProtocolGeneration, ToolSet};
use toolpost::{AbortHandle, Authority, Endpoint, Identity, Operation};

use super::McpService;
use super::resource_subscriptions::ResourceSubscriptions;
use super::server_requests::ServerRequests;
use super::settings::McpView;
use super::tool_cache::is_tool;

/// The client of a request and its view.
#[derive(Debug, Clone)]
pub(crate) struct ClientContext {
    pub(crate) service: Arc<McpService>,
    /// Endpoint name for the journal.
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: Arc<Identity>,
    pub(crate) view: McpView,
    pub(crate) generation: ProtocolGeneration,
    /// State between requests, if the client has any.
    pub(crate) state: Option<Arc<ClientState>>,
}

/// State between requests; mostly of clients before 2026-07-28.
#[derive(Debug, Default)]
pub(crate) struct ClientState {
    /// Minimum level of log messages.
    pub(super) log_level: Mutex<LogLevel>,
    pub(super) subscriptions: Arc<ResourceSubscriptions>,
    /// Server requests to the client, if it accepts them.
    pub(super) server_requests: ArcSwapOption<ServerRequests>,
    /// The requests in flight by id, so that the client can cancel them.
    in_flight: Mutex<HashMap<RpcId, Arc<CancelableRequest>>>,
}

impl ClientState {
    /// Applies the params of `initialize`: the server requests that the client accepts.
    pub(crate) fn initialize(&self, params: Option<&RawValue>) {
        self.server_requests.store(ServerRequests::from_initialize(params));
    }

    /// Delivers the response to a server request.
    pub(crate) fn handle_response(
        &self,
        id: Option<&RawValue>,
        response: Result<&RawValue, &RawValue>,
    ) {
        let id = id.and_then(RpcId::from_raw);
        if let (Some(server_requests), Some(id)) = (&*self.server_requests.load(), id) {
            server_requests.resolve(&id, response);
        }
    }

    /// Cancels a request in flight. A finished request is not affected.
    pub(crate) fn cancel(&self, id: &RpcId, reason: &str) {
        if let Some(request) = self.in_flight.lock().remove(id) {
            request.cancel(reason);
        }
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.in_flight.lock().is_empty()
    }

    /// Ends everything that is not a request.
    pub(crate) fn close(&self) {
        self.subscriptions.clear();
        self.close_server_requests();
    }

    /// Fails pending server requests, because the client can no longer respond.
    pub(crate) fn close_server_requests(&self) {
        if let Some(server_requests) = &*self.server_requests.load() {
            server_requests.close();
        }
    }

    /// Registers a request. It replaces another one with the same id.
    pub(super) fn register(&self, id: RpcId) -> Arc<CancelableRequest> {
        let request = Arc::<CancelableRequest>::default();
        self.in_flight.lock().insert(id, Arc::clone(&request));
        request
    }

    /// Removes a finished request.
    pub(super) fn remove(&self, id: &RpcId, request: &Arc<CancelableRequest>) {
        let mut requests = self.in_flight.lock();
        if requests.get(id).is_some_and(|known| Arc::ptr_eq(known, request)) {
            requests.remove(id);
        }
    }
}

/// A request that its client can cancel, even before its call starts.
#[derive(Debug, Default)]
pub(super) struct CancelableRequest {
    pub(super) token: CancellationToken,
    call: OnceLock<AbortHandle>,
}

impl CancelableRequest {
    pub(super) fn cancel(&self, reason: &str) {
        self.token.cancel();
        if let Some(call) = self.call.get() {
            call.abort(reason);
        }
    }

    /// Sets the call of the request. If the request is already canceled, the call is aborted.
    pub(super) fn set_call(&self, call: AbortHandle) {
        // A request makes at most one call.
        let _ = self.call.set(call);
        if self.token.is_cancelled() {
            self.cancel("canceled by the client");
        }
    }
}

impl ClientContext {
    pub(super) fn authority(&self) -> Authority {
        Authority::untrusted(Some(Arc::clone(&self.identity)))
    }

    pub(super) fn can_call(&self, operation: &Operation) -> bool {
        operation.spec().access_control.is_callable_by(Some(&self.identity))
    }

    /// Checks that the selected source is visible. Waits for a source that is starting.
    pub(crate) async fn check_source(&self) -> Result<(), RpcError> {
        let Some(source) = &self.view.source else { return Ok(()) };
        let (pipeline, timeout) = (&self.service.pipeline, self.service.settings().source_timeout);
        pipeline.wait_for_sources(Some(source), Some(timeout)).await;
        let catalog = pipeline.registry().catalog();
        let is_visible = catalog.namespace(source).iter().any(|operation| self.can_call(operation));
        if !is_visible && !catalog.is_pending(source) {
            let displayed: String = source.chars().take(100).collect();
            return Err(RpcError::invalid_params(format!("unknown source `{displayed}`")));
        }
        Ok(())
    }

    pub(super) fn tool_set(&self) -> Arc<ToolSet> {
        let settings = &self.service.settings();
        let catalog = self.service.pipeline.registry().catalog();
        let dialect = self.view.dialect.unwrap_or(settings.dialect);
        self.service.tool_cache.get(&catalog, dialect, self.view.source.as_ref(), settings)
    }

    pub(super) fn tool_listing(&self) -> Arc<Listing> {
        let list_mode = self.view.tools.unwrap_or(self.service.settings().tools);
        self.tool_set()
            .listing(list_mode, self.generation, |operation| is_tool(operation, &self.identity))
    }

    pub(super) fn cache_hints(&self) -> CacheHints {
        let ttl = self.service.settings().list_ttl.as_millis();
        let is_open = self.service.authenticator.allows_anonymous();
        CacheHints {
            ttl_ms: u64::try_from(ttl).unwrap_or(u64::MAX),
            scope: if is_open { CacheScope::Public } else { CacheScope::Private },
        }
    }
}

/// Names of the log levels, in order of increasing severity.
const LOG_LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A log level: an index into `LOG_LEVELS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogLevel(u8);

impl LogLevel {
    pub(super) const INFO: Self = Self(1);

    /// Returns the level with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let position = LOG_LEVELS.iter().position(|candidate| *candidate == name)?;
        u8::try_from(position).ok().map(Self)
    }

    /// Returns the names of all levels, separated by commas.
    pub(crate) fn names() -> String {
        LOG_LEVELS.join(", ")
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self::INFO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels_are_ordered_by_severity() {
        assert_eq!(LogLevel::from_name("info"), Some(LogLevel::default()));
        assert!(LogLevel::from_name("warning") > LogLevel::from_name("notice"));
        assert_eq!(LogLevel::from_name("loud"), None);
    }
}
