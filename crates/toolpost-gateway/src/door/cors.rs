//! Pages of other origins that the operator has named. With none, which is usual, nothing of this is
//! there: no header, no preflight, and no look at a request.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use crate::app::Gateway;

/// What a page may use; what is allowed is decided by the door itself.
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS");
/// What a page may read beside the usual headers.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, www-authenticate, allow, mcp-session-id, mcp-protocol-version",
);
/// How many seconds a browser may keep the answer to a preflight.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const REQUESTED_METHOD: HeaderName = header::ACCESS_CONTROL_REQUEST_METHOD;
const REQUESTED_HEADERS: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;

/// Whether any origin is named.
pub(super) fn is_configured(gateway: &Gateway) -> bool {
    !gateway.0.settings.http.cors.is_empty()
}

/// The origin of the page that asks, if it is one of those that are named.
pub(super) fn named_origin<'r>(
    gateway: &Gateway,
    headers: &'r HeaderMap,
) -> Option<&'r HeaderValue> {
    let named = &gateway.0.settings.http.cors;
    if named.is_empty() {
        return None;
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    named.iter().any(|known| origin == known.as_str()).then_some(origin)
}

/// Answers a request of anybody where origins are named: browsers are told whether the page that asks
/// may read the answer. Nothing is ever said about credentials, since tokens are no cookies.
pub(super) async fn answer<F: Future<Output = Response>>(
    gateway: Gateway,
    request: Request,
    inside: impl FnOnce(Request) -> F,
) -> Response {
    let origin = named_origin(&gateway, request.headers()).cloned();
    let preflight = origin.as_ref().and_then(|_| preflight(&request));
    let mut response = match preflight {
        Some(response) => response,
        None => inside(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    }
    response
}

/// The answer to a browser that asks before its page may.
fn preflight(request: &Request) -> Option<Response> {
    let headers = request.headers();
    if request.method() != Method::OPTIONS || !headers.contains_key(REQUESTED_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let said = response.headers_mut();
    said.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    said.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(wanted) = headers.get(REQUESTED_HEADERS) {
        said.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    Some(response)
}
