//! `/mcp`: streamable HTTP, for clients of every version.
//!
//! A request of 2026-07-28 is self-contained. An earlier one belongs to a session if it names one,
//! but does not require a session.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use toolpost::json_rpc::{self, RpcError, RpcId, RpcMessage};
use toolpost::view::ProtocolGeneration;
use toolpost::{Endpoint, Identity};

use super::response::{self, json_response};
use super::session::ClientSession;
use super::{McpEndpoint, batch, generation};
use crate::endpoint::bearer::PeerCertificate;
use crate::endpoint::body::{check_content_type, read_bytes, trace_context};
use crate::endpoint::problem::ProblemDetails;
use crate::endpoint::{accept, bearer};
use crate::mcp_service::{
    ChangeNotifier, ClientContext, ClientState, McpRequest, McpView, Notifier, RequestParams,
    SubscriptionFilter, negotiate_version, parse_canceled,
};

pub(super) const SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");
/// Maximum number of buffered notifications per request.
const NOTIFICATION_BUFFER: usize = 64;

/// A request whose body is not read yet.
pub(super) struct McpRequestContext {
    pub(super) endpoint: Arc<McpEndpoint>,
    pub(super) identity: Arc<Identity>,
    pub(super) view: McpView,
    pub(super) headers: HeaderMap,
    pub(super) session: Option<Arc<ClientSession>>,
    pub(super) accepts: AcceptedTypes,
}

/// Media types that the client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AcceptedTypes {
    pub(super) json: bool,
    pub(super) events: bool,
}

pub(crate) async fn serve(State(endpoint): State<Arc<McpEndpoint>>, request: Request) -> Response {
    handle(endpoint, request).await.unwrap_or_else(|rejection| *rejection)
}

/// A boxed error response.
pub(super) type RejectionResponse = Box<Response>;

impl From<ProblemDetails> for RejectionResponse {
    fn from(problem: ProblemDetails) -> Self {
        Self::new(problem.into_response())
    }
}

async fn handle(
    endpoint: Arc<McpEndpoint>,
    request: Request,
) -> Result<Response, RejectionResponse> {
    let (head, body) = request.into_parts();
    let method = head.method.clone();
    if !matches!(method, Method::POST | Method::GET | Method::DELETE) {
        return Err(method_not_allowed("POST, GET, DELETE"));
    }
    let context = McpRequestContext::new(endpoint, head).await?;
    match method {
        Method::POST => context.handle_message(body).await,
        Method::GET => context.open_session_stream().await,
        _ => context.end_session(),
    }
}

impl McpRequestContext {
    async fn new(endpoint: Arc<McpEndpoint>, request: Parts) -> Result<Self, RejectionResponse> {
        let certificate = PeerCertificate::from_extensions(&request.extensions);
        let headers = request.headers;
        let authenticating =
            bearer::authenticate(&endpoint.authenticator, "/mcp", &headers, &certificate);
        let identity = authenticating.await?;
        let view = McpView::from_query(request.uri.query().unwrap_or_default())
            .map_err(|message| error_response(&RpcError::invalid_params(message), None))?;
        let is_accepted = |media_type| accept::quality(&headers, media_type) > 0;
        let accepts =
            AcceptedTypes { json: is_accepted(accept::JSON), events: is_accepted(accept::EVENTS) };
        if !accepts.json && !accepts.events {
            let message = "the client must accept application/json and text/event-stream";
            return Err(ProblemDetails::new(StatusCode::NOT_ACCEPTABLE, message).into());
        }
        let mut context = Self { endpoint, identity, view, headers, session: None, accepts };
        context.session = context.find_session()?;
        Ok(context)
    }

