//! CORS for configured origins. Without configured origins, which is the default, the gateway sends
//! no CORS headers and handles no preflight requests.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;

use crate::app::Gateway;

/// Methods that cross-origin pages may use. Each endpoint still enforces its own methods.
const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS");
/// Response headers that pages may read in addition to the CORS-safelisted ones.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "x-request-id, retry-after, www-authenticate, allow, mcp-session-id, mcp-protocol-version",
);
/// Number of seconds that a browser may cache a preflight response.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const REQUESTED_METHOD: HeaderName = header::ACCESS_CONTROL_REQUEST_METHOD;
const REQUESTED_HEADERS: HeaderName = header::ACCESS_CONTROL_REQUEST_HEADERS;

/// Whether any origin is configured.
pub(super) fn is_configured(gateway: &Gateway) -> bool {
    !gateway.0.settings.http.cors_origins.is_empty()
}

/// Returns the origin of the request if it is one of the configured origins.
pub(super) fn allowed_origin<'r>(
    gateway: &Gateway,
    headers: &'r HeaderMap,
) -> Option<&'r HeaderValue> {
    let allowed_origins = &gateway.0.settings.http.cors_origins;
    if allowed_origins.is_empty() {
        return None;
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    allowed_origins.iter().any(|allowed| origin == allowed.as_str()).then_some(origin)
}

/// Handles a request if CORS origins are configured: it adds the CORS headers for allowed origins.
/// Credentials are never allowed, since tokens are not cookies.
pub(super) async fn handle<F: Future<Output = Response>>(
    gateway: Gateway,
    request: Request,
    serve_inner: impl FnOnce(Request) -> F,
) -> Response {
    let origin = allowed_origin(&gateway, request.headers()).cloned();
    let preflight = origin.as_ref().and_then(|_| preflight(&request));
    let mut response = match preflight {
        Some(response) => response,
        None => serve_inner(request).await,
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
    response
}

/// Returns the response to a preflight request; `None` for any other request.
fn preflight(request: &Request) -> Option<Response> {
    let headers = request.headers();
    if request.method() != Method::OPTIONS || !headers.contains_key(REQUESTED_METHOD) {
        return None;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let response_headers = response.headers_mut();
    response_headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
    response_headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    if let Some(requested_headers) = headers.get(REQUESTED_HEADERS) {
        response_headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, requested_headers.clone());
    }
    Some(response)
}
