//! A session after the handshake: lists and requests.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::dispatcher::Dispatcher;
use super::elicitation::{self, ServerRequestKind};
use super::error::RequestError;
use super::handshake::{self, RemoteServer};
use super::json;
use super::pending::RequestResult;
use super::protocol_version::ProtocolGeneration;
use super::request::{ClientRequest, Timeouts};
use super::rpc::{Param, RpcError};
use super::server_messages::ServerMessageHandler;
use super::settings::{McpSettings, McpTransport};
use super::source::OAuthHooks;
use super::source_handle::SourceHandle;
use super::transport::ClientTransport;
use crate::handler::{ClientChannel, MultiRoundTrip};
use crate::json::error_message;

/// Maximum number of times one call is sent while the server requires input.
const MAX_INPUT_ROUNDS: usize = 10;
/// Maximum duration of a `subscriptions/listen` request, which is then sent again.
const MAX_LISTEN: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to wait for the acknowledgment of `subscriptions/listen` before the lists are read.
const LISTEN_ACK_TIMEOUT: Duration = Duration::from_secs(2);

/// A connection to a server after the handshake.
#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) transport: ClientTransport,
    pub(super) server: RemoteServer,
    message_handler: ServerMessageHandler,
    settings: Arc<McpSettings>,
}

/// The tools of a server, and warnings about the list.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    pub(super) tools: Vec<Value>,
    pub(super) warnings: Vec<String>,
}

impl ClientSession {
    /// Connects and performs the handshake. Uses `generation` if it is known, and updates it.
    pub(super) async fn connect(
        handle: &SourceHandle,
        oauth: &OAuthHooks,
        tasks: &TaskTracker,
        generation: &mut Option<ProtocolGeneration>,
    ) -> Result<Self, RequestError> {
        let SourceHandle { name: source, settings, subscriptions, .. } = handle;
        let connect = async |known: Option<ProtocolGeneration>| {
            let message_handler =
                ServerMessageHandler::new(Arc::clone(source), Arc::clone(settings))
                    .with_subscriptions(subscriptions);
            let transport = ClientTransport::open(
                settings,
                oauth,
                Dispatcher::new(message_handler.clone()),
                tasks,
            )?;
            match handshake::negotiate(&transport, settings, known).await {
                Ok(server) => {
                    Ok(Self { transport, server, message_handler, settings: Arc::clone(settings) })
                }
                Err(failure) => {
                    transport.stop();
                    Err(transport.explain(failure))
                }
            }
        };
        let is_process = matches!(settings.transport, McpTransport::Stdio(_));
        let connected = match connect(*generation).await {
            Ok(session) => Ok(session),
            // The process exited on an unknown method: use the legacy handshake.
            Err(failure)
                if is_process
                    && failure.is_disconnect()
                    && generation.is_none()
                    && settings.protocol.is_none() =>
            {
                let failure = failure.to_string();
                tracing::debug!(%source, failure, "retrying with the legacy handshake");
                connect(Some(ProtocolGeneration::Legacy)).await
            }
            // The known generation is outdated.
            Err(failure) if generation.is_some() && settings.protocol.is_none() => {
                let failure = failure.to_string();
                tracing::debug!(%source, failure, "retrying handshake; protocol generation unknown");
                *generation = None;
                connect(None).await
            }
            Err(failure) => Err(failure),
        };
        let session = connected?;
        *generation = Some(session.server.protocol.generation);
        Ok(session)
    }

    /// Returns the name of the source.
    pub(super) fn source(&self) -> &str {
        self.message_handler.source()
    }

    pub(super) fn is_modern_http(&self) -> bool {
        self.transport.is_http() && self.server.protocol.generation == ProtocolGeneration::Modern
    }

    /// Notified when the tool list has changed.
    pub(super) fn tools_changed(&self) -> &Notify {
        &self.message_handler.tools_changed
    }

