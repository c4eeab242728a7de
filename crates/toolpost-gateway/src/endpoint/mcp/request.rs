//! An MCP request and its response, independent of the transport.

use std::sync::Arc;

use axum::http::HeaderMap;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolpost::view::{CacheHints, CacheScope, Listing, ProtocolGeneration, ToolSet};
use toolpost::{Authority, Catalog, ClientChannel, Endpoint, Identity, Operation};

use super::json_rpc::{self, JsonRpcError, JsonRpcId};
use super::log_level::{LogLevel, SessionLogLevel};
use super::notifier::Notifier;
use super::params::RequestParams;
use super::passthrough::Passthrough;
use super::resource_subscriptions::ResourceSubscriptions;
use super::segmented_body::SegmentedBody;
use super::server_requests::ServerRequests;
use super::settings::McpView;
use super::tool_cache::is_tool;
use crate::app::Gateway;

/// The client of a request and its view.
#[derive(Debug, Clone)]
pub(super) struct ClientContext {
    pub(super) gateway: Gateway,
    /// Endpoint name for the journal.
    pub(super) endpoint: Endpoint,
    pub(super) identity: Arc<Identity>,
    pub(super) view: McpView,
    pub(super) generation: ProtocolGeneration,
    /// Log level of a client before 2026-07-28.
    pub(super) log_level: Arc<SessionLogLevel>,
    /// Resource subscriptions of a client before 2026-07-28, if it can receive notifications.
    pub(super) subscriptions: Option<Arc<ResourceSubscriptions>>,
    /// Server requests to a client before 2026-07-28, if it accepts them.
    pub(super) server_requests: Option<Arc<ServerRequests>>,
}

/// A request with a parsed envelope.
#[derive(Debug)]
pub(super) struct McpRequest {
    pub(super) client: ClientContext,
    pub(super) id: JsonRpcId,
    pub(super) method: String,
    pub(super) params: RequestParams,
    /// The params as received, for methods that forward them.
    pub(super) raw_params: Option<Box<RawValue>>,
    /// Whether the error for an unknown tool suggests a similar name, which requires a comparison
    /// with all names.
    pub(super) suggests_names: bool,
    /// The `Mcp-Param-*` headers, which must match the arguments.
    pub(super) argument_headers: Option<HeaderMap>,
}

/// A complete message for the client.
#[derive(Debug)]
pub(super) struct McpResponse {
    pub(super) message: SegmentedBody,
    /// The JSON-RPC error code, if the response is a protocol error.
    pub(super) error_code: Option<i64>,
    /// False if the client canceled the request.
    pub(super) is_expected: bool,
}

impl McpRequest {
    pub(super) async fn handle(mut self, notifier: Notifier) -> McpResponse {
        let mut out = SegmentedBody::from(json_rpc::start_result(&self.id));
        let result = self.dispatch(&mut out, &notifier).await;
        let is_awaited = notifier.finish();
        match result {
            Ok(()) => {
                out.tail_mut().push(b'}');
                McpResponse { message: out, error_code: None, is_expected: is_awaited }
            }
            Err(rpc_error) => {
                let message = rpc_error.encode(Some(&self.id)).into();
                McpResponse {
                    message,
                    error_code: (!rpc_error.is_from_source).then_some(rpc_error.code),
                    is_expected: is_awaited,
                }
            }
        }
    }

    async fn dispatch(
        &mut self,
        out: &mut SegmentedBody,
        notifier: &Notifier,
    ) -> Result<(), JsonRpcError> {
        let client = &self.client;
        if self.method == "tools/list" {
            client.wait_for_sources().await;
            return self.list_tools(out);
        }
        let out = out.tail_mut();
        match (self.method.as_str(), client.generation) {
            ("tools/call", _) => self.call(out, notifier).await,
            ("server/discover", ProtocolGeneration::Modern) => {
                write_json(out, &client.discover_result())
            }
            ("ping", ProtocolGeneration::Legacy) => write_json(out, &json!({})),
            ("logging/setLevel", ProtocolGeneration::Legacy) => {
                self.set_log_level()?;
                write_json(out, &json!({}))
            }
            (
                method @ ("resources/subscribe" | "resources/unsubscribe"),
                ProtocolGeneration::Legacy,
            ) => {
                tokio::select! {
                    followed = self.handle_subscription(method) => followed?,
                    () = notifier.canceled() => return Err(canceled_error()),
                }
                write_json(out, &json!({}))
            }
            _ => tokio::select! {
                passed = self.pass_through(out, notifier) => passed,
                // Dropping the future cancels the request to the source.
                () = notifier.canceled() => Err(canceled_error()),
            },
        }
    }

