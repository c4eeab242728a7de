//! MCP requests from rooms, handled like those of any other client.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolpost::view::ProtocolGeneration;
use toolpost::{Endpoint, Identity, Operation};

use super::audit_rejected;
use super::initialize::negotiate_version;
use super::json_rpc::{JsonRpcError, JsonRpcId};
use super::notifier::Notifier;
use super::params::RequestParams;
use super::request::{ClientContext, McpRequest};
use super::session::InFlightRequests;
use super::settings::McpView;
use super::tool_cache::is_tool;
use crate::app::Gateway;
use crate::journal::{mask_input, mask_output};

/// Maximum number of buffered notifications per request.
const NOTIFICATION_BUFFER: usize = 64;

/// An MCP request from a room.
#[derive(Debug)]
pub(crate) struct RoomRequest {
    pub(crate) identity: Arc<Identity>,
    /// Message id, used if the payload has no id.
    pub(crate) id: Box<str>,
    pub(crate) payload: Box<RawValue>,
    /// Whether the request is addressed to the gateway rather than to no participant in particular.
    pub(crate) is_addressed: bool,
    /// Whether the limit of concurrent requests allows another one.
    pub(crate) has_capacity: bool,
}

#[derive(Deserialize)]
struct RequestPayload<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Handles a request and forwards its notifications. Returns `None` if the request is not for the
/// gateway.
pub(crate) async fn handle(
    gateway: &Gateway,
    request: RoomRequest,
    notify: &(dyn Fn(Box<RawValue>) + Send + Sync),
    cancellation: CancellationToken,
) -> Option<Box<RawValue>> {
    let id = message_id(&request.id);
    let payload: RequestPayload<'_> = match serde_json::from_str(request.payload.get()) {
        Ok(payload) => payload,
        Err(error) => {
            let message = format!("invalid payload: {error}");
            return into_raw_json(
                JsonRpcError::new(JsonRpcError::INVALID_REQUEST, message).encode(Some(&id)),
            );
        }
    };
    let id = payload.id.and_then(JsonRpcId::from_raw).unwrap_or(id);
    let client = client_context(gateway, Arc::clone(&request.identity));
    let params = match RequestParams::parse(payload.params) {
        Ok(params) => params,
        Err(rpc_error) => {
            let rejected_call = (payload.method.as_str(), payload.params);
            audit_rejected::audit_rejected_call(
                gateway,
                &request.identity,
                rejected_call,
                &rpc_error,
            )
            .await;
            return into_raw_json(rpc_error.encode(Some(&id)));
        }
    };
    if !request.is_addressed && !client.handles(&payload.method, &params) {
        return None;
    }
    if !request.has_capacity {
        let message = "too many requests of this room in flight; retry later";
        return into_raw_json(
            JsonRpcError::new(JsonRpcError::OVERLOADED, message).encode(Some(&id)),
        );
    }
    if payload.method == "initialize" {
        return into_raw_json(client.initialize_result(&id, negotiate_version(payload.params)));
    }
    // The arguments of a call may be large and are already in the params, so they are not copied.
    let raw = payload.params.filter(|_| payload.method != "tools/call").map(ToOwned::to_owned);
    let mcp_request = McpRequest {
        client,
        id: id.clone(),
        method: payload.method,
        params,
        raw_params: raw,
        suggests_names: true,
        argument_headers: None,
    };
    let (sender, notifications) = mpsc::channel(NOTIFICATION_BUFFER);
    let in_flight = Arc::<InFlightRequests>::default();
    let notifier = Notifier::new(id.clone())
        .with_notifications(Some(sender))
        .with_cancellation(Some(Arc::clone(&in_flight)));
    let response_future = run_until_canceled(
        mcp_request,
        notifier,
        notifications,
        notify,
        || in_flight.cancel(&id, CANCELED_REASON),
        cancellation,
    );
    into_raw_json(response_future.await.unwrap_or_else(|| {
        JsonRpcError::new(JsonRpcError::CANCELED, "the request was canceled").encode(Some(&id))
    }))
}

const CANCELED_REASON: &str = "canceled by the requester";

