//! `/api/{namespace}/{name}`: operations as an HTTP API.
//!
//! `POST` takes the input as the body. Queries and subscriptions also accept `GET` with the input
//! in the query. The response is the data or the envelope, subscriptions are server-sent events,
//! and every error is a problem document. The design is described in
//! `docs/decisions/http-endpoint.md`.

mod compression;
mod options;
mod query_string;
mod raw_body;
mod rejected_requests;
mod sse;

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;
use toolpost::{
    Authority, CallError, CallRequest, Catalog, Endpoint, Identity, MAX_NAME_LENGTH, Operation,
    OperationKind, OperationSpec, Outcome, Payload, Pipeline, QueryEncoding, RequestId,
    ResolvedOperation,
};

use super::accept::{self, ResponseForm};
use super::bearer::{self, PeerCertificate};
use super::body;
use super::origin_guard::OriginGuard;
use super::problem::{ProblemDetails, REPLAYED};
use super::settings::GatewaySettings;
use crate::auth::{AccessEnd, Authenticator};
use options::RequestOptions;
use query_string::percent_decode;
use rejected_requests::AnonymousRejections;
use sse::StreamRegistry;

const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Number of mismatches between the data and the output schema, if there are any.
const WARNINGS_HEADER: HeaderName = HeaderName::from_static("toolpost-warnings");

/// State of the HTTP API.
#[derive(Debug)]
pub(crate) struct HttpEndpoint {
    pipeline: Pipeline,
    authenticator: Authenticator,
    guard: OriginGuard,
    settings: Arc<GatewaySettings>,
    /// Subscriptions, both active and detached (resumable).
    streams: Arc<StreamRegistry>,
    anonymous_rejections: AnonymousRejections,
}

impl HttpEndpoint {
    pub(crate) fn new(
        pipeline: Pipeline,
        authenticator: Authenticator,
        guard: OriginGuard,
        settings: Arc<GatewaySettings>,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let streams = Arc::new(StreamRegistry::new(Arc::clone(&settings), stopping));
        let anonymous_rejections = AnonymousRejections::default();
        Arc::new(Self { pipeline, authenticator, guard, settings, streams, anonymous_rejections })
    }

    /// Ends the streams of revoked identities and returns their number.
    pub(crate) fn disconnect_identities(
        &self,
        is_ended: &dyn Fn(&Identity) -> bool,
        access_end: AccessEnd,
    ) -> usize {
        self.streams.disconnect_identities(is_ended, access_end)
    }

    /// Waits for the async tasks of detached streams, which end when the gateway stops.
    pub(crate) async fn drain(&self) {
        self.streams.drain().await;
    }

