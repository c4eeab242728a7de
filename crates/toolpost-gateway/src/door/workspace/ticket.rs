//! Who comes into a room, and whether he may.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, StatusCode};
use toolpost::Identity;

use super::asked::Asked;
use crate::admin::{self, scope};
use crate::app::Gateway;
use crate::auth::{AuthError, JwtError, Token};
use crate::door::bearer;
use crate::door::problem::Problem;
use crate::room::capability::{Capabilities, Capability};
use crate::room::{Newcomer, Refusal, RoomHandle, check_participant};

/// What those may do who need no token: everything but what changes who may do what.
const OPEN: [&str; 8] = [
    "chat",
    "chat/*",
    "mcp/*",
    "reasoning/*",
    "stream/*",
    "participant/status",
    "participant/request-status",
    "capability/grant-ack",
];

/// Somebody who may come in, and where.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) room: RoomHandle,
    pub(super) newcomer: Newcomer,
}

/// Why somebody does not come in.
#[derive(Debug)]
pub(super) enum Denied {
    /// He is nobody.
    Unknown(AuthError),
    /// He is somebody, and not the one he says, or not somebody who may.
    Forbidden(Refusal),
    /// It cannot be done at the moment, or at all.
    Impossible(Refusal),
}

impl Denied {
    /// The code and the words, for a first frame that is refused.
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::Unknown(error) => Refusal::new("unauthorized", error.to_string()),
            Self::Forbidden(refusal) | Self::Impossible(refusal) => refusal,
        }
    }

    pub(super) fn into_problem(self, gateway: &Gateway, headers: &HeaderMap) -> Problem {
        match self {
            Self::Unknown(AuthError::Jwt(error @ JwtError::NoKeys(_))) => {
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            Self::Unknown(error) => {
                bearer::refused(gateway.authenticator(), "/ws", headers, error.to_string())
            }
            Self::Forbidden(refusal) => Problem::new(StatusCode::FORBIDDEN, refusal.message),
            Self::Impossible(refusal) => {
                let status = match refusal.error {
                    "invalid_message" => StatusCode::BAD_REQUEST,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                Problem::new(status, refusal.message)
            }
        }
    }
}

/// Whether somebody has a token that any door would take. One that only a room knows has to be shown
/// with the room.
pub(super) async fn check_token(gateway: &Gateway, token: &Token) -> Result<(), Denied> {
    let identity = gateway.authenticator().identify(Some(token.reveal())).await;
    identity.map(drop).map_err(Denied::Unknown)
}

impl Ticket {
    pub(super) async fn issue(
        gateway: &Gateway,
        room: &str,
        asked: &Asked,
    ) -> Result<Self, Denied> {
        let (room, identity) = enter(gateway, room, asked.token.as_ref()).await?;
        let id = named(gateway, &identity, asked)?;
        check_participant(&id).map_err(Denied::Forbidden)?;
        let (wanted, has_token): (Box<str>, _) = (id.as_str().into(), asked.token.is_some());
        let looked = room.look(move |room| {
            if !has_token && room.has_token(&wanted) {
                let words = format!("`{wanted}` has a token, and none was shown");
                return Err(Refusal::new("auth_violation", words));
            }
            room.check_arrival(&wanted)
        });
        match looked.await {
            Some(arrival) => arrival.map_err(Denied::Forbidden)?,
            None => return Err(closed()),
        }
        let own = capabilities(gateway, &identity, asked.token.is_some());
        let (protocol, history) = (asked.protocol, asked.history);
        let newcomer = Newcomer { id: id.into(), identity, own, protocol, history };
        Ok(Self { room, newcomer })
    }
}

fn closed() -> Denied {
    let words = "the room cannot be opened; the gateway's log says why";
    Denied::Impossible(Refusal::new("unavailable", words))
}

/// The room, and who it is. Whoever is nobody opens none: he may only be somebody to a room that is
/// there already.
pub(super) async fn enter(
    gateway: &Gateway,
    room: &str,
    token: Option<&Token>,
) -> Result<(RoomHandle, Arc<Identity>), Denied> {
    let unknown = match gateway.authenticator().identify(token.map(Token::reveal)).await {
        Ok(identity) => {
            let room = gateway.0.workspace.room(gateway, room).map_err(Denied::Impossible)?;
            return Ok((room, identity));
        }
        Err(error) => Denied::Unknown(error),
    };
    let Some(token) = token else { return Err(unknown) };
    let Some(room) = gateway.0.workspace.known_room(gateway, room).await else {
        return Err(unknown);
    };
    let identity = invited(&room, token).await?;
    // Whoever invites somebody who has a token of this gateway does not become him by that.
    let identity = identity.filter(|guest| !gateway.authenticator().knows(&guest.id));
    Ok((room, identity.ok_or(unknown)?))
}

/// What somebody is called in a room. A token names one participant.
fn named(gateway: &Gateway, identity: &Identity, asked: &Asked) -> Result<String, Denied> {
    let other = |words| Err(Denied::Forbidden(Refusal::new("auth_violation", words)));
    if asked.token.is_none() {
        let id = asked.participant.clone().unwrap_or_else(stranger);
        return match gateway.authenticator().knows(&id) {
            true => other(format!("`{id}` has a token, and none was shown")),
            false => Ok(id),
        };
    }
    let id = identity.id.clone();
    match asked.participant.as_ref().is_some_and(|wanted| *wanted != id) {
        true => other(format!("this token is the one of `{id}`, and of nobody else")),
        false => Ok(id),
    }
}

/// Somebody with a token that only this room knows.
async fn invited(room: &RoomHandle, token: &Token) -> Result<Option<Arc<Identity>>, Denied> {
    let hash = token.hash().to_string();
    let id = room.look(move |room| room.invited(&hash)).await.ok_or_else(closed)?;
    Ok(id.map(|id| Arc::new(Identity::new(&*id))))
}

/// A name for somebody who says none and needs none.
fn stranger() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => crate::auth::LOCAL.to_owned(),
        number => format!("{}-{}", crate::auth::LOCAL, number + 1),
    }
}

/// What somebody's identity says that he may in a room; nothing if it says nothing about that.
pub(crate) fn capabilities(
    gateway: &Gateway,
    identity: &Identity,
    has_token: bool,
) -> Option<Capabilities> {
    let parsed = |texts: &[&str]| {
        Capabilities::new(texts.iter().filter_map(|text| Capability::parse(text).ok()))
    };
    if !has_token && gateway.authenticator().is_open() {
        return Some(parsed(&OPEN));
    }
    let is_operator =
        identity.id == admin::OPERATOR && identity.scopes.iter().any(|held| held == scope::ADMIN);
    if is_operator && identity.capabilities.is_empty() {
        return Some(parsed(&["*"]));
    }
    let texts: Vec<&str> = identity.capabilities.iter().map(String::as_str).collect();
    (!texts.is_empty()).then(|| parsed(&texts))
}
