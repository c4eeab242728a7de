//! `/hub`: the call protocol over WebSocket.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use toolpost::protocol::{CallEvent, Control, Secret};
use toolpost::transport::{Channel, CloseReason, accept_ws};

use super::bearer;
use super::problem::ProblemDetails;
use super::websocket;
use crate::app::Gateway;
use crate::auth::AuthError;
use crate::server::TimeoutStream;

/// Credentials in the upgrade request of a peer.
enum PeerCredentials {
    Missing,
    Token(Secret),
    /// An `Authorization` header that is not a bearer token. It is rejected rather than ignored.
    Malformed,
}

/// Upgrades a request to a hub connection.
///
/// A connection with an invalid token is accepted and then closed with 4401, because browsers
/// expose close codes but not the HTTP status.
pub(super) async fn upgrade(
    State(gateway): State<Gateway>,
    mut request: Request,
) -> Response<Body> {
    let accept = match check_handshake(&gateway, request.headers()) {
        Ok(accept) => accept,
        Err(problem) => return problem.into_response(),
    };
    let credentials = match bearer::bearer_token(request.headers()) {
        Ok(Some(token)) => PeerCredentials::Token(Secret::new(token)),
        Ok(None) => PeerCredentials::Missing,
        Err(_) => PeerCredentials::Malformed,
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let handshakes = gateway.0.pending_handshakes.clone();
    handshakes.spawn(finish_handshake(gateway, upgrading, credentials));
    websocket::switching_protocols(accept)
}

fn check_handshake(gateway: &Gateway, headers: &HeaderMap) -> Result<HeaderValue, ProblemDetails> {
    let upgrade_message = "/hub serves the call protocol over WebSocket; connect with ws://";
    let accept = websocket::check_handshake(&gateway.0.stopping, headers, upgrade_message)?;
    let max = gateway.0.settings.max_connections;
    if gateway.0.hub.stats().connections + gateway.0.pending_handshakes.len() >= max {
        let message = format!("connection limit reached: {max} peers are connected");
        return Err(ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, message));
    }
    Ok(accept)
}

async fn finish_handshake(gateway: Gateway, upgrading: OnUpgrade, credentials: PeerCredentials) {
    let channel = match upgrading.await {
        Ok(upgraded) => open_transport(&gateway, upgraded).await,
        Err(error) => {
            return tracing::debug!(%error, "peer disconnected during the WebSocket handshake");
        }
    };
    authenticate_peer(&gateway, channel, credentials).await;
}

/// Opens a WebSocket channel. With this crate's server it uses the TCP stream directly; with
/// another server the upgraded connection may be wrapped.
async fn open_transport(gateway: &Gateway, upgraded: Upgraded) -> Channel {
    let settings = gateway.0.settings.websocket;
    match upgraded.downcast::<TokioIo<TimeoutStream>>() {
        Ok(parts) => {
            accept_ws(parts.io.into_inner().into_stream(), parts.read_buf.into(), settings).await
        }
        Err(upgraded) => accept_ws(TokioIo::new(upgraded), Vec::new(), settings).await,
    }
}

async fn authenticate_peer(gateway: &Gateway, channel: Channel, credentials: PeerCredentials) {
    let authenticator = gateway.authenticator();
    let (channel, identity) = match credentials {
        PeerCredentials::Token(token) => {
            let identity = authenticator.identify(Some(token.reveal())).await;
            (channel, identity.map_err(|error| error.to_string()))
        }
        PeerCredentials::Malformed => {
            (channel, Err("the Authorization header must be `Bearer` and a token, once".to_owned()))
        }
        PeerCredentials::Missing => {
            let Some((channel, token)) = read_auth_frame(gateway, channel).await else { return };
            let identity = authenticator.identify(token.as_ref().map(Secret::reveal)).await;
            (channel, identity.map_err(|error| auth_error_message(&error)))
        }
    };
    match identity {
        Ok(identity) => gateway.0.hub.accept(channel, identity),
        Err(message) => {
            tracing::warn!(reason = message, "peer rejected");
            channel.reject(CloseReason::unauthenticated(message)).await;
        }
    }
}

fn auth_error_message(error: &AuthError) -> String {
    match error {
        AuthError::MissingToken => "the first frame must be `__auth` with a token".to_owned(),
        other => other.to_string(),
    }
}

/// Reads the first frame, which may contain a token; any other frame is put back. With
/// authentication, the frame must arrive within the auth timeout. Without it, there is no time
/// limit.
async fn read_auth_frame(
    gateway: &Gateway,
    mut channel: Channel,
) -> Option<(Channel, Option<Secret>)> {
    let auth_deadline = async {
        if gateway.authenticator().allows_anonymous() {
            return std::future::pending().await;
        }
        tokio::time::sleep(gateway.0.settings.auth_timeout).await;
    };
    let first = tokio::select! {
        biased;
        first = channel.first_event() => first?,
        () = auth_deadline => {
            let reason = CloseReason::unauthenticated("timed out waiting for `__auth`");
            channel.reject(reason).await;
            return None;
        }
        () = gateway.0.stopping.cancelled() => {
            channel.reject(CloseReason::going_away()).await;
            return None;
        }
    };
    Some(match first {
        Ok(CallEvent::Control(Control::Auth(token))) => (channel, Some(token)),
        other => (channel.with_first_event(other), None),
    })
}
