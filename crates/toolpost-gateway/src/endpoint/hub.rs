//! `/hub`: the call protocol over WebSocket.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::hub::Hub;
use toolpost::protocol::{CallEvent, Control, Secret};
use toolpost::transport::{Channel, CloseReason, accept_ws};

use super::bearer;
use super::problem::ProblemDetails;
use super::settings::GatewaySettings;
use super::websocket;
use crate::auth::{AuthError, Authenticator};
use crate::server::upgraded_stream;

/// State of the hub endpoint.
#[derive(Debug, Clone)]
pub(crate) struct HubEndpoint {
    pub(crate) hub: Hub,
    pub(crate) authenticator: Authenticator,
    pub(crate) settings: Arc<GatewaySettings>,
    /// Async tasks of peers that have not authenticated yet. They end when shutdown begins.
    pub(crate) pending_handshakes: TaskTracker,
    /// Canceled when the gateway stops.
    pub(crate) stopping: CancellationToken,
}

/// The token in the upgrade request of a peer, or why its `Authorization` header is rejected.
type PeerCredentials = Result<Option<Secret>, &'static str>;

/// Upgrades a request to a hub connection.
///
/// A connection with an invalid token is accepted and then closed with 4401, because browsers
/// expose close codes but not the HTTP status.
pub(crate) async fn upgrade(
    State(endpoint): State<HubEndpoint>,
    mut request: Request,
) -> Result<Response<Body>, ProblemDetails> {
    let accept = endpoint.check_handshake(request.headers())?;
    let credentials = bearer::bearer_token(request.headers()).map(|token| token.map(Secret::new));
    let upgrading = hyper::upgrade::on(&mut request);
    let handshakes = endpoint.pending_handshakes.clone();
    handshakes.spawn(endpoint.finish_handshake(upgrading, credentials));
    Ok(websocket::switching_protocols(accept))
}

impl HubEndpoint {
    fn check_handshake(&self, headers: &HeaderMap) -> Result<HeaderValue, ProblemDetails> {
        let upgrade_message = "/hub serves the call protocol over WebSocket; connect with ws://";
        let accept = websocket::check_handshake(&self.stopping, headers, upgrade_message)?;
        let max = self.settings.max_connections;
        if self.hub.stats().connections + self.pending_handshakes.len() >= max {
            let message = format!("connection limit reached: {max} peers are connected");
            return Err(ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, message));
        }
        Ok(accept)
    }

    async fn finish_handshake(self, upgrading: OnUpgrade, credentials: PeerCredentials) {
        match upgrading.await {
            Ok(upgraded) => {
                let (stream, buffered) = upgraded_stream(upgraded);
                let channel = accept_ws(stream, buffered, self.settings.websocket).await;
                self.authenticate_peer(channel, credentials).await;
            }
            Err(error) => {
                tracing::debug!(%error, "peer disconnected during the WebSocket handshake");
            }
        }
    }

    async fn authenticate_peer(&self, channel: Channel, credentials: PeerCredentials) {
        let (channel, identity) = match credentials {
            Ok(Some(token)) => {
                let identity = self.authenticator.identify(Some(token.reveal())).await;
                (channel, identity.map_err(|error| error.to_string()))
            }
            Err(message) => (channel, Err(message.to_owned())),
            Ok(None) => {
                let Some((channel, token)) = self.read_auth_frame(channel).await else { return };
                let token = token.as_ref().map(Secret::reveal);
                let identity = self.authenticator.identify(token).await;
                let identity = identity.map_err(|error| match error {
                    AuthError::MissingToken => {
                        "the first frame must be `__auth` with a token".to_owned()
                    }
                    other => other.to_string(),
                });
                (channel, identity)
            }
        };
        match identity {
            Ok(identity) => self.hub.accept(channel, identity),
            Err(message) => {
                tracing::warn!(reason = message, "peer rejected");
                channel.reject(CloseReason::unauthenticated(message)).await;
            }
        }
    }

    /// Reads the first frame, which may contain a token; any other frame is put back. With
    /// authentication, the frame must arrive within the auth timeout. Without it, there is no time
    /// limit.
    async fn read_auth_frame(&self, mut channel: Channel) -> Option<(Channel, Option<Secret>)> {
        let auth_deadline = async {
            if self.authenticator.allows_anonymous() {
                return std::future::pending().await;
            }
            tokio::time::sleep(self.settings.auth_timeout).await;
        };
        let reason = tokio::select! {
            biased;
            first = channel.first_event() => return Some(match first? {
                Ok(CallEvent::Control(Control::Auth(token))) => (channel, Some(token)),
                other => (channel.with_first_event(other), None),
            }),
            () = auth_deadline => CloseReason::unauthenticated("timed out waiting for `__auth`"),
            () = self.stopping.cancelled() => CloseReason::going_away(),
        };
        channel.reject(reason).await;
        None
    }
}
