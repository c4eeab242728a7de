//! `/api/{namespace}/{name}`: operations as an HTTP API.
//!
//! `POST` with the input as the body; for queries and subscriptions `GET` with the input in the
//! query. The answer is the data or the envelope, subscriptions are server-sent events, and every
//! error is a problem. What is decided here is written down in `docs/decisions/http-door.md`.

mod accept;
mod asked;
mod input;
mod packed;
mod pairs;
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
    Authority, CallError, CallRequest, Identity, Kind, MAX_NAME_LENGTH, Operation, Outcome,
    Payload, QueryForm, RequestId,
};

use super::bearer;
use super::problem::Problem;
use super::refusal;
use super::sse;
use crate::app::Gateway;
use asked::Asked;

pub(super) use accept::takes_gzip;
pub(super) use asked::trace;
pub(super) use input::{check_content_type, read_bytes};
pub(super) use packed::gzip;
pub use settings::HttpDoorSettings;

/// The operation that calls any other.
const RELAY: &str = "hub.call";

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How the caller wants the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The data alone.
    Data,
    /// Data and meta, with repairs and warnings beside them.
    Envelope,
}

/// The two segments behind `/api/`, if there are two.
pub(super) fn segments(path: &str) -> Option<(&str, &str)> {
    let (namespace, name) = path.strip_prefix("/api/")?.split_once('/')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
}

/// Answers a request whose path has [`segments`].
pub(super) async fn call(gateway: Gateway, request: Request) -> Response {
    let id = request_id(request.headers());
    let is_packed =
        request.headers().contains_key(header::ACCEPT_ENCODING) && takes_gzip(request.headers());
    let mut response = answer(&gateway, request, &id)
        .await
        .unwrap_or_else(|problem| problem.with_request_id(id.to_string()).into_response());
    name(&mut response, &id);
    if is_packed {
        let above = gateway.0.settings.http.pack_above;
        response = Box::pin(packed::pack(response, above)).await;
    }
    response
}

/// Answers a request below `/api` that is none for an operation.
pub(super) fn refuse(headers: &HeaderMap, problem: Problem) -> Response {
    let id = request_id(headers);
    let mut response = problem.with_request_id(id.to_string()).into_response();
    name(&mut response, &id);
    response
}

fn name(response: &mut Response, id: &RequestId) {
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(id.to_string())) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
}

async fn answer(gateway: &Gateway, request: Request, id: &RequestId) -> Result<Response, Problem> {
    // Who calls comes first: nobody learns what is here by asking for it.
    let identity = bearer::identify(gateway.authenticator(), "/api", request.headers()).await;
    let (identity, operation_id) = match (identity, operation_id(request.uri().path())) {
        (Ok(identity), Ok(operation_id)) => (identity, operation_id),
        // Boxed, so that others do not carry the room for it.
        (Ok(identity), Err(problem)) => {
            let visit = Visit { gateway, identity, operation_id: "", id };
            return Err(Box::pin(visit.refused(request.headers(), problem)).await);
        }
        (Err(problem), named) => {
            let operation_id = named.unwrap_or_default();
            let request = bare_request(&operation_id, id, request.headers());
            Box::pin(refusal::note_stranger(gateway, request, problem.detail())).await;
            return Err(problem);
        }
    };
    let visit = Visit { gateway, identity, operation_id: &operation_id, id };
    let operation = gateway.pipeline().registry().catalog().get(&operation_id).cloned();
    match operation {
        Some(operation) if visit.admits(&operation) => visit.answer(operation, request).await,
        // Why there is none, or none for this caller, is for the pipeline to say, and to write down.
        // Whoever may not call learns nothing of methods and inputs.
        operation => {
            let lacks = operation
                .as_deref()
                .and_then(|operation| visit.lacks(operation, request.headers()));
            let request = bare_request(&operation_id, id, request.headers());
            let refused =
                visit.once(request, operation.as_ref(), operation.as_ref(), Form::Data).await;
            refused.map_err(|problem| match lacks {
                Some(challenge) => problem.with_header(header::WWW_AUTHENTICATE, challenge),
                None => problem,
            })
        }
    }
}

/// A call of which nothing is known but what it is called and whence it comes.
fn bare_request<'a>(operation_id: &'a str, id: &RequestId, headers: &HeaderMap) -> CallRequest<'a> {
    let request = CallRequest::new(operation_id, Payload::empty_object()).door("http");
    traced(request.request_id(id.clone()), headers)
}

/// A call as part of the trace that the headers name.
fn traced<'a>(request: CallRequest<'a>, headers: &HeaderMap) -> CallRequest<'a> {
    match trace(headers) {
        Some(trace) => request.metadata(trace),
        None => request,
    }
}