    fn set_log_level(&self) -> Result<(), JsonRpcError> {
        let level = self.params.level.as_deref().and_then(LogLevel::from_name);
        let message = || format!("`params.level` must be one of {}", LogLevel::names());
        self.client.log_level.set(level.ok_or_else(|| JsonRpcError::invalid_params(message()))?);
        Ok(())
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe`.
    async fn handle_subscription(&self, method: &str) -> Result<(), JsonRpcError> {
        let Some(following) = &self.client.subscriptions else {
            let message = "resource subscriptions require a session";
            return Err(JsonRpcError::new(JsonRpcError::INVALID_REQUEST, message));
        };
        let uri = self.params.uri.as_deref();
        let uri = uri.ok_or_else(|| JsonRpcError::invalid_params("`uri` must be a string"))?;
        match method {
            "resources/subscribe" => following.subscribe(&self.client, uri).await,
            _ => {
                following.unsubscribe(&self.client, uri);
                Ok(())
            }
        }
    }

    /// Returns the minimum log level for this request.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        match self.client.generation {
            ProtocolGeneration::Modern => LogLevel::from_name(self.params.log_level()?),
            _ => Some(self.client.log_level.get()),
        }
    }

    fn list_tools(&self, out: &mut SegmentedBody) -> Result<(), JsonRpcError> {
        let listing = self.client.tool_listing();
        let cursor = self.params.cursor.as_deref();
        let page = listing
            .page(cursor)
            .map_err(|error| JsonRpcError::invalid_params(error.to_string()))?;
        page.write_head(out.tail_mut());
        out.push_shared(page.tools());
        page.write_tail(out.tail_mut(), Some(self.client.cache_hints()));
        Ok(())
    }

    /// Forwards a request for resources or prompts to its sources.
    async fn pass_through(
        &mut self,
        out: &mut Vec<u8>,
        notifier: &Notifier,
    ) -> Result<(), JsonRpcError> {
        let client_channel = self.client_channel(notifier);
        let client = &self.client;
        if self.method.ends_with("/list") {
            client.wait_for_sources().await;
        }
        let caller = Authority::untrusted(Some(Arc::clone(&client.identity)));
        let metadata = self.params.metadata();
        let passing = client.passthrough(&caller, client_channel.as_ref());
        let passing = Passthrough { metadata: metadata.as_ref(), ..passing };
        match passing.handle(&self.method, self.raw_params.as_deref()).await {
            Some(Ok(result)) => {
                out.extend_from_slice(&result);
                Ok(())
            }
            Some(Err(rpc_error)) => Err(rpc_error.for_client(client_channel.as_ref())),
            None => Err(JsonRpcError::unknown_method(&self.method)),
        }
    }
}

fn canceled_error() -> JsonRpcError {
    JsonRpcError::new(JsonRpcError::CANCELED, "the request was canceled")
}

fn write_json(out: &mut Vec<u8>, result: &Value) -> Result<(), JsonRpcError> {
    serde_json::to_writer(out, result).expect("a value is JSON");
    Ok(())
}

impl ClientContext {
    /// Returns the passthrough for the resources and prompts that this client can access.
    pub(super) fn passthrough<'a>(
        &'a self,
        caller: &'a Authority,
        client_channel: Option<&'a ClientChannel>,
    ) -> Passthrough<'a> {
        Passthrough {
            pipeline: self.gateway.pipeline(),
            caller,
            source: self.view.source.as_deref(),
            generation: self.generation,
            client_channel,
            metadata: None,
            source_timeout: self.gateway.0.mcp.settings().source_timeout,
            requires_auth: !self.gateway.authenticator().allows_anonymous(),
        }
    }

    /// Checks that the selected source is visible. A source that is still starting is awaited for
    /// up to the source timeout.
    pub(super) async fn check_source(&self) -> Result<(), JsonRpcError> {
        let Some(source) = &self.view.source else { return Ok(()) };
        let registry = self.gateway.pipeline().registry();
        let mut changes = registry.watch_changes();
        let source_timeout = self.gateway.0.mcp.settings().source_timeout;
        let deadline = tokio::time::Instant::now() + source_timeout;
        loop {
            changes.mark_unchanged();
            let catalog = registry.catalog();
            if self.can_see(&catalog, source) {
                return Ok(());
            }
            if !catalog.is_pending(source) {
                let displayed: String = source.chars().take(100).collect();
                let message = format!("unknown source `{displayed}`");
                return Err(JsonRpcError::invalid_params(message));
            }
            match tokio::time::timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                _ => return Ok(()),
            }
        }
    }

    /// Waits for pending sources, until the startup timeout has passed since the gateway started.
    async fn wait_for_sources(&self) {
        let until =
            self.gateway.0.mcp.started_at + self.gateway.0.mcp.settings().startup_source_timeout;
        let registry = self.gateway.pipeline().registry();
        let mut changes = registry.watch_changes();
        changes.mark_unchanged();
        while registry.catalog().has_pending() {
            match tokio::time::timeout_at(until, changes.changed()).await {
                Ok(Ok(())) => {}
                _ => return,
            }
        }
    }

    fn can_see(&self, catalog: &Catalog, source: &str) -> bool {
        let is_visible = |operation: &Arc<Operation>| {
            operation.spec().access_control.is_callable_by(Some(&self.identity))
        };
        catalog.namespace(source).iter().any(is_visible)
    }

    pub(super) fn tool_set(&self) -> Arc<ToolSet> {
        let settings = &self.gateway.0.mcp.settings();
        let catalog = self.gateway.pipeline().registry().catalog();
        let dialect = self.view.dialect.unwrap_or(settings.dialect);
        self.gateway.0.mcp.tool_cache.get(&catalog, dialect, self.view.source.as_ref(), settings)
    }

    pub(super) fn tool_listing(&self) -> Arc<Listing> {
        let list_mode = self.view.tools.unwrap_or(self.gateway.0.mcp.settings().tools);
        self.tool_set()
            .listing(list_mode, self.generation, |operation| is_tool(operation, &self.identity))
    }

    pub(super) fn cache_hints(&self) -> CacheHints {
        let ttl = self.gateway.0.mcp.settings().list_ttl.as_millis();
        let is_open = self.gateway.authenticator().allows_anonymous();
        CacheHints {
            ttl_ms: u64::try_from(ttl).unwrap_or(u64::MAX),
            scope: if is_open { CacheScope::Public } else { CacheScope::Private },
        }
    }
}