/// Returns the response after forwarding the notifications; `None` if the request was canceled.
async fn run_until_canceled(
    mcp_request: McpRequest,
    notifier: Notifier,
    mut notifications: mpsc::Receiver<Vec<u8>>,
    notify: &(dyn Fn(Box<RawValue>) + Send + Sync),
    cancel: impl Fn(),
    cancellation: CancellationToken,
) -> Option<Vec<u8>> {
    let mut pending = Box::pin(mcp_request.handle(notifier));
    let mut is_canceled = false;
    let reply = loop {
        tokio::select! {
            biased;
            Some(note) = notifications.recv() => notify(into_raw_json(note)?),
            reply = &mut pending => break reply,
            () = cancellation.cancelled(), if !is_canceled => {
                is_canceled = true;
                cancel();
            }
        }
    };
    while let Ok(note) = notifications.try_recv() {
        notify(into_raw_json(note)?);
    }
    reply.is_expected.then(|| reply.message.into_bytes())
}

fn client_context(gateway: &Gateway, identity: Arc<Identity>) -> ClientContext {
    ClientContext {
        gateway: gateway.clone(),
        endpoint: Endpoint::Rooms,
        identity,
        view: McpView::default(),
        generation: ProtocolGeneration::Legacy,
        log_level: Arc::default(),
        subscriptions: None,
        server_requests: None,
    }
}

impl ClientContext {
    /// Whether the gateway handles a request that is not addressed to it.
    fn handles(&self, method: &str, params: &RequestParams) -> bool {
        match method {
            "tools/call" => {
                let tool_set = self.tool_set();
                let tool = params.name.as_deref().and_then(|name| tool_set.tool(name));
                tool.is_some_and(|tool| is_tool(tool.operation(), &self.identity))
            }
            method => method.ends_with("/list"),
        }
    }
}

fn message_id(id: &str) -> JsonRpcId {
    let json = serde_json::value::to_raw_value(id).ok();
    json.as_deref().and_then(JsonRpcId::from_raw).unwrap_or_else(JsonRpcId::placeholder)
}

fn into_raw_json(message: Vec<u8>) -> Option<Box<RawValue>> {
    String::from_utf8(message).ok().and_then(|text| RawValue::from_string(text).ok())
}

/// Returns a room payload with its secrets masked, for the journal. A schema marks secrets in the
/// input of a called or proposed tool, or in its result. Returns `None` if nothing is masked.
pub(crate) fn mask_secrets(
    gateway: &Gateway,
    tool: &str,
    payload: &RawValue,
    is_result: bool,
) -> Option<Box<RawValue>> {
    let client = client_context(gateway, Arc::new(Identity::new("")));
    let tool_set = client.tool_set();
    let operation = tool_set.tool(tool)?.operation();
    let spec = operation.spec();
    let schema = if is_result { &spec.output_schema } else { &spec.input_schema };
    // Most schemas have no secrets, so the payload is not parsed.
    if schema.secrets().is_empty() && operation.id().as_str() != "hub.call" {
        return None;
    }
    let mut value: Value = serde_json::from_str(payload.get()).ok()?;
    let is_masked = match is_result {
        true => mask_result(operation, value.get_mut("result")?),
        false => mask_arguments(gateway, operation, value.pointer_mut("/params/arguments")?),
    };
    is_masked.then(|| serde_json::value::to_raw_value(&value).ok()).flatten()
}

fn mask_arguments(gateway: &Gateway, operation: &Operation, arguments: &mut Value) -> bool {
    let catalog = || gateway.pipeline().registry().catalog();
    let input = toolpost::Payload::from(arguments.clone());
    let masked = mask_input(catalog, Some(operation), &input);
    masked.map(|masked| *arguments = masked).is_some()
}

/// Masks the secrets of a result. The text content repeats the data, so it is masked completely.
fn mask_result(operation: &Operation, result: &mut Value) -> bool {
    if operation.spec().output_schema.secrets().is_empty() {
        return false;
    }
    if let Some(data) = result.get_mut("structuredContent") {
        mask_output(operation, data);
    }
    result["content"] = serde_json::json!([{"type": "text", "text": toolpost::MASKED}]);
    true
}
