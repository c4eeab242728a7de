//! `/ws` and `/v0.1/topics`: rooms, for participants over WebSocket and for readers over HTTP.
//!
//! | file | contents |
//! |---|---|
//! | `join_params` | the room and the identity that a request names |
//! | `admission` | authentication and access to a room |
//! | `connection` | one participant, from handshake to close |
//! | `rest` | rooms over plain HTTP |

mod admission;
mod connection;
mod join_params;
mod rest;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use axum::routing::get;
use tokio_util::sync::CancellationToken;
use toolpost::shares::Shares;

use super::bearer::PeerCertificate;
use super::problem::ProblemDetails;
use super::settings::GatewaySettings;
use super::websocket;
use crate::auth::Authenticator;
use crate::room::Rooms;
use admission::{AdmissionError, RoomAdmission};
use join_params::JoinParams;

/// State of the rooms endpoint.
#[derive(Debug, Clone)]
pub(crate) struct RoomsEndpoint {
    rooms: Rooms,
    authenticator: Authenticator,
    /// The open WebSockets of the hub and of rooms.
    websockets: Shares,
    auth_timeout: Duration,
    /// Canceled when the gateway stops.
    stopping: CancellationToken,
}

impl RoomsEndpoint {
    pub(crate) fn new(
        rooms: Rooms,
        authenticator: Authenticator,
        settings: &GatewaySettings,
        websockets: Shares,
        stopping: CancellationToken,
    ) -> Self {
        let auth_timeout = settings.auth_timeout;
        Self { rooms, authenticator, websockets, auth_timeout, stopping }
    }
}

pub(crate) fn routes(endpoint: RoomsEndpoint) -> Router {
    Router::new()
        .route("/ws", get(connect))
        .route("/v0/ws", get(connect))
        .route("/v0.1/ws", get(connect))
        .route("/v0.1/topics", get(rest::topics))
        .route("/v0.1/topics/{topic}/participants", get(rest::participants))
        .route("/v0.1/topics/{topic}/history", get(rest::history))
        .with_state(endpoint)
}

/// Upgrades a request to a room connection.
///
/// A token in the request is checked before the upgrade, since many clients wait forever on a
/// connection that is opened and closed. Without a token, the join frame identifies the
/// participant.
pub(crate) async fn connect(
    State(endpoint): State<RoomsEndpoint>,
    mut request: Request,
) -> Result<Response<Body>, ProblemDetails> {
    let upgrade_message = "rooms are joined over WebSocket; connect with ws://";
    let accept =
        websocket::check_handshake(&endpoint.stopping, request.headers(), upgrade_message)?;
    let mut permit = websocket::acquire(&endpoint.websockets, request.extensions())?;
    let client = websocket::request_holder(request.extensions());
    let certificate = PeerCertificate::from_extensions(request.extensions());
    let query = request.uri().query();
    let params = JoinParams::parse(request.headers(), query, client, certificate)?;
    let admission = admit_from_request(&endpoint, &params).await;
    let admission =
        admission.map_err(|denied| denied.into_problem(&endpoint, request.headers()))?;
    if let Some(admission) = &admission {
        websocket::assign(&mut permit, &admission.join.identity)?;
    }
    let upgrading = hyper::upgrade::on(&mut request);
    let rooms = endpoint.rooms.clone();
    rooms.spawn(connection::serve(endpoint, upgrading, params, admission, permit));
    Ok(websocket::switching_protocols(accept))
}

/// Admits a request that already names its room and token; `None` if a join frame is required.
async fn admit_from_request(
    endpoint: &RoomsEndpoint,
    params: &JoinParams,
) -> Result<Option<RoomAdmission>, AdmissionError> {
    let says_more = params.token.is_none() && !params.skips_join_frame;
    if says_more {
        return Ok(None);
    }
    let Some(room) = &params.room else {
        // A token without a room: the join frame names the room.
        return match &params.token {
            Some(token) => admission::check_token(endpoint, token).await.map(|()| None),
            None => Ok(None),
        };
    };
    RoomAdmission::admit(endpoint, room, params).await.map(Some)
}
