//! Server requests to a client while its own request runs, and the client's responses.
//!
//! A client before 2026-07-28 receives a request on the stream of its own request. A later client
//! receives a result that names the required input, and retries its request.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};
use toolpost::json_rpc::{self, RpcError, RpcId};
use toolpost::view::ProtocolGeneration;
use toolpost::{
    CallError, ClientChannel, MultiRoundTrip, RespondToServer, ServerRequest, ServerRequestError,
};

use super::notifier::Notifier;
use super::request::McpRequest;

/// Maximum number of pending requests to one client.
const MAX_PENDING: usize = 64;

/// The response of a client: a result or an error.
type ClientResponse = Result<Box<RawValue>, Box<RawValue>>;

/// Pending server requests to a client before 2026-07-28. Only that client can respond to them.
#[derive(Debug)]
pub(super) struct ServerRequests {
    /// Capabilities that the client declared.
    capabilities: Box<RawValue>,
    last_id: AtomicU64,
    pending: Mutex<PendingServerRequests>,
}

#[derive(Debug, Default)]
struct PendingServerRequests {
    senders: HashMap<RpcId, oneshot::Sender<ClientResponse>>,
    /// Set when no more responses can arrive.
    is_closed: bool,
}

impl ServerRequests {
    /// Creates the state for a client; `None` if it accepts no server requests.
    pub(super) fn from_initialize(initialize: Option<&RawValue>) -> Option<Arc<Self>> {
        #[derive(Deserialize)]
        struct InitializeParams {
            capabilities: Box<RawValue>,
        }
        #[derive(Deserialize)]
        struct ServerRequestCapabilities {
            elicitation: Option<IgnoredAny>,
            sampling: Option<IgnoredAny>,
            roots: Option<IgnoredAny>,
        }
        let initialize: InitializeParams = serde_json::from_str(initialize?.get()).ok()?;
        let can: ServerRequestCapabilities =
            serde_json::from_str(initialize.capabilities.get()).ok()?;
        can.elicitation.or(can.sampling).or(can.roots)?;
        let (last, open) = (AtomicU64::new(0), Mutex::default());
        Some(Arc::new(Self { capabilities: initialize.capabilities, last_id: last, pending: open }))
    }

    /// Delivers a response. It is dropped if no request is pending for it.
    pub(super) fn resolve(&self, id: &RpcId, response: Result<&RawValue, &RawValue>) {
        let sender = self.pending.lock().senders.remove(id);
        let response = response.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
        if sender.is_none_or(|sender| sender.send(response).is_err()) {
            tracing::debug!(id = id.as_json(), "response without a pending server request");
        }
    }

    /// Fails all pending and further requests, because the client can no longer respond.
    pub(super) fn close(&self) {
        let mut pending = self.pending.lock();
        pending.is_closed = true;
        pending.senders.clear();
    }

    fn register(&self) -> Result<(RpcId, oneshot::Receiver<ClientResponse>), ServerRequestError> {
        let rejected = |message: &str| Err(ServerRequestError::Unreachable(message.to_owned()));
        let mut pending = self.pending.lock();
        if pending.is_closed {
            return rejected(CLIENT_DISCONNECTED);
        }
        if pending.senders.len() >= MAX_PENDING {
            return rejected("too many server requests pending for this client");
        }
        let number = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let id = RpcId::from(&*format!("toolpost-{number}"));
        let (sender, response) = oneshot::channel();
        pending.senders.insert(id.clone(), sender);
        Ok((id, response))
    }
}

const CLIENT_DISCONNECTED: &str = "the calling client disconnected";

/// A client that receives server requests on the stream of its own request.
struct StreamingClient {
    server_requests: Arc<ServerRequests>,
    messages: mpsc::Sender<Vec<u8>>,
}

impl RespondToServer for StreamingClient {
    fn client_capabilities(&self) -> &RawValue {
        &self.server_requests.capabilities
    }