/// An id splits at its first dot, so a namespace with a dot would be another operation's address.
fn operation_id(path: &str) -> Result<String, Problem> {
    let (namespace, name) = segments(path).unwrap_or_default();
    let (namespace, name) = (decode(namespace)?, decode(name)?);
    let is_long =
        |text: &str| text.len() > MAX_NAME_LENGTH && text.chars().count() > MAX_NAME_LENGTH;
    if namespace.contains('.') {
        return Err(Problem::not_found("a namespace has no dot; the name is one encoded segment"));
    }
    // What cannot be there is not repeated.
    if is_long(&namespace) || is_long(&name) {
        let message = format!("a name has at most {MAX_NAME_LENGTH} characters");
        return Err(Problem::not_found(message));
    }
    Ok([&*namespace, ".", &*name].concat())
}

fn decode(segment: &str) -> Result<Cow<'_, str>, Problem> {
    let bad = |words| Problem::new(StatusCode::BAD_REQUEST, words);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let is_whole =
        |rest: &str| is_digit(rest.as_bytes().first()) && is_digit(rest.as_bytes().get(1));
    if !segment.split('%').skip(1).all(is_whole) {
        return Err(bad("the path has a percent sign without two hexadecimal digits behind it"));
    }
    let decoded = percent_decode_str(segment).decode_utf8();
    decoded.map_err(|_| bad("the path of the request is not UTF-8"))
}

/// Somebody at the address of an operation.
struct Visit<'a> {
    gateway: &'a Gateway,
    identity: Arc<Identity>,
    operation_id: &'a str,
    id: &'a RequestId,
}

impl Visit<'_> {
    fn admits(&self, operation: &Operation) -> bool {
        operation.spec().access_control.admits(Some(&self.identity))
    }

    /// What a caller is told who lacks scopes that an authorization server could give him.
    fn lacks(&self, operation: &Operation, headers: &HeaderMap) -> Option<HeaderValue> {
        let authenticator = self.gateway.authenticator();
        authenticator.authorization_server()?;
        let scopes = operation.spec().access_control.missing_scopes(&self.identity)?;
        Some(bearer::insufficient(authenticator, "/api", headers, &scopes))
    }

    async fn answer(
        &self,
        operation: Arc<Operation>,
        request: Request,
    ) -> Result<Response, Problem> {
        let kind = operation.spec().kind;
        match *request.method() {
            Method::POST => {}
            Method::GET if kind != Kind::Mutation => {}
            Method::HEAD if kind == Kind::Query => {}
            Method::OPTIONS => return Ok(allowed(kind)),
            _ => {
                let problem = method_not_allowed(kind);
                return Err(Box::pin(self.refused(request.headers(), problem)).await);
            }
        }
        let (head, body) = request.into_parts();
        let (asked, form, input) = match said(&head, &operation) {
            Ok(said) => said,
            Err(problem) => return Err(Box::pin(self.refused(&head.headers, problem)).await),
        };
        let input = match input {
            Some(input) => input,
            None => {
                let settings = &self.gateway.0.settings;
                let reading = input::read_body(&head.headers, body, &operation, settings);
                let read = match asked.timeout {
                    Some(limit) => within(limit, reading).await,
                    None => reading.await,
                };
                match read {
                    Ok(input) => input,
                    Err(problem) => {
                        return Err(Box::pin(self.refused(&head.headers, problem)).await);
                    }
                }
            }
        };
        let target = (self.operation_id == RELAY).then(|| self.target(&input)).flatten();
        let request = self.request(&head.headers, &asked, input);
        if kind == Kind::Subscription {
            let owner = Arc::clone(&self.identity);
            let last = sse::LastEventId::of(&head.headers);
            let terms = sse::Terms { operation, form, owner };
            return sse::respond(self.gateway, terms, last, request);
        }
        let declaring = target.as_ref().unwrap_or(&operation);
        let mut response = self.once(request, Some(&operation), Some(declaring), form).await?;
        if head.method != Method::POST {
            // What a query says may change with the next mutation, and may be for this caller only.
            let no_store = HeaderValue::from_static("no-store");
            response.headers_mut().insert(header::CACHE_CONTROL, no_store);
        }
        Ok(response)
    }

    /// What is no call is no input, and yet somebody has called.
    async fn refused(&self, headers: &HeaderMap, problem: Problem) -> Problem {
        let request = bare_request(self.operation_id, self.id, headers);
        let error = problem.to_error();
        match refusal::note(self.gateway, request, &self.identity, &error).await {
            Some(too_often) => Problem::of(too_often, None),
            None => problem,
        }
    }

    fn request(&self, headers: &HeaderMap, asked: &Asked<'_>, input: Payload) -> CallRequest<'_> {
        let mut request =
            CallRequest::new(self.operation_id, input).door("http").request_id(self.id.clone());
        if let Some(timeout) = asked.timeout {
            request = request.timeout(timeout.min(self.gateway.0.settings.http.longest_timeout));
        }
        traced(request, headers)
    }

    /// Calls, and answers in this form. The status of an error is said by the operation that declares
    /// it, which `hub.call` only passes on.
    async fn once(
        &self,
        request: CallRequest<'_>,
        operation: Option<&Arc<Operation>>,
        declaring: Option<&Arc<Operation>>,
        form: Form,
    ) -> Result<Response, Problem> {
        let caller = Authority::outside(Some(Arc::clone(&self.identity)));
        match self.gateway.pipeline().call(request, caller).await {
            Ok(outcome) => write(&outcome, operation.map(Arc::as_ref), form),
            Err(error) => Err(Problem::of(error, declaring.map(|operation| operation.spec()))),
        }
    }

    /// The operation that is called through `hub.call`.
    fn target(&self, input: &Payload) -> Option<Arc<Operation>> {
        let id = input.as_value()?.get("id")?.as_str()?;
        self.gateway.pipeline().registry().catalog().get(id).cloned()
    }
}

