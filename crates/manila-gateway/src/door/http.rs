//! `POST /api/{namespace}/{name}`: the input is the body, the answer is the data.

use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use manila::{Authority, CallRequest, Kind, Operation, Outcome, Payload, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::bearer;
use super::problem::Problem;
use super::sse;
use crate::app::{Gateway, GatewaySettings};

const ENVELOPE: &str = "application/vnd.manila.envelope+json";
const REQUEST_ID: &str = "x-request-id";

/// What a caller can ask for beside the operation.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Options {
    #[serde(default)]
    envelope: bool,
}

/// How the caller wants the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// The data alone.
    Data,
    /// Data and meta, with repairs and warnings beside them.
    Envelope,
}

pub(super) async fn call(
    State(gateway): State<Gateway>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    query: Result<Query<Options>, axum::extract::rejection::QueryRejection>,
    request: Request,
) -> Response {
    let id = request_id(request.headers());
    // Who calls comes first: nobody learns what is here by asking for it.
    let asked = bearer::identify(gateway.authenticator(), request.headers())
        .and_then(|identity| Ok((Authority::outside(Some(identity)), operation_id(path)?)));
    let answered = match asked {
        Ok((caller, operation)) => answer(&gateway, caller, &operation, query, request, &id).await,
        Err(problem) => Err(problem),
    };
    let mut response =
        answered.unwrap_or_else(|problem| problem.with_request_id(id.to_string()).into_response());
    if let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// An id splits at its first dot, so a namespace with a dot would be another operation's address.
fn operation_id(
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
) -> Result<String, Problem> {
    match path {
        Ok(Path((namespace, name))) if !namespace.contains('.') => {
            Ok(format!("{namespace}.{name}"))
        }
        Ok(_) => Err(Problem::not_found("a namespace has no dot; the name is one encoded segment")),
        Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, error.body_text())),
    }
}

async fn answer(
    gateway: &Gateway,
    caller: Authority,
    operation_id: &str,
    query: Result<Query<Options>, axum::extract::rejection::QueryRejection>,
    request: Request,
    id: &RequestId,
) -> Result<Response, Problem> {
    if request.method() != Method::POST {
        return Ok(method_not_allowed());
    }
    let Query(options) =
        query.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))?;
    let form = form(request.headers(), &options);
    let input = read_body(request, &gateway.0.settings).await?;
    let operation = gateway.pipeline().registry().catalog().get(operation_id).cloned();
    let call = CallRequest::new(operation_id, input).door("http").request_id(id.clone());
    if operation.as_ref().is_some_and(|operation| operation.spec().kind == Kind::Subscription) {
        let stream = gateway.pipeline().start_subscription(call, caller);
        return sse::respond(gateway, stream, operation, form).await;
    }
    match gateway.pipeline().call(call, caller).await {
        Ok(outcome) => write(&outcome, form),
        Err(error) => Err(Problem::of(error, operation.as_deref().map(Operation::spec))),
    }
}

/// An answer in the form that was asked for. A tool's failure has no data form: it is a problem.
pub(super) fn write(outcome: &Outcome, form: Form) -> Result<Response, Problem> {
    if form == Form::Data && outcome.envelope.is_error() {
        let failure = outcome.envelope.clone().into_result().err();
        return Err(failure.map_or_else(
            || Problem::new(StatusCode::BAD_GATEWAY, "the tool reported an error"),
            |error| Problem::of(error, None),
        ));
    }
    let (body, content_type) = match form {
        Form::Data => (serde_json::to_vec(&outcome.envelope.data), "application/json"),
        Form::Envelope => (serde_json::to_vec(outcome), ENVELOPE),
    };
    let body = body.map_err(|error| {
        tracing::error!(%error, "an outcome has no JSON form");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error")
    })?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

fn method_not_allowed() -> Response {
    let problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "operations are called with POST");
    let mut response = problem.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    response
}

fn form(headers: &HeaderMap, options: &Options) -> Form {
    let asked = |value: &HeaderValue| value.to_str().is_ok_and(|accept| accept.contains(ENVELOPE));
    if options.envelope || headers.get_all(header::ACCEPT).iter().any(asked) {
        Form::Envelope
    } else {
        Form::Data
    }
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

async fn read_body(request: Request, settings: &GatewaySettings) -> Result<Payload, Problem> {
    check_content_type(request.headers())?;
    let bytes = read_bytes(request.into_body(), settings).await?;
    if bytes.is_empty() {
        return Ok(Payload::empty_object());
    }
    let raw: Box<RawValue> = serde_json::from_slice(&bytes).map_err(|error| {
        Problem::new(StatusCode::BAD_REQUEST, format!("the body is not JSON: {error}"))
    })?;
    Ok(raw.into())
}

/// The whole body, if it is neither too large nor too slow.
pub(super) async fn read_bytes(body: Body, settings: &GatewaySettings) -> Result<Bytes, Problem> {
    let too_large = || {
        let message = format!("a body has at most {} bytes", settings.body_bytes);
        Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message))
    };
    // Whoever announces too much need not send it.
    if usize::try_from(body.size_hint().lower()).is_ok_and(|bytes| bytes > settings.body_bytes) {
        return too_large();
    }
    let body = Limited::new(body, settings.body_bytes).collect();
    match tokio::time::timeout(settings.body_timeout, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
        Ok(Err(error)) => {
            let message = format!("the body could not be read: {error}");
            Err(Problem::new(StatusCode::BAD_REQUEST, message))
        }
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long")),
    }
}

/// `application/json`, any `+json`, or nothing said; a form of a web page is none of them.
pub(super) fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media_type =
        value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    let is_json = media_type.eq_ignore_ascii_case("application/json")
        || media_type.to_ascii_lowercase().ends_with("+json");
    if is_json {
        return Ok(());
    }
    let message = format!("the body must be application/json, not `{media_type}`");
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
}
