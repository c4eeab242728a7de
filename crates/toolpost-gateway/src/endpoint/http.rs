//! `/api/{namespace}/{name}`: operations as an HTTP API.
//!
//! `POST` takes the input as the body. Queries and subscriptions also accept `GET` with the input
//! in the query. The response is the data or the envelope, subscriptions are server-sent events,
//! and every error is a problem document. The design is described in
//! `docs/decisions/http-endpoint.md`.

mod accept;
mod compression;
mod input;
mod options;
mod query_string;
mod settings;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;
use toolpost::{
    Authority, CallError, CallRequest, Endpoint, Identity, MAX_NAME_LENGTH, Operation,
    OperationKind, Outcome, Payload, QueryEncoding, RequestId,
};

use super::bearer;
use super::problem::ProblemDetails;
use super::rejected_requests;
use super::sse;
use crate::app::Gateway;
use options::RequestOptions;

pub(super) use accept::accepts_gzip;
pub(super) use compression::gzip;
pub(super) use input::{check_content_type, read_bytes};
pub(super) use options::trace_context;
pub use settings::HttpEndpointSettings;

/// Id of the operation that calls another operation by id.
const HUB_CALL: &str = "hub.call";

const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The form of a response body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResponseForm {
    /// Only the data.
    Data,
    /// The envelope (data and meta) with repairs and warnings.
    Envelope,
}

/// Returns the two path segments after `/api/`, if there are exactly two.
pub(super) fn path_segments(path: &str) -> Option<(&str, &str)> {
    let (namespace, name) = path.strip_prefix("/api/")?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

/// Handles a request whose path has [`path_segments`].
pub(super) async fn call(gateway: Gateway, request: Request) -> Response {
    let id = request_id(request.headers());
    let is_compressed =
        request.headers().contains_key(header::ACCEPT_ENCODING) && accepts_gzip(request.headers());
    let mut response = handle(&gateway, request, &id)
        .await
        .unwrap_or_else(|problem| problem.with_request_id(id.to_string()).into_response());
    set_request_id(&mut response, &id);
    if is_compressed {
        let above = gateway.0.settings.http.compress_above;
        response = Box::pin(compression::compress(response, above)).await;
    }
    response
}

/// Returns the problem response for a request below `/api` that is rejected before it is a call.
pub(super) fn reject(headers: &HeaderMap, problem: ProblemDetails) -> Response {
    let id = request_id(headers);
    let mut response = problem.with_request_id(id.to_string()).into_response();
    set_request_id(&mut response, &id);
    response
}

fn set_request_id(response: &mut Response, id: &RequestId) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(id.to_string())) {
        response.headers_mut().insert(REQUEST_ID_HEADER, value);
    }
}

async fn handle(
    gateway: &Gateway,
    request: Request,
    id: &RequestId,
) -> Result<Response, ProblemDetails> {
    // Authenticate first, so that unauthenticated requests do not reveal which operations exist.
    let identity = bearer::authenticate(gateway.authenticator(), "/api", request.headers()).await;
    let (identity, operation_id) = match (identity, operation_id(request.uri().path())) {
        (Ok(identity), Ok(operation_id)) => (identity, operation_id),
        // Boxed to keep the future of other requests small.
        (Ok(identity), Err(problem)) => {
            let context = RequestContext { gateway, identity, operation_id: "", id };
            return Err(Box::pin(context.audit_rejection(request.headers(), problem)).await);
        }
        (Err(problem), requested_id) => {
            let operation_id = requested_id.unwrap_or_default();
            let request = request_without_input(&operation_id, id, request.headers());
            Box::pin(rejected_requests::audit_anonymous_rejection(
                gateway,
                request,
                problem.detail(),
            ))
            .await;
            return Err(problem);
        }
    };
    let context = RequestContext { gateway, identity, operation_id: &operation_id, id };
    let operation = gateway.pipeline().registry().catalog().get(&operation_id).cloned();
    match operation {
        Some(operation) if context.can_call(&operation) => {
            context.respond(operation, request).await
        }
        // The pipeline returns and audits the error for a missing or inaccessible operation. The
        // error reveals nothing about methods and inputs.
        operation => {
            let www_authenticate = operation
                .as_deref()
                .and_then(|operation| context.scope_challenge(operation, request.headers()));
            let request = request_without_input(&operation_id, id, request.headers());
            let rejected = context
                .call_operation(request, operation.as_ref(), operation.as_ref(), ResponseForm::Data)
                .await;
            rejected.map_err(|problem| match www_authenticate {
                Some(challenge) => problem.with_header(header::WWW_AUTHENTICATE, challenge),
                None => problem,
            })
        }
    }
}

/// Builds a call request with only the operation id, the request id and the trace.
fn request_without_input<'a>(
    operation_id: &'a str,
    id: &RequestId,
    headers: &HeaderMap,
) -> CallRequest<'a> {
    let request = CallRequest::new(operation_id, Payload::empty_object()).endpoint(Endpoint::Http);
    with_trace(request.request_id(id.clone()), headers)
}

