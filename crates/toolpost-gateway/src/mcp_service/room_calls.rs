//! MCP requests from rooms, handled like those of any other client.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::RpcError;
use toolpost::view::ProtocolGeneration;
use toolpost::{Endpoint, Identity};

use super::McpService;
use super::client::ClientContext;
use super::initialize::negotiate_version;
use super::notifier::Notifier;
use super::params::RequestParams;
use super::request::{McpRequest, canceled_error};
use super::settings::McpView;
use crate::journal::mask_message;
use crate::room::{ToolCaller, ToolRequest, ToolResponse};

/// Maximum number of buffered notifications per request.
const NOTIFICATION_BUFFER: usize = 64;

impl ToolCaller for McpService {
    fn call(
        self: Arc<Self>,
        request: ToolRequest,
        notify: Box<dyn Fn(Box<RawValue>) + Send + Sync>,
    ) -> BoxFuture<'static, Option<ToolResponse>> {
        async move {
            let client = self.room_client(Arc::clone(&request.identity));
            let params = match RequestParams::parse(request.params.as_deref()) {
                Ok(params) => params.or_idempotency_key(request.idempotency_key),
                Err(error) => {
                    let params = request.params.as_deref();
                    client.audit_rejected_call(&request.method, params, &error).await;
                    return Some(Err(error));
                }
            };
            let ToolRequest { id, method, params: raw, approval, cancellation, .. } = request;
            let mcp_request = McpRequest::new(client, id, &method, params, raw.as_deref());
            if !request.is_addressed && !mcp_request.is_for_gateway() {
                return None;
            }
            if !request.has_capacity {
                let message = "too many requests of this room in flight; retry later";
                return Some(Err(RpcError::new(RpcError::OVERLOADED, message)));
            }
            if &*method == "initialize" {
                let result =
                    mcp_request.client.initialize_result(negotiate_version(raw.as_deref()));
                return to_raw_value(&result).ok().map(Ok);
            }
            Some(handle(McpRequest { approval, ..mcp_request }, cancellation, &*notify).await)
        }
        .boxed()
    }

    fn mask_secrets(
        &self,
        tool: &str,
        payload: &RawValue,
        is_result: bool,
    ) -> Option<Box<RawValue>> {
        let settings = &self.settings();
        let catalog = self.pipeline.registry().catalog();
        let tool_set = self.tool_cache.get(&catalog, settings.dialect, None, settings);
        mask_message(&catalog, tool_set.tool(tool)?.operation(), payload, is_result)
    }
}

impl McpService {
    fn room_client(self: Arc<Self>, identity: Arc<Identity>) -> ClientContext {
        ClientContext {
            service: self,
            endpoint: Endpoint::Rooms,
            identity,
            view: McpView::default(),
            generation: ProtocolGeneration::Legacy,
            state: None,
        }
    }
}

/// Returns the result after forwarding the notifications.
async fn handle(
    mcp_request: McpRequest,
    cancellation: CancellationToken,
    notify: &(dyn Fn(Box<RawValue>) + Send + Sync),
) -> ToolResponse {
    let (sender, mut notifications) = mpsc::channel(NOTIFICATION_BUFFER);
    let notifier = Notifier::new(&mcp_request.client, &mcp_request.id, Some(sender));
    let cancelable = Arc::clone(&notifier.request);
    let forward = |note: Vec<u8>| into_raw_json(note).into_iter().for_each(notify);
    let mut pending = std::pin::pin!(mcp_request.handle(notifier, Vec::new()));
    let response = loop {
        tokio::select! {
            biased;
            Some(note) = notifications.recv() => forward(note),
            response = &mut pending => break response,
            () = cancellation.cancelled(), if !cancelable.token.is_cancelled() => {
                cancelable.cancel("canceled by the requester");
            }
        }
    };
    while let Ok(note) = notifications.try_recv() {
        forward(note);
    }
    if !response.is_expected {
        return Err(canceled_error());
    }
    let invalid = || RpcError::new(RpcError::INTERNAL, "the result is not JSON");
    into_raw_json(response.result?.into_bytes()).ok_or_else(invalid)
}

impl McpRequest {
    /// Whether the gateway handles the request if it is not addressed to it.
    fn is_for_gateway(&self) -> bool {
        self.method.ends_with("/list")
            || self.tool().is_some_and(|tool| self.client.can_call(tool.operation()))
    }
}

fn into_raw_json(message: Vec<u8>) -> Option<Box<RawValue>> {
    String::from_utf8(message).ok().and_then(|text| RawValue::from_string(text).ok())
}