    /// Handles `/api/{namespace}/{name}`, and any path that no other endpoint serves. It does not
    /// use a layer or a route with parameters, since both allocate for each request, which is
    /// significant for a small call.
    pub(crate) async fn serve(self: Arc<Self>, request: Request) -> Response {
        let id = request_id(request.headers());
        let is_compressed = request.headers().contains_key(header::ACCEPT_ENCODING)
            && accept::accepts_gzip(request.headers());
        let checked = match self.guard.check(&request) {
            Ok(()) if path_segments(request.uri().path()).is_none() => Err(unknown_path()),
            checked => checked,
        };
        let (is_call, response) = match checked {
            Ok(()) => (true, self.handle(request, &id).await),
            Err(problem) => (false, Err(problem)),
        };
        let mut response = response
            .unwrap_or_else(|problem| problem.with_request_id(id.to_string()).into_response());
        if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(id.to_string())) {
            response.headers_mut().insert(REQUEST_ID_HEADER, value);
        }
        if is_call && is_compressed {
            let above = self.settings.http.compress_above;
            response = Box::pin(compression::compress(response, above)).await;
        }
        response
    }

    async fn handle(&self, request: Request, id: &RequestId) -> Result<Response, ProblemDetails> {
        let (head, body) = request.into_parts();
        let operation_id = operation_id(head.uri.path());
        // Authenticate first, so that unauthenticated requests do not reveal which operations
        // exist. The rare futures are boxed to keep the future of other requests small.
        let certificate = PeerCertificate::from_extensions(&head.extensions);
        let authenticating =
            bearer::authenticate(&self.authenticator, "/api", &head.headers, &certificate);
        let identity = match authenticating.await {
            Ok(identity) => identity,
            Err(problem) => {
                if self.anonymous_rejections.try_record() {
                    let operation_id = operation_id.unwrap_or_default();
                    let request = rejected_request(&operation_id, id, &head);
                    let error = CallError::access_denied(problem.detail().to_owned());
                    let caller = Authority::untrusted(None);
                    Box::pin(self.pipeline.record_rejected(request, caller, &error)).await;
                }
                return Err(problem);
            }
        };
        let mut context =
            RequestContext { endpoint: self, identity, operation_id: "", id, head: &head };
        let operation_id = match operation_id {
            Ok(operation_id) => operation_id,
            Err(problem) => return Err(Box::pin(context.audit_rejection(problem)).await),
        };
        context.operation_id = &operation_id;
        let catalog = self.catalog_for(&operation_id, &head).await;
        match catalog.resolve_for(&operation_id, Some(&context.identity)) {
            Ok(operation) => context.respond(&operation, body).await,
            Err(error) => {
                let spec = catalog.get(&operation_id).map(|operation| operation.spec());
                let problem = ProblemDetails::from_call_error(error, spec);
                let problem = Box::pin(context.audit_rejection(problem)).await;
                Err(match spec.and_then(|spec| context.scope_challenge(spec)) {
                    Some(challenge) => problem.with_header(header::WWW_AUTHENTICATE, challenge),
                    None => problem,
                })
            }
        }
    }
}

impl HttpEndpoint {
    /// Returns the catalog. If the source of the operation is starting, waits for it first, within
    /// the timeout of the request.
    async fn catalog_for(&self, operation_id: &str, head: &Parts) -> Arc<Catalog> {
        let catalog = self.pipeline.registry().catalog();
        let namespace = operation_id.split_once('.').map(|(namespace, _)| namespace);
        if catalog.get(operation_id).is_some() || !catalog.is_starting(namespace) {
            return catalog;
        }
        let query = head.uri.query().unwrap_or_default();
        let options = RequestOptions::parse(query, &head.headers, None);
        let timeout = options.ok().and_then(|options| options.timeout);
        Box::pin(self.pipeline.wait_for_sources(namespace, timeout)).await;
        self.pipeline.registry().catalog()
    }
}

/// Returns the two path segments after `/api/`, if there are exactly two.
fn path_segments(path: &str) -> Option<(&str, &str)> {
    let (namespace, name) = path.strip_prefix("/api/")?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

/// Returns the problem for a path that no endpoint serves.
pub(crate) fn unknown_path() -> ProblemDetails {
    ProblemDetails::not_found(
        "no such path; available are /docs, /rooms, /openapi.json, /health, \
         /api/{namespace}/{name}, /mcp for MCP clients, and /hub and /ws for WebSockets",
    )
}

/// Adds the endpoint, the id and the trace context of a request.
fn call_request<'a>(request: CallRequest<'a>, id: &RequestId, head: &Parts) -> CallRequest<'a> {
    let trace = body::trace_context(&head.headers);
    request.endpoint(Endpoint::Http).request_id(id.clone()).metadata(trace)
}

/// Returns the request of a call that is rejected before its input is read.
fn rejected_request<'a>(operation_id: &'a str, id: &RequestId, head: &Parts) -> CallRequest<'a> {
    call_request(CallRequest::new(operation_id, Payload::empty_object()), id, head)
}

/// Returns the operation id of a path. A namespace must not contain a dot: ids split at the first
/// dot, so the path would address a different operation.
fn operation_id(path: &str) -> Result<String, ProblemDetails> {
    let (namespace, name) = path_segments(path).unwrap_or_default();
    let (namespace, name) = (percent_decode(namespace, "path")?, percent_decode(name, "path")?);
    let is_long =
        |text: &str| text.len() > MAX_NAME_LENGTH && text.chars().count() > MAX_NAME_LENGTH;
    if namespace.contains('.') {
        return Err(ProblemDetails::not_found(
            "a namespace must not contain a dot; the name must be one percent-encoded segment",
        ));
    }
    // Names over the limit are not repeated in the error.
    if is_long(&namespace) || is_long(&name) {
        let message = format!("a name has at most {MAX_NAME_LENGTH} characters");
        return Err(ProblemDetails::not_found(message));
    }
    Ok([&*namespace, ".", &*name].concat())
}

