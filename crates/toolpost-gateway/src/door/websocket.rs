//! The handshake of a WebSocket, whatever is spoken on it then.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use toolpost::link::accept_key;

use super::problem::Problem;
use crate::app::Gateway;

/// Whether a request asks for a WebSocket.
pub(super) fn is_asked(headers: &HeaderMap) -> bool {
    names(headers, header::CONNECTION, "upgrade") && names(headers, header::UPGRADE, "websocket")
}

/// What a handshake is answered with; `words` are for those who ask for something else.
pub(super) fn check(
    gateway: &Gateway,
    headers: &HeaderMap,
    words: &str,
) -> Result<HeaderValue, Problem> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (true, Some(key)) = (is_asked(headers), key) else {
        return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, words)
            .with_header(header::UPGRADE, HeaderValue::from_static("websocket")));
    };
    if !names(headers, header::SEC_WEBSOCKET_VERSION, "13") {
        let message = "version 13 of WebSocket is spoken here";
        return Err(Problem::new(StatusCode::UPGRADE_REQUIRED, message)
            .with_header(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")));
    }
    if gateway.0.stopping.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the gateway is stopping"));
    }
    HeaderValue::from_str(&accept_key(key.as_bytes()))
        .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "Sec-WebSocket-Key is not a key"))
}

/// The answer to a handshake.
pub(super) fn accepted(accept: HeaderValue) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    response
}

fn names(headers: &HeaderMap, name: header::HeaderName, wanted: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(wanted))
}
