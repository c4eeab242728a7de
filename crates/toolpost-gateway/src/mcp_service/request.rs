//! An MCP request and its result.

use std::sync::Arc;

use serde_json::json;
use serde_json::value::RawValue;
use toolpost::Approval;
use toolpost::json_rpc::{RpcError, RpcId};
use toolpost::view::{ProtocolGeneration, ToolSet};

use super::client::{ClientContext, LogLevel};
use super::notifier::Notifier;
use super::params::RequestParams;
use super::passthrough::{self, Passthrough};
use super::segmented_body::SegmentedBody;
use super::server_requests;

/// A request with parsed params.
#[derive(Debug)]
pub(crate) struct McpRequest {
    pub(crate) client: ClientContext,
    pub(crate) id: RpcId,
    pub(crate) method: String,
    pub(crate) params: RequestParams,
    /// The tools of the catalog when the request arrived, if it calls a tool.
    pub(crate) tool_set: Option<Arc<ToolSet>>,
    /// The params as received, for methods that forward them.
    pub(crate) raw_params: Option<Box<RawValue>>,
    /// Whether the error for an unknown tool suggests a name, by comparing all names.
    pub(crate) suggests_names: bool,
    /// The `Mcp-Param-*` headers, which must match the arguments.
    pub(crate) argument_headers: Option<Vec<(String, String)>>,
    /// The consent to the request, if it was already given.
    pub(crate) approval: Option<Approval>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(crate) struct McpResponse {
    pub(crate) result: Result<SegmentedBody, RpcError>,
    /// False if the client canceled the request.
    pub(crate) is_expected: bool,
}

impl McpRequest {
    pub(crate) fn new(
        client: ClientContext,
        id: RpcId,
        method: &str,
        params: RequestParams,
        raw: Option<&RawValue>,
    ) -> Self {
        // The arguments of a call may be large and are already in the params.
        let raw_params = raw.filter(|_| method != "tools/call").map(ToOwned::to_owned);
        let tool_set = (method == "tools/call").then(|| client.tool_set());
        Self {
            tool_set,
            client,
            id,
            method: method.to_owned(),
            params,
            raw_params,
            suggests_names: true,
            argument_headers: None,
            approval: None,
        }
    }

    /// Handles the request. The JSON of the result is appended to `out`.
    pub(crate) async fn handle(mut self, notifier: Notifier, out: Vec<u8>) -> McpResponse {
        let mut out = SegmentedBody::from(out);
        let result = self.dispatch(&mut out, &notifier).await.map(|()| out);
        McpResponse { result, is_expected: notifier.finish() }
    }

    async fn dispatch(
        &mut self,
        out: &mut SegmentedBody,
        notifier: &Notifier,
    ) -> Result<(), RpcError> {
        if self.client.service.pipeline.registry().catalog().is_starting(None) {
            tokio::select! {
                () = Box::pin(self.wait_for_sources()) => {}
                () = notifier.request.token.cancelled() => return Err(canceled_error()),
            }
            self.tool_set = self.tool_set.is_some().then(|| self.client.tool_set());
        }
        let client = &self.client;
        if self.method == "tools/list" {
            return self.list_tools(out);
        }
        let out = out.tail_mut();
        let result = match (self.method.as_str(), client.generation) {
            ("tools/call", _) => return self.call(out, notifier).await,
            ("server/discover", ProtocolGeneration::Modern) => client.discover_result(),
            ("ping", ProtocolGeneration::Legacy) => json!({}),
            ("logging/setLevel", ProtocolGeneration::Legacy) => {
                self.set_log_level()?;
                json!({})
            }
            (
                method @ ("resources/subscribe" | "resources/unsubscribe"),
                ProtocolGeneration::Legacy,
            ) => {
                tokio::select! {
                    followed = self.handle_subscription(method) => followed?,
                    () = notifier.request.token.cancelled() => return Err(canceled_error()),
                }
                json!({})
            }
            _ => {
                return tokio::select! {
                    passed = self.pass_through(out, notifier) => passed,
                    // Dropping the future cancels the request to the source.
                    () = notifier.request.token.cancelled() => Err(canceled_error()),
                };
            }
        };
        serde_json::to_writer(out, &result).expect("a value is JSON");
        Ok(())
    }