    async fn handle_message(&self, body: Body) -> Result<Response, RejectionResponse> {
        check_content_type(&self.headers)?;
        let body = read_bytes(body, &self.endpoint.settings).await?;
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return batch::handle(self, &body).await;
        }
        match json_rpc::parse_strict(&body) {
            Ok(RpcMessage::Request { id, method, params }) => {
                let id = RpcId::from_raw(id).expect("the id was checked");
                let mcp_request = self.parse_request(id.clone(), &method, params).await;
                let mcp_request =
                    mcp_request.map_err(|rpc_error| error_response(&rpc_error, Some(&id)))?;
                self.handle(mcp_request).await
            }
            Ok(RpcMessage::Notification { method, params }) => {
                self.handle_notification(&method, params)
            }
            Ok(RpcMessage::Response { id, result }) => Ok(self.handle_response(id, result)),
            Err((id, rpc_error)) => Err(error_response(&rpc_error, id.as_ref())),
        }
    }

    /// Opens the notification stream of a session, for clients before 2026-07-28.
    async fn open_session_stream(&self) -> Result<Response, RejectionResponse> {
        let Some(session) = self.session.as_ref().filter(|_| self.accepts.events) else {
            return Err(method_not_allowed("POST"));
        };
        let client = self.client_context(ProtocolGeneration::Legacy);
        client.check_source().await.map_err(|rpc_error| error_response(&rpc_error, None))?;
        let permit = self.acquire_listener_permit(None)?;
        let ended = session.open_stream();
        self.endpoint.listeners.register(&self.identity, &ended);
        let changes = ChangeNotifier::new(client, SubscriptionFilter::ALL, None);
        Ok(response::notification_stream(&self.endpoint, changes, permit, ended))
    }

    fn end_session(&self) -> Result<Response, RejectionResponse> {
        if self.session.is_none() {
            return Err(method_not_allowed("POST"));
        }
        let id = self.headers.get(SESSION_HEADER).and_then(|id| id.to_str().ok());
        self.endpoint.sessions.end(id.unwrap_or_default(), &self.identity);
        Ok(StatusCode::NO_CONTENT.into_response())
    }

    /// Returns the session of the caller. Requests of 2026-07-28 have no session.
    fn find_session(&self) -> Result<Option<Arc<ClientSession>>, RejectionResponse> {
        let Some(id) = self.headers.get(SESSION_HEADER) else { return Ok(None) };
        if generation::from_header(&self.headers) == Ok(ProtocolGeneration::Modern) {
            return Ok(None);
        }
        let sessions = &self.endpoint.sessions;
        let found = id.to_str().ok().and_then(|id| sessions.get(id, &self.identity));
        found.map(Some).ok_or_else(unknown_session)
    }

    /// Parses and validates a request. A rejected tool call is audited.
    pub(super) async fn parse_request(
        &self,
        id: RpcId,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<McpRequest, RpcError> {
        let parsed = self.parse_params(method, raw).await;
        let (client, params) = match parsed {
            Ok(parsed) => parsed,
            Err(rpc_error) => {
                self.audit_rejection(method, raw, &rpc_error).await;
                return Err(rpc_error);
            }
        };
        let has_headers = method == "tools/call" && client.generation == ProtocolGeneration::Modern;
        let argument_headers = has_headers.then(|| self.argument_headers());
        Ok(McpRequest { argument_headers, ..McpRequest::new(client, id, method, params, raw) })
    }

    async fn parse_params(
        &self,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<(ClientContext, RequestParams), RpcError> {
        let mut params = RequestParams::parse(raw)?;
        params.header_trace = trace_context(&self.headers);
        let client = self.client_context(generation::from_request(&self.headers, method, &params)?);
        client.check_source().await?;
        Ok((client, params))
    }

    pub(super) async fn audit_rejection(
        &self,
        method: &str,
        params: Option<&RawValue>,
        rpc_error: &RpcError,
    ) {
        let client = self.client_context(ProtocolGeneration::Legacy);
        Box::pin(client.audit_rejected_call(method, params, rpc_error)).await;
    }

    /// Returns the `Mcp-Param-*` headers, which repeat arguments. Most requests have none.
    fn argument_headers(&self) -> Vec<(String, String)> {
        let names = self.headers.keys().filter(|name| name.as_str().starts_with("mcp-param-"));
        let value = |name: &HeaderName| {
            let mut values = self.headers.get_all(name).iter();
            let value = values.next()?.to_str().ok();
            value.filter(|_| values.next().is_none()).map(str::to_owned)
        };
        // NUL matches no argument, so an unreadable or repeated header is a mismatch.
        names
            .map(|name| (name.to_string(), value(name).unwrap_or_else(|| "\0".to_owned())))
            .collect()
    }

    pub(super) fn client_context(&self, generation: ProtocolGeneration) -> ClientContext {
        ClientContext {
            endpoint: Endpoint::Mcp,
            service: Arc::clone(&self.endpoint.service),
            identity: Arc::clone(&self.identity),
            view: self.view.clone(),
            generation,
            state: self.session.as_ref().map(|session| Arc::clone(&session.client)),
        }
    }

    async fn handle(&self, mcp_request: McpRequest) -> Result<Response, RejectionResponse> {
        match (mcp_request.method.as_str(), mcp_request.client.generation) {
            ("initialize", ProtocolGeneration::Legacy) => self.initialize(&mcp_request),
            ("logging/setLevel", ProtocolGeneration::Legacy) if self.session.is_none() => {
                let error = RpcError::invalid_request("logging/setLevel requires a session");
                Err(error_response(&error, Some(&mcp_request.id)))
            }
            ("subscriptions/listen", ProtocolGeneration::Modern) => {
                self.open_subscription(mcp_request).await
            }
            _ => Ok(self.respond(mcp_request).await),
        }
    }

    /// Responds with JSON, or with an event stream if notifications precede the response.
    async fn respond(&self, mcp_request: McpRequest) -> Response {
        let generation = mcp_request.client.generation;
        let (sender, notifications) = mpsc::channel(NOTIFICATION_BUFFER);
        let sender = self.accepts.events.then_some(sender);
        let mut notifier = Notifier::new(&mcp_request.client, &mcp_request.id, sender);
        notifier.cancels_on_disconnect = generation == ProtocolGeneration::Modern;
        let challenge_header = self.scope_challenge(&mcp_request);
        let pending = Box::pin(response::handle(mcp_request, notifier));
        let heartbeat = self.endpoint.settings.heartbeat_interval;
        let response =
            response::respond(heartbeat, self.accepts, generation, pending, notifications).await;
        match challenge_header {
            // Clients request more scopes by the status and the header. The body is unchanged.
            Some(challenge) => {
                let challenge = [(header::WWW_AUTHENTICATE, challenge)];
                (StatusCode::FORBIDDEN, challenge, response).into_response()
            }
            None => response,
        }
    }

    /// Returns the challenge for missing scopes, if an authorization server is configured.
    fn scope_challenge(&self, mcp_request: &McpRequest) -> Option<HeaderValue> {
        let authenticator = &self.endpoint.authenticator;
        authenticator.authorization_server()?;
        let scopes = mcp_request.missing_scopes()?;
        Some(bearer::insufficient_scope(authenticator, "/mcp", &self.headers, &scopes))
    }

    fn initialize(&self, mcp_request: &McpRequest) -> Result<Response, RejectionResponse> {
        let McpRequest { client, id, raw_params, .. } = mcp_request;
        let version = negotiate_version(raw_params.as_deref());
        let state = ClientState::default();
        state.initialize(raw_params.as_deref());
        let settings = self.endpoint.service.settings();
        let created = self.endpoint.sessions.create(&settings, &self.identity, version, state);
        let Some(session) = created else {
            let message = "session limit reached; all sessions are in use";
            return Err(overloaded(message, Some(id)));
        };
        let result = client.initialize_result(version);
        let welcome = json_rpc::encode_response(id.as_json(), Ok(result)).into_bytes();
        let response = response::complete_response(welcome.into(), StatusCode::OK, self.accepts);
        Ok(([(SESSION_HEADER, session)], response).into_response())
    }

    async fn open_subscription(
        &self,
        mcp_request: McpRequest,
    ) -> Result<Response, RejectionResponse> {
        let settings = self.endpoint.service.settings();
        let filter = SubscriptionFilter::parse(mcp_request.raw_params.as_deref(), &settings);
        let filter =
            filter.map_err(|rpc_error| error_response(&rpc_error, Some(&mcp_request.id)))?;
        if !self.accepts.events {
            let message = "the client must accept text/event-stream to listen";
            return Err(ProblemDetails::new(StatusCode::NOT_ACCEPTABLE, message).into());
        }
        let permit = self.acquire_listener_permit(Some(&mcp_request.id))?;
        let mut changes = ChangeNotifier::new(mcp_request.client, filter, Some(mcp_request.id));
        changes.subscribe_resources().await;
        let ended = CancellationToken::new();
        self.endpoint.listeners.register(&self.identity, &ended);
        Ok(response::notification_stream(&self.endpoint, changes, permit, ended))
    }

    /// Acquires a permit for a listener, which keeps a connection open.
    fn acquire_listener_permit(
        &self,
        id: Option<&RpcId>,
    ) -> Result<OwnedSemaphorePermit, RejectionResponse> {
        let permits = Arc::clone(&self.endpoint.listener_permits);
        permits.try_acquire_owned().map_err(|_| {
            let max = self.endpoint.service.settings().max_listeners;
            overloaded(format!("listener limit reached: {max} clients are listening"), id)
        })
    }

    /// Accepts a response to a server request, even if that is no longer pending.
    pub(super) fn handle_response(
        &self,
        id: Option<&RawValue>,
        response: Result<&RawValue, &RawValue>,
    ) -> Response {
        if let Some(session) = &self.session {
            session.client.handle_response(id, response);
        }
        accepted()
    }

    /// Accepts a notification. `notifications/cancelled` cancels the request that it names.
    pub(super) fn handle_notification(
        &self,
        method: &str,
        raw: Option<&RawValue>,
    ) -> Result<Response, RejectionResponse> {
        generation::from_header(&self.headers)
            .map_err(|rpc_error| error_response(&rpc_error, None))?;
        if let ("notifications/cancelled", Some(session)) = (method, &self.session)
            && let Some((id, reason)) = parse_canceled(raw)
        {
            session.client.cancel(&id, &reason);
        }
        Ok(accepted())
    }
}

pub(super) fn accepted() -> Response {
    StatusCode::ACCEPTED.into_response()
}

fn unknown_session() -> RejectionResponse {
    let message = "unknown session; send initialize again";
    let rpc_error = RpcError::new(RpcError::SESSION_NOT_FOUND, message);
    Box::new(json_response(StatusCode::NOT_FOUND, rpc_error.encode(None)))
}

/// Returns a 503 response for a limit that is reached.
fn overloaded(message: impl Into<String>, id: Option<&RpcId>) -> RejectionResponse {
    let rpc_error = RpcError::new(RpcError::OVERLOADED, message);
    let response = json_response(StatusCode::SERVICE_UNAVAILABLE, rpc_error.encode(id));
    Box::new(([(header::RETRY_AFTER, "1")], response).into_response())
}

fn method_not_allowed(methods: &'static str) -> RejectionResponse {
    let rpc_error = RpcError::invalid_request(format!("method not allowed; use {methods}"));
    let response = json_response(StatusCode::METHOD_NOT_ALLOWED, rpc_error.encode(None));
    Box::new(([(header::ALLOW, methods)], response).into_response())
}

/// Returns a 400 response with a JSON-RPC error.
pub(super) fn error_response(rpc_error: &RpcError, id: Option<&RpcId>) -> RejectionResponse {
    Box::new(json_response(StatusCode::BAD_REQUEST, rpc_error.encode(id)))
}