    fn request(
        &self,
        server_request: ServerRequest,
    ) -> BoxFuture<'static, Result<Box<RawValue>, ServerRequestError>> {
        let (server_requests, messages) =
            (Arc::clone(&self.server_requests), self.messages.clone());
        async move {
            let (id, response) = server_requests.register()?;
            let ServerRequest { method, params, .. } = server_request;
            let text = json_rpc::encode_request(Some(&id), &method, params);
            // Cancels the server request when this future ends or is dropped.
            let _pending_guard = PendingRequestGuard { server_requests, messages: messages.clone(), id };
            let disconnected = || ServerRequestError::Unreachable(CLIENT_DISCONNECTED.to_owned());
            messages.send(text).await.map_err(|_| disconnected())?;
            tokio::select! {
                biased;
                result = response => result.map_err(|_| disconnected())?.map_err(ServerRequestError::Rejected),
                () = messages.closed() => Err(disconnected()),
            }
        }
        .boxed()
    }
}

/// A pending server request. Dropping it cancels the request at the client.
struct PendingRequestGuard {
    server_requests: Arc<ServerRequests>,
    messages: mpsc::Sender<Vec<u8>>,
    id: RpcId,
}

impl Drop for PendingRequestGuard {
    fn drop(&mut self) {
        if self.server_requests.pending.lock().senders.remove(&self.id).is_none() {
            return;
        }
        let reason = "the call that sent this request has ended";
        let params = format!(r#"{{"requestId":{},"reason":"{reason}"}}"#, self.id.as_json());
        let note = json_rpc::encode_request(None, "notifications/cancelled", Some(params));
        // If the channel is full or closed, a later response is dropped on arrival.
        let _ = self.messages.try_send(note);
    }
}

impl McpRequest {
    /// Returns the channel for server requests during this request.
    pub(super) fn client_channel(&mut self, notifier: &Notifier) -> Option<ClientChannel> {
        match self.client.generation {
            ProtocolGeneration::Modern => {
                self.retry_input().map(|retry| ClientChannel::MultiRoundTrip(retry.into()))
            }
            _ => {
                let server_requests = self.client.state.as_ref()?.server_requests.load_full()?;
                let messages = notifier.notifications.clone()?;
                Some(ClientChannel::Live(Arc::new(StreamingClient { server_requests, messages })))
            }
        }
    }

    /// Takes the capabilities, input responses and state out of the request, if any.
    fn retry_input(&mut self) -> Option<MultiRoundTrip> {
        let abilities = self.params.meta.as_mut().and_then(|meta| meta.capabilities.take());
        let abilities = abilities.filter(|abilities| abilities.get() != "{}");
        let (responses, state) =
            (self.params.input_responses.take(), self.params.request_state.take());
        let says_something = abilities.is_some() || responses.is_some() || state.is_some();
        says_something.then(|| MultiRoundTrip::new(abilities, responses, state))
    }

    /// Returns the response to a client of 2026-07-28 for a call error that is not a tool result:
    /// more input is required, a capability is missing, or the given input cannot be used.
    pub(super) fn input_required<'r>(
        &self,
        error: &CallError,
        client_channel: Option<&'r ClientChannel>,
    ) -> Option<Result<&'r str, RpcError>> {
        if let Some(ClientChannel::MultiRoundTrip(client)) = client_channel
            && let Some(required) = client.required_input(error)
        {
            return Some(Ok(required.get()));
        }
        let is_server_error = toolpost::mcp::server_error(error).is_some();
        if self.client.generation != ProtocolGeneration::Modern || !is_server_error {
            return None;
        }
        let rpc_error = adapt_error(error.clone().into(), client_channel);
        let brought = match client_channel {
            Some(ClientChannel::MultiRoundTrip(retry)) => {
                retry.input_responses.is_some() || retry.request_state.is_some()
            }
            _ => false,
        };
        (brought || rpc_error.code == RpcError::MISSING_CAPABILITY).then_some(Err(rpc_error))
    }
}

/// Adapts a missing-capability error of a source. If the client did not declare the capability, the
/// error is the client's. If it did, the source configuration does not allow the capability, and the
/// error becomes an internal error.
pub(super) fn adapt_error(mut error: RpcError, client_channel: Option<&ClientChannel>) -> RpcError {
    if error.code != RpcError::MISSING_CAPABILITY {
        return error;
    }
    let declared = client_channel.and_then(ClientChannel::client_capabilities);
    let declared = declared.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok());
    let required = error.data.as_ref().and_then(|data| data.get("requiredCapabilities"));
    let has_all = declared.zip(required).is_some_and(|(has, needs)| covers(&has, needs));
    match has_all {
        true => {
            error.code = RpcError::INTERNAL;
            error.message.push_str("; the source configuration does not allow it");
        }
        false => error.is_forwarded = false,
    }
    error
}