    /// Waits while sources that the request needs are starting.
    async fn wait_for_sources(&self) {
        let pipeline = &self.client.service.pipeline;
        let catalog = pipeline.registry().catalog();
        let selected = self.client.view.source.as_deref();
        let owner = |name: &str| {
            let is_label = |rest: &str| rest.starts_with("__") || rest.starts_with(['.', ':']);
            catalog.starting().find(|source| name.strip_prefix(source).is_some_and(is_label))
        };
        let (namespace, timeout) = match (self.method.as_str(), &self.params) {
            ("tools/call" | "prompts/get", RequestParams { name: Some(name), .. }) => {
                match selected.or_else(|| owner(name)) {
                    Some(owner) => (Some(owner), None),
                    None => return,
                }
            }
            // Any source may have a URI that is not qualified with its source.
            ("resources/read" | "resources/subscribe", RequestParams { uri: Some(uri), .. }) => {
                let qualified = uri.strip_prefix(passthrough::URI_SCHEME);
                (selected.or_else(|| owner(qualified?)), None)
            }
            ("completion/complete", _) => (selected, Some(pipeline.settings().startup_wait)),
            (method, _) if method.ends_with("/list") => {
                (selected, Some(pipeline.settings().startup_wait))
            }
            _ => return,
        };
        pipeline.wait_for_sources(namespace, timeout).await;
    }

    fn set_log_level(&self) -> Result<(), RpcError> {
        let level = self.params.level.as_deref().and_then(LogLevel::from_name);
        let message = || format!("`params.level` must be one of {}", LogLevel::names());
        let level = level.ok_or_else(|| RpcError::invalid_params(message()))?;
        if let Some(state) = &self.client.state {
            *state.log_level.lock() = level;
        }
        Ok(())
    }

    /// Handles `resources/subscribe` and `resources/unsubscribe`.
    async fn handle_subscription(&self, method: &str) -> Result<(), RpcError> {
        let Some(state) = &self.client.state else {
            return Err(RpcError::invalid_request("resource subscriptions require a session"));
        };
        let uri = self.params.uri.as_deref();
        let uri = uri.ok_or_else(|| RpcError::invalid_params("`uri` must be a string"))?;
        match method {
            "resources/subscribe" => state.subscriptions.subscribe(&self.client, uri).await,
            _ => {
                state.subscriptions.unsubscribe(&self.client, uri);
                Ok(())
            }
        }
    }

    /// Returns the minimum log level for this request.
    pub(super) fn log_level(&self) -> Option<LogLevel> {
        match (self.client.generation, &self.client.state) {
            (ProtocolGeneration::Modern, _) => LogLevel::from_name(self.params.log_level()?),
            (_, Some(state)) => Some(*state.log_level.lock()),
            _ => Some(LogLevel::INFO),
        }
    }

    fn list_tools(&self, out: &mut SegmentedBody) -> Result<(), RpcError> {
        let listing = self.client.tool_listing();
        let page = listing
            .page(self.params.cursor.as_deref())
            .map_err(|error| RpcError::invalid_params(error.to_string()))?;
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
    ) -> Result<(), RpcError> {
        let client_channel = self.client_channel(notifier);
        let metadata = self.params.metadata();
        let passing = Passthrough {
            client: &self.client,
            client_channel: client_channel.as_ref(),
            metadata: metadata.as_ref(),
            approval: self.approval.as_ref(),
        };
        let result = passing.handle(&self.method, self.raw_params.as_deref()).await;
        let adapt = |error| server_requests::adapt_error(error, client_channel.as_ref());
        out.extend(result.map_err(adapt)?);
        Ok(())
    }
}

pub(super) fn canceled_error() -> RpcError {
    RpcError::new(RpcError::CANCELED, "the request was canceled")
}