    /// Waits until lists other than the tool list change, and returns their method prefixes.
    pub(super) async fn lists_changed(&self) -> Vec<&'static str> {
        self.message_handler.lists_changed.notified().await;
        let parts = [
            (&self.message_handler.prompts_changed, "prompts/"),
            (&self.message_handler.resources_changed, "resources/"),
        ];
        let changed = parts.into_iter().filter(|(flag, _)| flag.swap(false, Ordering::Relaxed));
        changed.map(|(_, part)| part).collect()
    }

    /// Lists all tools, within limits on time, number of tools and size.
    pub(super) async fn list_tools(&self) -> Result<ToolList, RequestError> {
        if !self.server.has_capability("tools") {
            return Ok(ToolList::default());
        }
        let max = self.settings.start_timeout;
        tokio::time::timeout(max, self.list_pages()).await.unwrap_or_else(|_| {
            Err(RequestError::TimedOut(format!("the tool list did not end within {max:?}")))
        })
    }

    async fn list_pages(&self) -> Result<ToolList, RequestError> {
        let (mut listed, mut seen, mut bytes) = (ToolList::default(), HashSet::new(), 0);
        let (max, max_bytes) = (self.settings.max_tools, self.settings.message_bytes);
        let mut cursor: Option<String> = None;
        loop {
            let params: Vec<_> =
                cursor.iter().map(|cursor| ("cursor", Param::Text(cursor))).collect();
            let timeouts = Timeouts::total(self.settings.start_timeout);
            let response = self.send(&ClientRequest::new("tools/list", &params, timeouts)).await?;
            bytes += response.get().len();
            let page: ListToolsResult<'_> =
                serde_json::from_str(response.get()).map_err(|error| {
                    let reason = error_message(&error);
                    RequestError::InvalidResponse(format!("the tool list cannot be read: {reason}"))
                })?;
            listed.add(&page.tools);
            // A cursor that is not a string is ignored.
            let next_cursor: Option<String> =
                page.next_cursor.and_then(|raw| serde_json::from_str(raw.get()).ok());
            let end = match next_cursor.filter(|cursor| !cursor.is_empty()) {
                _ if listed.tools.len() > max || seen.len() > max => {
                    listed.tools.truncate(max);
                    format!("only the first {max} tools are used")
                }
                None => return Ok(listed),
                Some(_) if bytes > max_bytes => {
                    format!("the tool list is truncated after {bytes} bytes")
                }
                Some(next) if !seen.insert(next.clone()) => {
                    "the tool list repeats a cursor; the rest is skipped".to_owned()
                }
                Some(next) => {
                    cursor = Some(next);
                    continue;
                }
            };
            listed.warnings.push(end);
            return Ok(listed);
        }
    }

    /// Returns the list changes to subscribe to; `None` for a legacy server.
    fn list_changed_filter(&self) -> Option<Value> {
        let has_list_changed = |part: &&str| {
            let part = self.server.capabilities.get(*part);
            part.and_then(|part| part.get("listChanged")) == Some(&Value::Bool(true))
        };
        let parts = ["tools", "prompts", "resources"].into_iter().filter(has_list_changed);
        let notifications: Map<_, _> =
            parts.map(|part| (format!("{part}ListChanged"), true.into())).collect();
        (self.server.protocol.generation == ProtocolGeneration::Modern && !notifications.is_empty())
            .then_some(Value::Object(notifications))
    }

    /// Subscribes to list changes, and waits for the acknowledgment, because earlier changes are
    /// not reported. The returned future never completes.
    pub(super) async fn subscribe_list_changes(self: &Arc<Self>) -> BoxFuture<'static, ()> {
        let Some(notifications) = self.list_changed_filter() else {
            return std::future::pending().boxed();
        };
        let session = Arc::clone(self);
        let mut listening =
            async move { session.listen_list_changes(&notifications).await }.boxed();
        tokio::select! {
            () = &mut listening => {}
            () = self.message_handler.listen_acknowledged.notified() => {}
            () = tokio::time::sleep(LISTEN_ACK_TIMEOUT) => {}
        }
        listening
    }

    async fn listen_list_changes(&self, notifications: &Value) {
        let params = [("notifications", Param::Value(notifications))];
        let client_request =
            ClientRequest::new("subscriptions/listen", &params, Timeouts::total(MAX_LISTEN));
        let mut pause = Duration::from_secs(1);
        loop {
            match self.send(&client_request).await {
                Err(failure) if failure.rpc().is_some() => {
                    let failure = failure.to_string();
                    tracing::debug!(failure, "server rejected subscriptions/listen");
                    self.message_handler.listen_acknowledged.notify_one();
                    return std::future::pending().await;
                }
                Err(failure) => {
                    tracing::debug!(
                        failure = failure.to_string(),
                        "list change stream disconnected"
                    );
                    pause = (pause * 2).min(Duration::from_secs(60));
                }
                Ok(_) => pause = Duration::from_secs(1),
            }
            tokio::time::sleep(pause).await;
            // Changes since the stream ended were not reported.
            self.message_handler.tools_changed.notify_one();
        }
    }

    async fn send(&self, client_request: &ClientRequest<'_>) -> RequestResult {
        self.transport.request(&self.server.protocol, client_request).await
    }

    /// Sends a request, and provides input while the server requires it.
    pub(super) async fn request(&self, client_request: &ClientRequest<'_>) -> RequestResult {
        let mut response = self.send_first(client_request).await?;
        for _ in 1..MAX_INPUT_ROUNDS {
            let Some(required) = self.input_required(&response) else { return Ok(response) };
            if let Some(round_trip) = self.defer_to_client(client_request, &required)? {
                return Err(RequestError::InputRequired(round_trip.require_input(response)));
            }
            response = self.resend_with_input(client_request, &required).await?;
        }
        match self.input_required(&response) {
            None => Ok(response),
            Some(_) => Err(RequestError::InputUnavailable(format!(
                "the server requested input {MAX_INPUT_ROUNDS} times"
            ))),
        }
    }

    /// Sends the request with the input responses and request state of the caller.
    async fn send_first(&self, client_request: &ClientRequest<'_>) -> RequestResult {
        let round_trip = match (self.server.protocol.generation, client_request.client_channel) {
            (ProtocolGeneration::Modern, Some(ClientChannel::MultiRoundTrip(round_trip))) => {
                round_trip
            }
            _ => return self.send(client_request).await,
        };
        let input_params = [
            (INPUT_RESPONSES, &round_trip.input_responses),
            (REQUEST_STATE, &round_trip.request_state),
        ];
        let input_params = input_params.into_iter().filter_map(|(name, input_params)| {
            let input_params = input_params.as_deref()?;
            Some((name, Param::Raw(input_params)))
        });
        let params: Vec<_> = client_request.params.iter().copied().chain(input_params).collect();
        let client_request = ClientRequest { params: &params, ..client_request.clone() };
        self.send(&client_request).await
    }

    fn input_required<'a>(&self, response: &'a RawValue) -> Option<InputRequired<'a>> {
        match self.server.protocol.generation {
            ProtocolGeneration::Legacy => None,
            ProtocolGeneration::Modern => InputRequired::parse(response),
        }
    }

    /// Returns the client that receives the input requests at the end of the call, if any.
    fn defer_to_client<'a>(
        &self,
        client_request: &ClientRequest<'a>,
        required: &InputRequired<'_>,
    ) -> Result<Option<&'a MultiRoundTrip>, RequestError> {
        let Some(ClientChannel::MultiRoundTrip(round_trip)) = client_request.client_channel else {
            return Ok(None);
        };
        let (mut forwarded, mut from_settings) = (false, false);
        for request in required.requests()?.values() {
            match self.forwarded_kind(request) {
                Some(kind) => {
                    self.check_client_supports(client_request, kind, request)?;
                    forwarded = true;
                }
                None => from_settings = true,
            }
        }
        match (forwarded, from_settings) {
            (true, true) => Err(RequestError::InputUnavailable(
                "the server requests inputs of which some are set to \"client\" and some are not; set \
                 `elicitation`, `sampling` and `roots` of the source all to \"client\", or none"
                    .to_owned(),
            )),
            (false, true) => Ok(None),
            // Without input requests the server only requires a retry, which is up to the client.
            (_, false) => Ok(Some(round_trip)),
        }
    }

    /// Returns the kind of a server request if it is forwarded to the client.
    fn forwarded_kind(&self, request: &InputRequest<'_>) -> Option<ServerRequestKind> {
        ServerRequestKind::from_method(&request.method)
            .filter(|kind| self.message_handler.is_forwarded(*kind))
    }

    fn check_client_supports(
        &self,
        client_request: &ClientRequest<'_>,
        kind: ServerRequestKind,
        request: &InputRequest<'_>,
    ) -> Result<(), RequestError> {
        elicitation::check_supported(client_request.client_channel, kind, request.params).map_err(
            |reason| {
                let rejected =
                    self.message_handler.reject_request(&request.method, request.params, &reason);
                RequestError::InputUnavailable(rejected.message)
            },
        )
    }

    /// Sends the request again with the required input.
    async fn resend_with_input(
        &self,
        client_request: &ClientRequest<'_>,
        required: &InputRequired<'_>,
    ) -> RequestResult {
        let responding = tokio::time::timeout_at(
            client_request.timeouts.deadline,
            self.collect_input(client_request, required),
        );
        let responses = responding.await.map_err(|_| {
            RequestError::TimedOut("the server request timed out without a response".to_owned())
        })??;
        let mut params = client_request.params.to_vec();
        params.push((INPUT_RESPONSES, Param::Raw(&responses)));
        params.extend(required.request_state.map(|state| (REQUEST_STATE, Param::Raw(state))));
        let resent = ClientRequest { params: &params, ..client_request.clone() };
        self.send(&resent).await
    }

    async fn collect_input(
        &self,
        client_request: &ClientRequest<'_>,
        required: &InputRequired<'_>,
    ) -> RequestResult {
        let mut responses = BTreeMap::new();
        for (key, request) in required.requests()? {
            let response = self.handle_input_request(client_request, &request).await?;
            responses.insert(key, response);
        }
        Ok(to_raw_value(&responses).expect("a map of JSON values serializes"))
    }

    async fn handle_input_request(
        &self,
        client_request: &ClientRequest<'_>,
        request: &InputRequest<'_>,
    ) -> RequestResult {
        let unavailable = |error: RpcError| RequestError::InputUnavailable(error.message);
        let InputRequest { method, params } = request;
        let Some(kind) = self.forwarded_kind(request) else {
            let response = self.message_handler.handle_request(method, *params);
            let response = response.map_err(unavailable)?;
            return Ok(to_raw_value(&response).expect("a JSON value serializes"));
        };
        self.check_client_supports(client_request, kind, request)?;
        match client_request.client_channel {
            Some(ClientChannel::Live(present)) => {
                elicitation::forward(&**present, method, *params).await.map_err(unavailable)
            }
            _ => Err(RequestError::InputUnavailable(
                "the caller does not accept server requests".to_owned(),
            )),
        }
    }
}

