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

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use toolpost::Identity;

use super::bearer;
use super::problem::ProblemDetails;
use super::websocket;
use crate::app::Gateway;
use admission::{AdmissionError, RoomAdmission};
use join_params::JoinParams;
pub(super) use rest::{history, participants, topics};

/// Upgrades a request to a room connection.
///
/// A token in the request is checked before the upgrade, since many clients wait forever on a
/// connection that is opened and closed. Without a token, the join frame identifies the
/// participant.
pub(super) async fn connect(
    State(gateway): State<Gateway>,
    mut request: Request,
) -> Response<Body> {
    let upgrade_message = "rooms are joined over WebSocket; connect with ws://";
    let accept = match websocket::check_handshake(&gateway, request.headers(), upgrade_message) {
        Ok(accept) => accept,
        Err(problem) => return problem.into_response(),
    };
    let max = gateway.0.settings.max_connections;
    if gateway.0.rooms.connection_count() >= max {
        let message = format!("connection limit reached: {max} participants are connected");
        return ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let params = match JoinParams::parse(request.headers(), request.uri().query()) {
        Ok(params) => params,
        Err(problem) => return problem.into_response(),
    };
    let admission = match admit_from_request(&gateway, &params).await {
        Ok(admission) => admission,
        Err(denied) => return denied.into_problem(&gateway, request.headers()).into_response(),
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let rooms = gateway.0.rooms.clone();
    rooms.spawn(connection::serve(gateway, upgrading, params, admission));
    websocket::switching_protocols(accept)
}

/// Admits a request that already names its room and token; `None` if a join frame is required.
async fn admit_from_request(
    gateway: &Gateway,
    params: &JoinParams,
) -> Result<Option<RoomAdmission>, AdmissionError> {
    let says_more = params.token.is_none() && !params.skips_join_frame;
    if says_more {
        return Ok(None);
    }
    let Some(room) = &params.room else {
        // A token without a room: the join frame names the room.
        return match &params.token {
            Some(token) => admission::check_token(gateway, token).await.map(|()| None),
            None => Ok(None),
        };
    };
    RoomAdmission::admit(gateway, room, params).await.map(Some)
}

/// Authenticates a REST request.
async fn authenticate_reader(
    gateway: &Gateway,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, ProblemDetails> {
    bearer::authenticate(gateway.authenticator(), uri.path(), headers).await
}