/// An authenticated request below `/api`.
struct RequestContext<'a> {
    endpoint: &'a HttpEndpoint,
    identity: Arc<Identity>,
    operation_id: &'a str,
    id: &'a RequestId,
    head: &'a Parts,
}

impl RequestContext<'_> {
    /// Returns the challenge for missing scopes, if there is an authorization server.
    fn scope_challenge(&self, spec: &OperationSpec) -> Option<HeaderValue> {
        let authenticator = &self.endpoint.authenticator;
        authenticator.authorization_server()?;
        let scopes = spec.access_control.missing_scopes(&self.identity)?;
        Some(bearer::insufficient_scope(authenticator, "/api", &self.head.headers, &scopes))
    }

    async fn respond(
        &self,
        operation: &ResolvedOperation,
        body: Body,
    ) -> Result<Response, ProblemDetails> {
        let kind = operation.spec().kind;
        if self.head.method == Method::OPTIONS {
            return Ok(options_response(kind));
        }
        let (options, form, input) = match self.parse(operation, body).await {
            Ok(parsed) => parsed,
            Err(problem) => return Err(Box::pin(self.audit_rejection(problem)).await),
        };
        let target = operation.spec().forwards.then(|| forward_target(operation, &input)).flatten();
        let target = target.unwrap_or(operation);
        let max = self.endpoint.settings.http.max_timeout;
        let timeout = options.timeout.map(|timeout| timeout.min(max));
        let request = CallRequest::resolved(operation, input)
            .timeout(timeout)
            .idempotency_key(options.idempotency_key);
        let request = call_request(request, self.id, self.head);
        if kind == OperationKind::Subscription {
            let (operation, owner) = (Arc::clone(operation), Arc::clone(&self.identity));
            let last = sse::LastEventId::from_headers(&self.head.headers);
            let binding = sse::StreamBinding { operation, form, owner };
            return sse::handle(self.endpoint, binding, last, request);
        }
        // For `hub.call`, the target operation declares the status of errors.
        let outcome = self.endpoint.pipeline.call(request, self.authority()).await;
        let outcome =
            outcome.map_err(|error| ProblemDetails::from_call_error(error, Some(target.spec())))?;
        let raw = raw_body::response(&outcome, form, &self.head.headers);
        let mut response = match raw {
            Some(response) => response,
            None => write_response(&outcome, form)?,
        };
        if form == ResponseForm::Data && !outcome.warnings().is_empty() {
            response.headers_mut().insert(WARNINGS_HEADER, outcome.warnings().len().into());
        }
        if outcome.is_replayed() {
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        }
        if self.head.method != Method::POST {
            // The result may change with the next mutation and may be private.
            let no_store = HeaderValue::from_static("no-store");
            response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        }
        Ok(response)
    }

    /// Parses the options, the response form and the input of a request.
    async fn parse(
        &self,
        operation: &Operation,
        body: Body,
    ) -> Result<(RequestOptions<'_>, ResponseForm, Payload), ProblemDetails> {
        let (head, kind) = (self.head, operation.spec().kind);
        match head.method {
            Method::POST => {}
            Method::GET if kind != OperationKind::Mutation => {}
            Method::HEAD if kind == OperationKind::Query => {}
            _ => return Err(method_not_allowed(kind)),
        }
        let (options, input) = parse_query(head, operation)?;
        let may_be_raw = || raw_body::is_possible(operation.spec());
        let form = accept::negotiate_form(&head.headers, kind, options.envelope, may_be_raw)?;
        if let Some(input) = input {
            return Ok((options, form, input));
        }
        let reading = body::read_input(&head.headers, body, operation, &self.endpoint.settings);
        let input = match options.timeout {
            Some(limit) => tokio::time::timeout(limit, reading).await.map_err(|_| {
                // The same error as for a deadline that passes during the call.
                let message = "the request deadline passed while reading the body";
                ProblemDetails::from_call_error(CallError::timeout(message), None)
            })??,
            None => reading.await?,
        };
        Ok((options, form, input))
    }

    /// Audits a request that is rejected before it is a call. Returns the problem to send, which is
    /// replaced if the caller exceeds a limit.
    async fn audit_rejection(&self, problem: ProblemDetails) -> ProblemDetails {
        let request = rejected_request(self.operation_id, self.id, self.head);
        let (caller, error) = (self.authority(), problem.to_call_error());
        match self.endpoint.pipeline.record_rejected(request, caller, &error).await {
            Some(rate_limited) => ProblemDetails::from_call_error(rate_limited, None),
            None => problem,
        }
    }

    fn authority(&self) -> Authority {
        Authority::untrusted(Some(Arc::clone(&self.identity)))
    }
}

