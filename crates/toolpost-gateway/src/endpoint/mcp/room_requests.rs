//! Requests out of rooms, answered as those of any other client are.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use toolpost::view::ProtocolGeneration;
use toolpost::{Identity, Operation};

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

/// How many notifications of one request are buffered.
const NOTIFICATION_BUFFER: usize = 64;

/// A request out of a room.
#[derive(Debug)]
pub(crate) struct RoomRequest {
    pub(crate) identity: Arc<Identity>,
    /// The id of its message, for those whose payload has none.
    pub(crate) id: Box<str>,
    pub(crate) payload: Box<RawValue>,
    /// Whether it is meant for the operations here, and not for whoever knows.
    pub(crate) is_addressed: bool,
    /// Whether one more may be answered now.
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

/// Answers a request, and tells what happens meanwhile; nothing if somebody else is meant.
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
    // The arguments of a call are in the params already, and may be large.
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

/// The response, after forwarding its notifications; `None` if the request was canceled.
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
        endpoint: "rooms",
        identity,
        view: McpView::default(),
        generation: ProtocolGeneration::Legacy,
        log_level: Arc::default(),
        subscriptions: None,
        server_requests: None,
    }
}

impl ClientContext {
    /// Whether a request that is meant for nobody in particular is one for the operations here.
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

/// A payload of a room as it may be written down, where it is not as it is sent: what a schema calls
/// secret in the input of a tool that is called or proposed, or in its result.
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
    // Most have no secrets, and are not looked into.
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

/// The texts of a result say the same as its data, in whichever words, and are left out with it.
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
