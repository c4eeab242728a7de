//! `/ws` and `/v0.1/topics`: rooms, for participants over WebSocket and for readers over HTTP.
//!
//! | file | holds |
//! |---|---|
//! | `asked` | where somebody wants to go, as his request says |
//! | `ticket` | who he is, and whether he may |
//! | `connection` | one participant, from the handshake to the goodbye |
//! | `topic` | what can be read without being there |

mod asked;
mod connection;
mod ticket;
mod topic;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri};
use toolpost::Identity;

use super::bearer;
use super::problem::Problem;
use super::websocket;
use crate::app::Gateway;
use asked::Asked;
pub(crate) use ticket::capabilities as room_capabilities;
use ticket::{Denied, Ticket};
pub(super) use topic::{history, participants, topics};

/// Turns a request into a participant of a room.
///
/// Whoever shows a token learns here whether it is one, since many clients wait for ever on a connection
/// that is opened and closed. Whoever shows none says in his first frame who he is.
pub(super) async fn connect(
    State(gateway): State<Gateway>,
    mut request: Request,
) -> Response<Body> {
    let words = "a room is entered over WebSocket: connect with ws://";
    let accept = match websocket::check(&gateway, request.headers(), words) {
        Ok(accept) => accept,
        Err(problem) => return problem.into_response(),
    };
    let most = gateway.0.settings.connections;
    if gateway.0.workspace.connected() >= most {
        let message = format!("{most} participants are connected, which is the limit");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    let asked = match Asked::read(request.headers(), request.uri().query()) {
        Ok(asked) => asked,
        Err(problem) => return problem.into_response(),
    };
    let ticket = match early(&gateway, &asked).await {
        Ok(ticket) => ticket,
        Err(denied) => return denied.into_problem(&gateway, request.headers()).into_response(),
    };
    let upgrading = hyper::upgrade::on(&mut request);
    let workspace = gateway.0.workspace.clone();
    workspace.spawn(connection::serve(gateway, upgrading, asked, ticket));
    websocket::accepted(accept)
}

/// The ticket of somebody who has said enough already; nothing for those whose first frame is awaited.
async fn early(gateway: &Gateway, asked: &Asked) -> Result<Option<Ticket>, Denied> {
    let says_more = asked.token.is_none() && !asked.is_final;
    if says_more {
        return Ok(None);
    }
    let Some(room) = &asked.room else {
        // A token without a room: the first frame names it.
        return match &asked.token {
            Some(token) => ticket::check_token(gateway, token).await.map(|()| None),
            None => Ok(None),
        };
    };
    Ticket::issue(gateway, room, asked).await.map(Some)
}

/// Who reads over HTTP.
async fn reader(
    gateway: &Gateway,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, Problem> {
    bearer::identify(gateway.authenticator(), uri.path(), headers).await
}