/// Returns the target operation of a `hub.call` input.
fn forward_target<'a>(call: &'a ResolvedOperation, input: &Payload) -> Option<&'a Arc<Operation>> {
    call.catalog().get(input.as_value()?.get("id")?.as_str()?)
}

/// Parses the options, and the input unless it is in the body.
fn parse_query<'a>(
    head: &'a Parts,
    operation: &Operation,
) -> Result<(RequestOptions<'a>, Option<Payload>), ProblemDetails> {
    let query = head.uri.query().unwrap_or_default();
    if head.method == Method::POST {
        let options = RequestOptions::parse(query, &head.headers, None)?;
        options.reject_params()?;
        return Ok((options, None));
    }
    let schema = operation.spec().input_schema.json();
    let form = QueryEncoding::from_schema(&schema);
    let options = RequestOptions::parse(query, &head.headers, Some(&form))?;
    let pairs = options.params.iter().map(|(name, text)| (name, text));
    match form.parse(pairs) {
        Ok(input) => Ok((options, Some(input.into()))),
        Err(issues) => {
            let message = format!("invalid query for {}", operation.id());
            Err(ProblemDetails::from_call_error(CallError::validation(message, &issues), None))
        }
    }
}

fn write_response(outcome: &Outcome, form: ResponseForm) -> Result<Response, ProblemDetails> {
    let body = encode_outcome(outcome, form)
        .map_err(|error| ProblemDetails::from_call_error(error, None))?;
    let content_type = match form {
        ResponseForm::Data => accept::JSON,
        ResponseForm::Envelope => accept::ENVELOPE,
    };
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// Encodes an outcome. In the data form, a tool failure is an error, because the data alone cannot
/// express it.
fn encode_outcome(outcome: &Outcome, form: ResponseForm) -> Result<Vec<u8>, CallError> {
    let encoded = match form {
        ResponseForm::Envelope => serde_json::to_vec(outcome),
        ResponseForm::Data if outcome.envelope.is_error() => {
            let failure = outcome.envelope.clone().into_result().err();
            let unknown = || CallError::execution("the tool reported an error");
            return Err(failure.unwrap_or_else(unknown));
        }
        ResponseForm::Data => serde_json::to_vec(&outcome.envelope.data),
    };
    encoded.map_err(|error| CallError::unknown("the result cannot be encoded").with_cause(error))
}

/// Returns the `Allow` header for an operation kind.
fn allowed_methods(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Query => "GET, HEAD, POST, OPTIONS",
        OperationKind::Subscription => "GET, POST, OPTIONS",
        OperationKind::Mutation => "POST, OPTIONS",
    }
}

/// Responds to `OPTIONS` without CORS headers, so that browsers block cross-origin requests.
fn options_response(kind: OperationKind) -> Response {
    (StatusCode::NO_CONTENT, [(header::ALLOW, allowed_methods(kind))]).into_response()
}

fn method_not_allowed(kind: OperationKind) -> ProblemDetails {
    let methods = allowed_methods(kind);
    ProblemDetails::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("a {} accepts only {methods}", kind.as_str()),
    )
    .with_header(header::ALLOW, methods)
}

/// Returns the caller's request id if it is safe to log, or else a generated one.
fn request_id(headers: &HeaderMap) -> RequestId {
    let given = headers.get(REQUEST_ID_HEADER).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            RequestId::from(Arc::from(id))
        }
        _ => RequestId::generate(),
    }
}
