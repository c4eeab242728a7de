//! `/hub`: the call protocol over WebSocket.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use toolpost::link::{CloseReason, Link, ws};
use toolpost::protocol::{Control, Event, Secret};

use super::bearer;
use super::problem::Problem;
use super::websocket;
use crate::app::Gateway;
use crate::auth::AuthError;
use crate::server::Wire;

/// What a peer said about itself before its first frame.
enum Introduction {
    Nothing,
    Token(Secret),
    /// Credentials that are no token; their owner believes to be somebody, and is told.
    Unreadable,
}

/// Turns a request into a peer of the hub.
///
/// Whoever shows a token that nobody knows is let in and sent away with 4401, because a browser is
/// told a close code and is not told a status.
pub(super) async fn upgrade(
    State(gateway): State<Gateway>,
    mut request: Request,
) -> Response<Body> {
    let accept = match check(&gateway, request.headers()) {
        Ok(accept) => accept,
        Err(problem) => return problem.into_response(),
    };
    let introduction = match bearer::presented(request.headers()) {
        Ok(Some(token)) => Introduction::Token(Secret::new(token)),
        Ok(None) => Introduction::Nothing,
        Err(_) => Introduction::Unreadable,
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let arriving = gateway.0.arriving.clone();
    arriving.spawn(arrive(gateway, upgrading, introduction));
    websocket::accepted(accept)
}

fn check(gateway: &Gateway, headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    let words = "the hub speaks the call protocol over WebSocket: connect with ws://";
    let accept = websocket::check(gateway, headers, words)?;
    let most = gateway.0.settings.connections;
    if gateway.0.hub.census().peers + gateway.0.arriving.len() >= most {
        let message = format!("{most} peers are connected, which is the limit");
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message));
    }
    Ok(accept)
}

async fn arrive(gateway: Gateway, upgrading: OnUpgrade, introduction: Introduction) {
    let link = match upgrading.await {
        Ok(upgraded) => link(&gateway, upgraded).await,
        Err(error) => return tracing::debug!(%error, "a peer left during its handshake"),
    };
    admit(&gateway, link, introduction).await;
}

/// Our own server gives its socket back; inside another one there may be layers around it.
async fn link(gateway: &Gateway, upgraded: Upgraded) -> Link {
    let settings = gateway.0.settings.websocket;
    match upgraded.downcast::<TokioIo<Wire>>() {
        Ok(parts) => ws(parts.io.into_inner().into_stream(), parts.read_buf.into(), settings).await,
        Err(upgraded) => ws(TokioIo::new(upgraded), Vec::new(), settings).await,
    }
}

async fn admit(gateway: &Gateway, link: Link, introduction: Introduction) {
    let authenticator = gateway.authenticator();
    let (link, identity) = match introduction {
        Introduction::Token(token) => {
            let identity = authenticator.identify(Some(token.reveal())).await;
            (link, identity.map_err(|error| error.to_string()))
        }
        Introduction::Unreadable => {
            (link, Err("the Authorization header must be `Bearer` and a token, once".to_owned()))
        }
        Introduction::Nothing => {
            let Some((link, token)) = first_frame(gateway, link).await else { return };
            let identity = authenticator.identify(token.as_ref().map(Secret::reveal)).await;
            (link, identity.map_err(|error| describe(&error)))
        }
    };
    match identity {
        Ok(identity) => gateway.0.hub.accept(link, identity),
        Err(words) => {
            tracing::warn!(reason = words, "a peer was refused");
            link.refuse(CloseReason::unauthenticated(words)).await;
        }
    }
}

fn describe(error: &AuthError) -> String {
    match error {
        AuthError::Missing => "the first frame must be `__auth` with a token".to_owned(),
        other => other.to_string(),
    }
}

/// Waits for the first frame, which may hold a token; any other is put back. An open gateway waits
/// for as long as it takes, one that asks for tokens for a moment.
async fn first_frame(gateway: &Gateway, mut link: Link) -> Option<(Link, Option<Secret>)> {
    let patience = async {
        if gateway.authenticator().is_open() {
            return std::future::pending().await;
        }
        tokio::time::sleep(gateway.0.settings.introduction).await;
    };
    let first = tokio::select! {
        biased;
        first = link.first() => first?,
        () = patience => {
            let reason = CloseReason::unauthenticated("no `__auth` came in time");
            link.refuse(reason).await;
            return None;
        }
        () = gateway.0.stopping.cancelled() => {
            link.refuse(CloseReason::going_away()).await;
            return None;
        }
    };
    Some(match first {
        Ok(Event::Control(Control::Auth(token))) => (link, Some(token)),
        other => (link.with_first(other), None),
    })
}