/// Adds the trace context of the headers to the request.
fn with_trace<'a>(request: CallRequest<'a>, headers: &HeaderMap) -> CallRequest<'a> {
    match trace_context(headers) {
        Some(trace) => request.metadata(trace),
        None => request,
    }
}

/// Returns the operation id of a path. A namespace must not contain a dot: ids split at the first
/// dot, so the path would address a different operation.
fn operation_id(path: &str) -> Result<String, ProblemDetails> {
    let (namespace, name) = path_segments(path).unwrap_or_default();
    let (namespace, name) = (decode_segment(namespace)?, decode_segment(name)?);
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

fn decode_segment(segment: &str) -> Result<Cow<'_, str>, ProblemDetails> {
    let bad = |message| ProblemDetails::new(StatusCode::BAD_REQUEST, message);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let is_valid_escape =
        |rest: &str| is_digit(rest.as_bytes().first()) && is_digit(rest.as_bytes().get(1));
    if !segment.split('%').skip(1).all(is_valid_escape) {
        return Err(bad("invalid percent-encoding in the path"));
    }
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map_err(|_| bad("the request path is not UTF-8"))
}

/// An authenticated request below `/api`.
struct RequestContext<'a> {
    gateway: &'a Gateway,
    identity: Arc<Identity>,
    operation_id: &'a str,
    id: &'a RequestId,
}

impl RequestContext<'_> {
    fn can_call(&self, operation: &Operation) -> bool {
        operation.spec().access_control.is_callable_by(Some(&self.identity))
    }

    /// Returns the `WWW-Authenticate` challenge for missing scopes, if an authorization server is
    /// configured.
    fn scope_challenge(&self, operation: &Operation, headers: &HeaderMap) -> Option<HeaderValue> {
        let authenticator = self.gateway.authenticator();
        authenticator.authorization_server()?;
        let scopes = operation.spec().access_control.missing_scopes(&self.identity)?;
        Some(bearer::insufficient_scope(authenticator, "/api", headers, &scopes))
    }

    async fn respond(
        &self,
        operation: Arc<Operation>,
        request: Request,
    ) -> Result<Response, ProblemDetails> {
        let kind = operation.spec().kind;
        match *request.method() {
            Method::POST => {}
            Method::GET if kind != OperationKind::Mutation => {}
            Method::HEAD if kind == OperationKind::Query => {}
            Method::OPTIONS => return Ok(options_response(kind)),
            _ => {
                let problem = method_not_allowed(kind);
                return Err(Box::pin(self.audit_rejection(request.headers(), problem)).await);
            }
        }
        let (head, body) = request.into_parts();
        let (options, form, input) = match parse_head(&head, &operation) {
            Ok(parsed) => parsed,
            Err(problem) => {
                return Err(Box::pin(self.audit_rejection(&head.headers, problem)).await);
            }
        };
        let input = match input {
            Some(input) => input,
            None => {
                let settings = &self.gateway.0.settings;
                let reading = input::read_body(&head.headers, body, &operation, settings);
                let read = match options.timeout {
                    Some(limit) => read_body_within(limit, reading).await,
                    None => reading.await,
                };
                match read {
                    Ok(input) => input,
                    Err(problem) => {
                        return Err(Box::pin(self.audit_rejection(&head.headers, problem)).await);
                    }
                }
            }
        };
        let target =
            (self.operation_id == HUB_CALL).then(|| self.relayed_operation(&input)).flatten();
        let request = self.call_request(&head.headers, &options, input);
        if kind == OperationKind::Subscription {
            let owner = Arc::clone(&self.identity);
            let last = sse::LastEventId::from_headers(&head.headers);
            let binding = sse::StreamBinding { operation, form, owner };
            return sse::handle(self.gateway, binding, last, request);
        }
        let declaring = target.as_ref().unwrap_or(&operation);
        let mut response =
            self.call_operation(request, Some(&operation), Some(declaring), form).await?;
        if head.method != Method::POST {
            // The result of a query may change with the next mutation and may be private to the
            // caller.
            let no_store = HeaderValue::from_static("no-store");
            response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        }
        Ok(response)
    }

    /// Audits a request that is rejected before it is a call. Returns the problem to send, which is
    /// replaced if the caller exceeds a limit.
    async fn audit_rejection(
        &self,
        headers: &HeaderMap,
        problem: ProblemDetails,
    ) -> ProblemDetails {
        let request = request_without_input(self.operation_id, self.id, headers);
        let error = problem.to_call_error();
        match rejected_requests::audit_rejection(self.gateway, request, &self.identity, &error)
            .await
        {
            Some(rate_limited) => ProblemDetails::from_call_error(rate_limited, None),
            None => problem,
        }
    }

    fn call_request(
        &self,
        headers: &HeaderMap,
        options: &RequestOptions<'_>,
        input: Payload,
    ) -> CallRequest<'_> {
        let mut request = CallRequest::new(self.operation_id, input)
            .endpoint(Endpoint::Http)
            .request_id(self.id.clone());
        if let Some(timeout) = options.timeout {
            request = request.timeout(timeout.min(self.gateway.0.settings.http.max_timeout));
        }
        with_trace(request, headers)
    }

    /// Runs the call and writes the response in the given form. The error status is taken from
    /// `declaring`, which for `hub.call` is the target operation.
    async fn call_operation(
        &self,
        request: CallRequest<'_>,
        operation: Option<&Arc<Operation>>,
        declaring: Option<&Arc<Operation>>,
        form: ResponseForm,
    ) -> Result<Response, ProblemDetails> {
        let caller = Authority::untrusted(Some(Arc::clone(&self.identity)));
        match self.gateway.pipeline().call(request, caller).await {
            Ok(outcome) => write_response(&outcome, operation.map(Arc::as_ref), form),
            Err(error) => Err(ProblemDetails::from_call_error(
                error,
                declaring.map(|operation| operation.spec()),
            )),
        }
    }

    /// Returns the target operation of a `hub.call` input.
    fn relayed_operation(&self, input: &Payload) -> Option<Arc<Operation>> {
        let id = input.as_value()?.get("id")?.as_str()?;
        self.gateway.pipeline().registry().catalog().get(id).cloned()
    }
}

