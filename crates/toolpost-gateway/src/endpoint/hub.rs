//! `/hub`: the call protocol over WebSocket.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response};
use hyper::upgrade::OnUpgrade;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolpost::hub::Hub;
use toolpost::protocol::{CallEvent, Control, Secret};
use toolpost::shares::{SharePermit, Shares};
use toolpost::transport::{Channel, CloseReason, accept_ws};

use super::bearer::{self, PeerCertificate};
use super::problem::ProblemDetails;
use super::settings::GatewaySettings;
use super::websocket;
use crate::admin;
use crate::auth::{AuthError, Authenticator};
use crate::server::{FromSameUser, upgraded_stream};

/// Header of the handshake response over the Unix socket: the configuration file of the gateway, as
/// returned by [`Config::file_url`](crate::config::Config::file_url).
pub const CONFIG_HEADER: HeaderName = HeaderName::from_static("x-toolpost-config");

/// State of the hub endpoint.
#[derive(Clone)]
pub(crate) struct HubEndpoint {
    pub(crate) hub: Hub,
    pub(crate) authenticator: Authenticator,
    pub(crate) settings: Arc<GatewaySettings>,
    /// The open WebSockets of the hub and of rooms.
    pub(crate) websockets: Shares,
    /// Async tasks of peers that have not authenticated yet. They end when shutdown begins.
    pub(crate) pending_handshakes: TaskTracker,
    /// Canceled when the gateway stops.
    pub(crate) stopping: CancellationToken,
    /// Returns the value of [`CONFIG_HEADER`]; `None` without a configuration file.
    pub(crate) config_url: Arc<dyn Fn() -> Option<String> + Send + Sync>,
}

/// The credentials in the upgrade request of a peer.
enum PeerCredentials {
    Token(Secret),
    /// Why the `Authorization` header is rejected.
    Invalid(&'static str),
    /// No token in the request. The first frame may contain one; else the client certificate is used.
    Absent(PeerCertificate),
    /// No credentials, over the Unix socket.
    SameUser,
}

/// Upgrades a request to a hub connection.
///
/// A connection with an invalid token is accepted and then closed with 4401, because browsers
/// expose close codes but not the HTTP status.
pub(crate) async fn upgrade(
    State(endpoint): State<HubEndpoint>,
    mut request: Request,
) -> Result<Response<Body>, ProblemDetails> {
    let accept = endpoint.check_handshake(request.headers())?;
    let permit = websocket::acquire(&endpoint.websockets, request.extensions())?;
    let is_same_user = request.extensions().get::<FromSameUser>().is_some();
    let credentials = match bearer::bearer_token(request.headers()) {
        Ok(Some(token)) => PeerCredentials::Token(Secret::new(token)),
        Err(message) => PeerCredentials::Invalid(message),
        Ok(None) if is_same_user => PeerCredentials::SameUser,
        Ok(None) => PeerCredentials::Absent(PeerCertificate::from_extensions(request.extensions())),
    };
    let config_url = is_same_user.then(|| (endpoint.config_url)()).flatten();
    let upgrading = hyper::upgrade::on(&mut request);
    let handshakes = endpoint.pending_handshakes.clone();
    handshakes.spawn(endpoint.finish_handshake(upgrading, credentials, permit));
    let mut response = websocket::switching_protocols(accept);
    if let Some(Ok(url)) = config_url.map(HeaderValue::try_from) {
        response.headers_mut().insert(CONFIG_HEADER, url);
    }
    Ok(response)
}

impl HubEndpoint {
    fn check_handshake(&self, headers: &HeaderMap) -> Result<HeaderValue, ProblemDetails> {
        let upgrade_message = "/hub serves the call protocol over WebSocket; connect with ws://";
        websocket::check_handshake(&self.stopping, headers, upgrade_message)
    }

    async fn finish_handshake(
        self,
        upgrading: OnUpgrade,
        credentials: PeerCredentials,
        permit: SharePermit,
    ) {
        match upgrading.await {
            Ok(upgraded) => {
                let (stream, buffered) = upgraded_stream(upgraded);
                let channel = accept_ws(stream, buffered, self.settings.websocket).await;
                self.authenticate_peer(channel, credentials, permit).await;
            }
            Err(error) => {
                tracing::debug!(%error, "peer disconnected during the WebSocket handshake");
            }
        }
    }

    async fn authenticate_peer(
        &self,
        channel: Channel,
        credentials: PeerCredentials,
        mut permit: SharePermit,
    ) {
        let (channel, identity) = match credentials {
            PeerCredentials::Token(token) => {
                let identity = self.authenticator.identify(Some(token.reveal())).await;
                (channel, identity.map_err(|error| error.to_string()))
            }
            PeerCredentials::Invalid(message) => (channel, Err(message.to_owned())),
            PeerCredentials::SameUser => {
                let anonymous = self.authenticator.lookup_token(None);
                (channel, Ok(anonymous.unwrap_or_else(|_| Arc::new(admin::operator()))))
            }
            PeerCredentials::Absent(certificate) => {
                let certificate = certificate.get();
                let known =
                    certificate.and_then(|found| self.authenticator.certificate_identity(found));
                let first = self.read_auth_frame(channel, known.is_some()).await;
                let Some((channel, token)) = first else { return };
                let token = token.as_ref().map(Secret::reveal);
                let identity = self.authenticator.identify_peer(token, certificate).await;
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
            Ok(identity) => match websocket::assign(&mut permit, &identity) {
                Ok(()) => self.hub.accept(channel.with_guard(permit), identity),
                Err(error) => channel.reject(CloseReason::overloaded(error.to_string())).await,
            },
            Err(message) => {
                tracing::warn!(reason = message, "peer rejected");
                channel.reject(CloseReason::unauthenticated(message)).await;
            }
        }
    }

    /// Reads the first frame, which may contain a token; any other frame is put back. If a token is
    /// required, the frame must arrive within the auth timeout. Otherwise there is no time limit.
    async fn read_auth_frame(
        &self,
        mut channel: Channel,
        has_certificate: bool,
    ) -> Option<(Channel, Option<Secret>)> {
        let auth_deadline = async {
            if has_certificate || self.authenticator.allows_anonymous() {
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
