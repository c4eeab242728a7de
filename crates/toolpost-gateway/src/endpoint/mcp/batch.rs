//! JSON-RPC batches, which only protocol version 2025-03-26 supports.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::value::RawValue;
use toolpost::view::ProtocolGeneration;

use super::http::{McpRequestContext, RejectionResponse, accepted, error_response};
use super::json_rpc::{self, ClientMessage, JsonRpcError, JsonRpcId};
use super::notifier::Notifier;
use super::response;

/// The only protocol version with batches.
const BATCH_VERSION: &str = "2025-03-26";
/// Maximum number of messages in a batch.
const MAX_MESSAGES: usize = 100;
/// Maximum number of messages handled concurrently.
const MAX_CONCURRENT: usize = 8;
/// Maximum total size of the responses in bytes. A small batch can request a large list many times.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

struct BatchResponse {
    id: Option<JsonRpcId>,
    message: Vec<u8>,
}

pub(super) async fn handle(
    context: &McpRequestContext,
    body: &Bytes,
) -> Result<Response, RejectionResponse> {
    let messages = parse(context, body).map_err(|rpc_error| error_response(&rpc_error, None))?;
    let pending: Vec<BoxFuture<'_, _>> = messages
        .into_iter()
        .map(|raw_message| handle_message(context, raw_message.get()).boxed())
        .collect();
    let mut replies = futures::stream::iter(pending).buffered(MAX_CONCURRENT);
    let mut all = Vec::new();
    while let Some(reply) = replies.next().await {
        let Some(BatchResponse { id, message }) = reply else { continue };
        all.push(if all.is_empty() { b'[' } else { b',' });
        if all.len() + message.len() <= MAX_RESPONSE_BYTES {
            all.extend_from_slice(&message);
        } else {
            let error_message =
                format!("batch responses are limited to {MAX_RESPONSE_BYTES} bytes");
            all.extend(
                JsonRpcError::new(JsonRpcError::OVERLOADED, error_message).encode(id.as_ref()),
            );
        }
    }
    if all.is_empty() {
        return Ok(accepted());
    }
    all.push(b']');
    Ok(response::complete_response(all.into(), StatusCode::OK, context.accepts))
}

fn parse<'b>(
    context: &McpRequestContext,
    body: &'b Bytes,
) -> Result<Vec<&'b RawValue>, JsonRpcError> {
    let reject = |message: String| Err(JsonRpcError::new(JsonRpcError::INVALID_REQUEST, message));
    // This version has no version header, so a missing header is accepted.
    let version = context.headers.get(super::generation::VERSION_HEADER);
    let version = version.map_or(Ok(BATCH_VERSION), |version| version.to_str()).unwrap_or_default();
    let negotiated = context.session.as_ref().map_or(version, |session| session.version);
    if version != BATCH_VERSION || negotiated != BATCH_VERSION {
        return reject(format!(
            "only {BATCH_VERSION} supports batches; send one message per request"
        ));
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(body).map_err(|error| {
        JsonRpcError::new(JsonRpcError::PARSE_ERROR, format!("invalid batch: {error}"))
    })?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        return reject(format!("a batch must have between 1 and {MAX_MESSAGES} messages"));
    }
    Ok(messages)
}

async fn handle_message(context: &McpRequestContext, text: &str) -> Option<BatchResponse> {
    match json_rpc::parse(text.as_bytes()) {
        Ok(ClientMessage::Request { id, method, params }) => {
            if method == "initialize" {
                let error_message = "`initialize` must not be part of a batch";
                let message = JsonRpcError::new(JsonRpcError::INVALID_REQUEST, error_message)
                    .encode(Some(&id));
                return Some(BatchResponse { id: Some(id), message });
            }
            let message = handle_request(context, id.clone(), &method, params).await;
            Some(BatchResponse { id: Some(id), message })
        }
        Ok(ClientMessage::Notification { method, params }) => {
            // An error would concern the whole batch, which is already checked.
            let _ = context.handle_notification(&method, params);
            None
        }
        Ok(ClientMessage::Response { id, result: reply }) => {
            context.handle_response(&id, reply);
            None
        }
        Err((id, rpc_error)) => {
            let message = rpc_error.encode(id.as_ref());
            Some(BatchResponse { id, message })
        }
    }
}

async fn handle_request(
    context: &McpRequestContext,
    id: JsonRpcId,
    method: &str,
    params: Option<&RawValue>,
) -> Vec<u8> {
    let calls = context.session.as_ref().map(|session| std::sync::Arc::clone(&session.in_flight));
    let notifier = Notifier::new(id.clone()).with_cancellation(calls);
    match context.parse_request(id.clone(), method, params).await {
        Ok(mut mcp_request) if mcp_request.client.generation == ProtocolGeneration::Legacy => {
            mcp_request.suggests_names = false;
            mcp_request.handle(notifier).await.message.into_bytes()
        }
        Ok(_) => {
            let rpc_error = JsonRpcError::unknown_method(method);
            context.audit_rejection(method, params, &rpc_error).await;
            rpc_error.encode(Some(&id))
        }
        Err(rpc_error) => rpc_error.encode(Some(&id)),
    }
}