/// Whether `has` contains all members of `needs`, recursively.
fn covers(has: &Value, needs: &Value) -> bool {
    match needs {
        Value::Object(needs) => needs
            .iter()
            .all(|(name, needed)| has.get(name).is_some_and(|member| covers(member, needed))),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn server_requests() -> Arc<ServerRequests> {
        let initialize = json!({"capabilities": {"elicitation": {}}});
        ServerRequests::from_initialize(Some(&raw(&initialize))).unwrap()
    }

    #[test]
    fn server_requests_require_client_capability() {
        for (initialize, expected) in [
            (json!({"capabilities": {"elicitation": {}}}), true),
            (json!({"capabilities": {"roots": {"listChanged": true}}}), true),
            (json!({"capabilities": {"sampling": {}, "tasks": 1}}), true),
            (json!({"capabilities": {"experimental": {}}}), false),
            (json!({"capabilities": {"elicitation": null}}), false),
            (json!({"capabilities": []}), false),
            (json!({"capabilities": 1}), false),
            (json!({}), false),
        ] {
            assert_eq!(
                ServerRequests::from_initialize(Some(&raw(&initialize))).is_some(),
                expected,
                "{initialize}"
            );
        }
        assert!(ServerRequests::from_initialize(None).is_none());
    }

    #[tokio::test]
    async fn client_response_resolves_only_its_server_request() {
        let server_requests = server_requests();
        let (messages, mut received) = mpsc::channel(8);
        let client = StreamingClient { server_requests: Arc::clone(&server_requests), messages };
        let send_request = || client.request(ServerRequest::new("elicitation/create", None));
        let result = raw(&json!({"action": "accept"}));
        let response = |id: &str, reply| {
            server_requests.resolve(&RpcId::from_raw(&raw(&json!(id))).unwrap(), reply);
        };
        let client_task = async {
            let sent_request = received.recv().await.unwrap();
            let sent_request: Value = serde_json::from_slice(&sent_request).unwrap();
            assert_eq!(sent_request["method"], "elicitation/create");
            response("toolpost-99", Ok(&result));
            response(sent_request["id"].as_str().unwrap(), Ok(&result));
            response(sent_request["id"].as_str().unwrap(), Err(&result));
        };
        let (reply, ()) = tokio::join!(send_request(), client_task);
        assert_eq!(reply.unwrap().get(), result.get());

        // Dropping the future cancels the server request.
        drop(tokio::time::timeout(std::time::Duration::ZERO, send_request()).await);
        let sent_request: Value = serde_json::from_slice(&received.recv().await.unwrap()).unwrap();
        let cancellation: Value = serde_json::from_slice(&received.recv().await.unwrap()).unwrap();
        assert_eq!(cancellation["method"], "notifications/cancelled");
        assert_eq!(cancellation["params"]["requestId"], sent_request["id"]);

        // Requests beyond the limit are rejected, and so are requests after the client disconnects.
        let open: Vec<_> = (0..MAX_PENDING).map(|_| server_requests.register().unwrap()).collect();
        assert!(send_request().await.unwrap_err().to_string().contains("too many server requests"));
        server_requests.close();
        assert!(send_request().await.unwrap_err().to_string().contains("disconnected"));
        assert_eq!(open.len(), MAX_PENDING);
    }

    #[test]
    fn missing_capability_is_internal_if_client_declared_it() {
        let needs = json!({"requiredCapabilities": {"elicitation": {"url": {}}}});
        for (declared, code) in [
            (None, RpcError::MISSING_CAPABILITY),
            (Some(json!({"sampling": {}})), RpcError::MISSING_CAPABILITY),
            (Some(json!({"elicitation": {}})), RpcError::MISSING_CAPABILITY),
            (Some(json!({"elicitation": {"url": {}}})), RpcError::INTERNAL),
        ] {
            let mut rpc_error = RpcError::new(RpcError::MISSING_CAPABILITY, "no");
            (rpc_error.data, rpc_error.is_forwarded) = (Some(needs.clone()), true);
            let abilities = declared.as_ref().map(raw);
            let client =
                ClientChannel::MultiRoundTrip(MultiRoundTrip::new(abilities, None, None).into());
            let about = adapt_error(rpc_error, Some(&client));
            assert_eq!((about.code, about.is_forwarded), (code, code == RpcError::INTERNAL));
        }
    }
}
