//! The WebSocket handshake, independent of the protocol on top.

use axum::body::Body;
use axum::http::{Extensions, HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use tokio_util::sync::CancellationToken;
use toolpost::Identity;
use toolpost::shares::{Holder, ShareError, SharePermit, Shares};
use toolpost::transport::accept_key;

use super::accept::list_items;
use super::problem::ProblemDetails;

/// Whether a request is a WebSocket upgrade.
pub(crate) fn is_upgrade_request(headers: &HeaderMap) -> bool {
    header_contains(headers, header::CONNECTION, "upgrade")
        && header_contains(headers, header::UPGRADE, "websocket")
}

/// Checks a handshake and returns `Sec-WebSocket-Accept`, or fails with the message.
pub(super) fn check_handshake(
    stopping: &CancellationToken,
    headers: &HeaderMap,
    upgrade_message: &str,
) -> Result<HeaderValue, ProblemDetails> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let (true, Some(key)) = (is_upgrade_request(headers), key) else {
        return Err(ProblemDetails::new(StatusCode::UPGRADE_REQUIRED, upgrade_message)
            .with_header(header::UPGRADE, "websocket"));
    };
    if !header_contains(headers, header::SEC_WEBSOCKET_VERSION, "13") {
        let message = "only WebSocket version 13 is supported";
        return Err(ProblemDetails::new(StatusCode::UPGRADE_REQUIRED, message)
            .with_header(header::SEC_WEBSOCKET_VERSION, "13"));
    }
    if stopping.is_cancelled() {
        return Err(ProblemDetails::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "the gateway is stopping",
        ));
    }
    HeaderValue::from_str(&accept_key(key.as_bytes()))
        .map_err(|_| ProblemDetails::new(StatusCode::BAD_REQUEST, "invalid Sec-WebSocket-Key"))
}

/// Returns whose share a request uses. Another server than this crate's does not tell.
pub(super) fn request_holder(extensions: &Extensions) -> Holder {
    extensions.get().cloned().unwrap_or_else(Holder::of_unknown_address)
}

/// Takes a WebSocket out of the share of the client.
pub(super) fn acquire(
    websockets: &Shares,
    extensions: &Extensions,
) -> Result<SharePermit, ProblemDetails> {
    Ok(websockets.try_acquire(&request_holder(extensions), 1)?)
}

/// Counts a WebSocket for the identity of its client. One over the Unix socket stays the
/// operator's.
pub(super) fn assign(permit: &mut SharePermit, identity: &Identity) -> Result<(), ShareError> {
    match permit.holder() {
        Holder::Operator => Ok(()),
        _ => permit.transfer(&Holder::from(identity)),
    }
}

/// Returns the response to a valid handshake.
pub(super) fn switching_protocols(accept: HeaderValue) -> Response<Body> {
    let upgrade = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "websocket")];
    let accept = [(header::SEC_WEBSOCKET_ACCEPT, accept)];
    (StatusCode::SWITCHING_PROTOCOLS, upgrade, accept).into_response()
}

fn header_contains(headers: &HeaderMap, name: header::HeaderName, expected: &str) -> bool {
    list_items(headers, name).any(|item| item.eq_ignore_ascii_case(expected))
}