impl ToolList {
    /// Adds the tools of a page; a tool that cannot be parsed becomes a warning.
    fn add(&mut self, tools: &[&RawValue]) {
        for tool in tools {
            match json::parse_lenient(tool.get()) {
                Ok(tool) => self.tools.push(tool),
                Err(error) => {
                    let beginning: String = tool.get().chars().take(80).collect();
                    self.warnings.push(format!("a tool cannot be read: {error}: {beginning}…"));
                }
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListToolsResult<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    next_cursor: Option<&'a RawValue>,
}

/// `resultType` of a result that requests input.
const INPUT_REQUIRED: &str = "input_required";

/// Request members that provide input.
const INPUT_RESPONSES: &str = "inputResponses";
const REQUEST_STATE: &str = "requestState";

/// An intermediate result that requests input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequired<'a> {
    #[serde(borrow)]
    result_type: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    input_requests: Option<&'a RawValue>,
    #[serde(borrow)]
    request_state: Option<&'a RawValue>,
}

/// One input request.
#[derive(Deserialize)]
struct InputRequest<'a> {
    #[serde(borrow)]
    method: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

impl<'a> InputRequired<'a> {
    fn parse(response: &'a RawValue) -> Option<Self> {
        // Few responses are of this type, and a substring search is much cheaper than parsing.
        memchr::memmem::find(response.get().as_bytes(), INPUT_REQUIRED.as_bytes())?;
        let required: Self = serde_json::from_str(response.get()).ok()?;
        (required.result_type.as_deref() == Some(INPUT_REQUIRED)).then_some(required)
    }

    fn requests(&self) -> Result<BTreeMap<String, InputRequest<'a>>, RequestError> {
        let Some(requests) = self.input_requests else { return Ok(BTreeMap::new()) };
        serde_json::from_str(requests.get()).map_err(|error| {
            let reason = error_message(&error);
            RequestError::InvalidResponse(format!("invalid input requests: {reason}"))
        })
    }
}
