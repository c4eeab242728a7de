//! Dispatches messages from a server, independent of the transport.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::elicitation::{self, ServerRequestKind};
use super::error::RequestError;
use super::pending::{McpPendingRequests, ServerRequestTarget};
use super::rpc::{self, RpcMessage};
use super::server_messages::ServerMessageHandler;
use crate::handler::{ClientChannel, RespondToServer};

/// Maximum length of the id of a server request, in bytes; requests with longer ids are dropped.
const MAX_ID_BYTES: usize = 256;

/// Reason for rejecting a server request during a call from a 2026-07-28 client.
const NO_REQUESTS_DURING_CALL: &str = "the server sent a request during a call, and the calling \
    client responds only between calls";

/// Sends the encoded response to a server request, immediately or later.
pub(super) type ReplyFn = Box<dyn FnOnce(String) + Send>;

/// Routes responses to pending requests and everything else to the message handler.
#[derive(Debug, Clone)]
pub(super) struct Dispatcher {
    pub(super) pending: Arc<McpPendingRequests>,
    pub(super) message_handler: ServerMessageHandler,
}

impl Dispatcher {
    pub(super) fn new(message_handler: ServerMessageHandler) -> Self {
        Self { pending: Arc::default(), message_handler }
    }

    /// Dispatches one message or a batch. `reply` creates a reply function for each server request.
    /// A message on the stream of a request belongs to that request.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON-RPC.
    pub(super) fn dispatch(
        &self,
        text: &str,
        request_id: Option<u64>,
        reply: &dyn Fn() -> ReplyFn,
    ) -> serde_json::Result<()> {
        rpc::parse(text, &mut |message| match message {
            RpcMessage::Response { id, result } => self.handle_response(id, result),
            // The response repeats the id, so its size is limited.
            RpcMessage::Request { id, .. } if id.get().len() > MAX_ID_BYTES => {
                tracing::warn!(
                    source = self.message_handler.source(),
                    "request id exceeds the size limit"
                );
            }
            RpcMessage::Request { id, method, params } => {
                self.handle_request(
                    request_id,
                    IncomingRequest { id, method: &method, params },
                    reply(),
                );
            }
            RpcMessage::Notification { method, params } => {
                self.handle_notification(request_id, &method, params);
            }
        })
    }

    fn handle_notification(
        &self,
        request_id: Option<u64>,
        method: &str,
        params: Option<&RawValue>,
    ) {
        let handler = &self.message_handler;
        match (method, params) {
            ("notifications/progress", Some(params)) => self.pending.handle_progress(params),
            ("notifications/message", Some(params)) => {
                if let Some((id, line)) = request_id.zip(handler.handle_log(params)) {
                    self.pending.forward_log(id, line);
                }
            }
            ("notifications/resources/updated", Some(params)) => {
                handler.handle_resource_updated(params);
            }
            ("notifications/subscriptions/acknowledged", Some(params)) => {
                handler.subscriptions.handle_acknowledged(request_id, params);
                handler.listen_acknowledged.notify_one();
            }
            _ => handler.handle_notification(method),
        }
    }
}

/// A request from the server.
#[derive(Debug, Clone, Copy)]
struct IncomingRequest<'a> {
    id: &'a RawValue,
    method: &'a str,
    params: Option<&'a RawValue>,
}

impl Dispatcher {
    fn handle_response(&self, id: Option<&RawValue>, result: Result<&RawValue, &RawValue>) {
        let source = self.message_handler.source();
        let response = result.map_err(rpc::parse_error);
        let Some(id) = id.and_then(rpc::parse_request_id) else {
            let error = response.err().map(|error| truncate_for_log(&error.message));
            return tracing::warn!(source, error, "response with an unknown id");
        };
        let response = response.map(ToOwned::to_owned).map_err(RequestError::rpc_error);
        if !self.pending.complete(id, response) {
            tracing::debug!(source, id, "response without a pending request");
        }
    }

    /// Responds from the settings, or forwards the request to the calling client.
    fn handle_request(
        &self,
        request_id: Option<u64>,
        request: IncomingRequest<'_>,
        reply: ReplyFn,
    ) {
        let IncomingRequest { id, method, params } = request;
        let kind = ServerRequestKind::from_method(method)
            .filter(|kind| self.message_handler.is_forwarded(*kind));
        let target = match kind {
            Some(kind) => self.find_client(request_id, kind, params),
            None => Err(None),
        };
        match target {
            Ok((target, client)) => self.forward(target, client, request, reply),
            Err(reason) => {
                let response = match reason {
                    Some(reason) => {
                        Err(self.message_handler.reject_request(method, params, &reason))
                    }
                    None => self.message_handler.handle_request(method, params),
                };
                reply(rpc::encode_response(id, response.as_ref()));
            }
        }
    }

    /// Returns the client to forward the request to, or the reason why there is none.
    fn find_client(
        &self,
        request_id: Option<u64>,
        kind: ServerRequestKind,
        params: Option<&RawValue>,
    ) -> Result<(ServerRequestTarget, Arc<dyn RespondToServer>), Option<String>> {
        let target = self.pending.server_request_target(request_id)?;
        elicitation::check_supported(
            target.as_ref().map(|target| &target.client_channel),
            kind,
            params,
        )?;
        match target {
            Some(target) => match &target.client_channel {
                ClientChannel::Live(client) => {
                    let client = Arc::clone(client);
                    Ok((target, client))
                }
                ClientChannel::MultiRoundTrip(_) => Err(Some(NO_REQUESTS_DURING_CALL.to_owned())),
            },
            None => Err(None),
        }
    }

    /// Forwards the request in an async task that ends with the call.
    fn forward(
        &self,
        target: ServerRequestTarget,
        client: Arc<dyn RespondToServer>,
        request: IncomingRequest<'_>,
        reply: ReplyFn,
    ) {
        let (request_id, method) = (target.request_id, request.method.to_owned());
        let (id, params) = (request.id.to_owned(), request.params.map(ToOwned::to_owned));
        self.pending.spawn_for(request_id, async move {
            let response_future = elicitation::forward(&*client, &method, params.as_deref());
            let response = target.track(response_future).await;
            reply(rpc::encode_response(&id, response.as_ref()));
        });
    }
}

/// Truncates server text for a log.
pub(super) fn truncate_for_log(text: &str) -> String {
    text.chars().take(500).collect()
}