/// Whoever is in a hurry must not be slow himself.
async fn within(
    limit: Duration,
    reading: impl Future<Output = Result<Payload, Problem>>,
) -> Result<Payload, Problem> {
    // The deadline is the caller's, and means the same wherever it passes.
    let late = "the body took longer than the whole request may take";
    let late = |_| Problem::of(CallError::timeout(late), None);
    tokio::time::timeout(limit, reading).await.map_err(late)?
}

/// What the head says: options, the form of the answer, and the input if it is not in the body.
fn said<'a>(
    head: &'a Parts,
    operation: &Operation,
) -> Result<(Asked<'a>, Form, Option<Payload>), Problem> {
    let (asked, input) = said_in_query(head, operation)?;
    let form = accept::form(&head.headers, operation.spec().kind, asked.envelope)?;
    Ok((asked, form, input))
}

fn said_in_query<'a>(
    head: &'a Parts,
    operation: &Operation,
) -> Result<(Asked<'a>, Option<Payload>), Problem> {
    let query = head.uri.query().unwrap_or_default();
    if head.method == Method::POST {
        let asked = Asked::read(query, &head.headers, None)?;
        asked.only_options()?;
        return Ok((asked, None));
    }
    let schema = operation.spec().input_schema.json();
    let form = QueryForm::of(&schema);
    let asked = Asked::read(query, &head.headers, Some(&form))?;
    let pairs = asked.rest.iter().map(|(name, text)| (name, text));
    match form.read(pairs) {
        Ok(input) => Ok((asked, Some(input.into()))),
        Err(issues) => {
            let message = format!("the query does not fit {}", operation.id());
            Err(Problem::of(CallError::validation(message, &issues), None))
        }
    }
}

/// An answer in the form that was asked for. What has no data form is a problem: a tool's failure, and
/// data that is not what was declared, since nothing beside the data would say so.
fn write(
    outcome: &Outcome,
    operation: Option<&Operation>,
    form: Form,
) -> Result<Response, Problem> {
    if form == Form::Data {
        if outcome.envelope.is_error() {
            return Err(failure(outcome));
        }
        if let Some(error) = operation.and_then(|operation| misfit(outcome, operation)) {
            return Err(Problem::of(error, None));
        }
    }
    let (body, content_type) = match form {
        Form::Data => (serde_json::to_vec(&outcome.envelope.data), accept::JSON),
        Form::Envelope => (serde_json::to_vec(outcome), accept::ENVELOPE),
    };
    let body = body.map_err(|error| {
        tracing::error!(%error, "an outcome has no JSON form");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn failure(outcome: &Outcome) -> Problem {
    let failure = outcome.envelope.clone().into_result().err();
    failure.map_or_else(
        || Problem::new(StatusCode::BAD_GATEWAY, "the tool reported an error"),
        |error| Problem::of(error, None),
    )
}

/// Why the data of an outcome is not what was declared. Warnings may be about something else; whether
/// the data fits is what the client was promised.
pub(super) fn misfit(outcome: &Outcome, operation: &Operation) -> Option<CallError> {
    if outcome.warnings().is_empty() {
        return None;
    }
    let data = outcome.envelope.data.clone().into_value().ok()?;
    // A schema that cannot be used promises nothing.
    if operation.spec().output_schema.fits(&data).unwrap_or(true) {
        return None;
    }
    let (id, spec) = (operation.id().as_str(), operation.spec());
    let error = CallError::output_validation_failed(id, outcome.warnings());
    let mut details = error.details().cloned().unwrap_or_default();
    details["data"] = data;
    if spec.kind == Kind::Mutation && !spec.idempotent {
        details["mayHaveRun"] = true.into();
    }
    Some(error.with_details(details))
}

/// The methods of an operation.
fn methods(kind: Kind) -> &'static str {
    match kind {
        Kind::Query => "GET, HEAD, POST, OPTIONS",
        Kind::Subscription => "GET, POST, OPTIONS",
        Kind::Mutation => "POST, OPTIONS",
    }
}

/// Nothing is said about other origins, so browsers keep their pages out.
fn allowed(kind: Kind) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(methods(kind)));
    response
}

fn method_not_allowed(kind: Kind) -> Problem {
    let methods = methods(kind);
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("a {} is called with {methods}", kind.as_str()),
    )
    .with_header(header::ALLOW, HeaderValue::from_static(methods))
}

/// The caller's id, if it is one that can stand in a log line; else a fresh one.
fn request_id(headers: &HeaderMap) -> RequestId {
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match given {
        Some(id) if (1..=128).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic()) => {
            RequestId::from(Arc::from(id))
        }
        _ => RequestId::fresh(),
    }
}