/// Reads the body within the request deadline.
async fn read_body_within(
    limit: Duration,
    reading: impl Future<Output = Result<Payload, ProblemDetails>>,
) -> Result<Payload, ProblemDetails> {
    // The same error as for a deadline that passes during the call.
    let timed_out = "the request deadline passed while reading the body";
    let timed_out = |_| ProblemDetails::from_call_error(CallError::timeout(timed_out), None);
    tokio::time::timeout(limit, reading).await.map_err(timed_out)?
}

/// Parses the request head: options, response form, and the input unless it is in the body.
fn parse_head<'a>(
    head: &'a Parts,
    operation: &Operation,
) -> Result<(RequestOptions<'a>, ResponseForm, Option<Payload>), ProblemDetails> {
    let (options, input) = parse_query(head, operation)?;
    let form = accept::negotiate_form(&head.headers, operation.spec().kind, options.envelope)?;
    Ok((options, form, input))
}

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
            let message = format!("the query does not fit {}", operation.id());
            Err(ProblemDetails::from_call_error(CallError::validation(message, &issues), None))
        }
    }
}

/// Writes the outcome in the requested form. In the data form, a tool failure or data that does not
/// match the output schema is a problem, because the data alone cannot express it.
fn write_response(
    outcome: &Outcome,
    operation: Option<&Operation>,
    form: ResponseForm,
) -> Result<Response, ProblemDetails> {
    if form == ResponseForm::Data {
        if outcome.envelope.is_error() {
            return Err(tool_failure(outcome));
        }
        if let Some(error) = operation.and_then(|operation| schema_mismatch(outcome, operation)) {
            return Err(ProblemDetails::from_call_error(error, None));
        }
    }
    let (body, content_type) = match form {
        ResponseForm::Data => (serde_json::to_vec(&outcome.envelope.data), accept::JSON),
        ResponseForm::Envelope => (serde_json::to_vec(outcome), accept::ENVELOPE),
    };
    let body = body.map_err(|error| {
        tracing::error!(%error, "failed to serialize outcome");
        ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn tool_failure(outcome: &Outcome) -> ProblemDetails {
    let failure = outcome.envelope.clone().into_result().err();
    failure.map_or_else(
        || ProblemDetails::new(StatusCode::BAD_GATEWAY, "the tool reported an error"),
        |error| ProblemDetails::from_call_error(error, None),
    )
}

/// Returns an error if the data of an outcome does not match the output schema. The data is
/// validated again, because warnings may be about something else.
pub(super) fn schema_mismatch(outcome: &Outcome, operation: &Operation) -> Option<CallError> {
    if outcome.warnings().is_empty() {
        return None;
    }
    let data = outcome.envelope.data.clone().into_value().ok()?;
    // An unusable output schema is not enforced.
    if operation.spec().output_schema.is_valid(&data).unwrap_or(true) {
        return None;
    }
    let (id, spec) = (operation.id().as_str(), operation.spec());
    let error = CallError::output_validation_failed(id, outcome.warnings());
    let mut details = error.details().cloned().unwrap_or_default();
    details["data"] = data;
    if spec.kind == OperationKind::Mutation && !spec.idempotent {
        details["mayHaveRun"] = true.into();
    }
    Some(error.with_details(details))
}

/// Returns the `Allow` header for an operation kind.
fn allowed_methods(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Query => "GET, HEAD, POST, OPTIONS",
        OperationKind::Subscription => "GET, POST, OPTIONS",
        OperationKind::Mutation => "POST, OPTIONS",
    }
}

/// Responds to `OPTIONS` without CORS headers, so that browsers block pages of other origins.
fn options_response(kind: OperationKind) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed_methods(kind)));
    response
}

fn method_not_allowed(kind: OperationKind) -> ProblemDetails {
    let methods = allowed_methods(kind);
    ProblemDetails::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("a {} accepts only {methods}", kind.as_str()),
    )
    .with_header(header::ALLOW, HeaderValue::from_static(methods))
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
