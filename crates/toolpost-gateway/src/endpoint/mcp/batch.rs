//! JSON-RPC batches, which only protocol version 2025-03-26 supports.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::value::RawValue;
use toolpost::json::error_message;
use toolpost::json_rpc::{self, RpcError, RpcId, RpcMessage};
use toolpost::view::ProtocolGeneration;

use super::http::{McpRequestContext, RejectionResponse, accepted, error_response};
use super::response;
use crate::mcp_service::Notifier;

/// The only protocol version with batches.
const BATCH_VERSION: &str = "2025-03-26";
/// Maximum number of messages in a batch.
const MAX_MESSAGES: usize = 100;
/// Maximum number of messages handled concurrently.
const MAX_CONCURRENT: usize = 8;
/// Maximum total size of the responses in bytes. A small batch can request a large list many times.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;

/// The response to one message, with the id of the message.
type BatchResponse = (Option<RpcId>, Vec<u8>);

pub(super) async fn handle(
    context: &McpRequestContext,
    body: &Bytes,
) -> Result<Response, RejectionResponse> {
    let messages = parse(context, body).map_err(|rpc_error| error_response(&rpc_error, None))?;
    let pending =
        messages.into_iter().map(|message| handle_message(context, message.get()).boxed());
    let pending: Vec<BoxFuture<'_, _>> = pending.collect();
    let mut replies = futures::stream::iter(pending).buffered(MAX_CONCURRENT);
    let mut all = Vec::new();
    while let Some(reply) = replies.next().await {
        let Some((id, message)) = reply else { continue };
        all.push(if all.is_empty() { b'[' } else { b',' });
        if all.len() + message.len() <= MAX_RESPONSE_BYTES {
            all.extend_from_slice(&message);
        } else {
            let error_message =
                format!("batch responses are limited to {MAX_RESPONSE_BYTES} bytes");
            all.extend(RpcError::new(RpcError::OVERLOADED, error_message).encode(id.as_ref()));
        }
    }
    if all.is_empty() {
        return Ok(accepted());
    }
    all.push(b']');
    Ok(response::complete_response(all.into(), StatusCode::OK, context.accepts))
}

fn parse<'b>(context: &McpRequestContext, body: &'b Bytes) -> Result<Vec<&'b RawValue>, RpcError> {
    let reject = |message: String| Err(RpcError::invalid_request(message));
    // This version has no version header, so a missing header is accepted.
    let version = context.headers.get(super::generation::VERSION_HEADER);
    let version = version.map_or(Ok(BATCH_VERSION), |version| version.to_str()).unwrap_or_default();
    let negotiated = context.session.as_ref().map_or(version, |session| session.version);
    if version != BATCH_VERSION || negotiated != BATCH_VERSION {
        return reject(format!(
            "only {BATCH_VERSION} supports batches; send one message per request"
        ));
    }
    let messages: Vec<&RawValue> = serde_json::from_slice(body)
        .map_err(|error| format!("invalid batch: {}", error_message(&error)))
        .map_err(|message| RpcError::new(RpcError::PARSE_ERROR, message))?;
    if messages.is_empty() || messages.len() > MAX_MESSAGES {
        return reject(format!("a batch must have between 1 and {MAX_MESSAGES} messages"));
    }
    Ok(messages)
}

async fn handle_message(context: &McpRequestContext, text: &str) -> Option<BatchResponse> {
    match json_rpc::parse_strict(text.as_bytes()) {
        Ok(RpcMessage::Request { id, method, params }) => {
            let id = RpcId::from_raw(id)?;
            let message = match &*method {
                "initialize" => {
                    let error_message = "`initialize` must not be part of a batch";
                    RpcError::invalid_request(error_message).encode(Some(&id))
                }
                method => handle_request(context, id.clone(), method, params).await,
            };
            Some((Some(id), message))
        }
        Ok(RpcMessage::Notification { method, params }) => {
            // An error would concern the whole batch, which is already checked.
            let _ = context.handle_notification(&method, params);
            None
        }
        Ok(RpcMessage::Response { id, result }) => {
            context.handle_response(id, result);
            None
        }
        Err((id, rpc_error)) => {
            let message = rpc_error.encode(id.as_ref());
            Some((id, message))
        }
    }
}

async fn handle_request(
    context: &McpRequestContext,
    id: RpcId,
    method: &str,
    params: Option<&RawValue>,
) -> Vec<u8> {
    match context.parse_request(id.clone(), method, params).await {
        Ok(mut mcp_request) if mcp_request.client.generation == ProtocolGeneration::Legacy => {
            mcp_request.suggests_names = false;
            let notifier = Notifier::new(&mcp_request.client, &id, None);
            response::handle(mcp_request, notifier).await.message.into_bytes()
        }
        Ok(_) => {
            let rpc_error = RpcError::unknown_method(method);
            context.audit_rejection(method, params, &rpc_error).await;
            rpc_error.encode(Some(&id))
        }
        Err(rpc_error) => rpc_error.encode(Some(&id)),
    }
}
