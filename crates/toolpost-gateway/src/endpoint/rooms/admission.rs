//! Admission of participants to rooms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderMap, StatusCode};
use toolpost::shares::Holder;
use toolpost::{Identity, IdentityKind};

use super::RoomsEndpoint;
use super::join_params::JoinParams;
use crate::auth::{AuthError, JwtError, Token};
use crate::endpoint::bearer::{self, PeerCertificate};
use crate::endpoint::problem::ProblemDetails;
use crate::room::capability::Capabilities;
use crate::room::message::RejectionCode;
use crate::room::{ParticipantJoin, RoomError, RoomHandle, RoomName, check_participant};

/// Capabilities of participants on a gateway without authentication: everything except changing
/// permissions.
const ANONYMOUS_CAPABILITIES: [&str; 8] = [
    "chat",
    "chat/*",
    "mcp/*",
    "reasoning/*",
    "stream/*",
    "participant/status",
    "participant/request-status",
    "capability/grant-ack",
];

/// An admitted participant and its room.
#[derive(Debug)]
pub(super) struct RoomAdmission {
    pub(super) room: RoomHandle,
    pub(super) join: ParticipantJoin,
}

/// Why a participant is not admitted.
#[derive(Debug)]
pub(super) enum AdmissionError {
    /// The token is missing or invalid.
    Unauthenticated(AuthError),
    /// The identity differs from the requested participant or has no access.
    Forbidden(RoomError),
    /// The room cannot be opened or joined now, or its name is invalid.
    Unavailable(RoomError),
}

impl AdmissionError {
    /// Converts the error to the response to a join frame.
    pub(super) fn into_rejection(self) -> RoomError {
        match self {
            Self::Unauthenticated(error) => RejectionCode::Unauthorized.error(error.to_string()),
            Self::Forbidden(rejection) | Self::Unavailable(rejection) => rejection,
        }
    }

    pub(super) fn into_problem(
        self,
        endpoint: &RoomsEndpoint,
        headers: &HeaderMap,
    ) -> ProblemDetails {
        match self {
            Self::Unauthenticated(AuthError::Jwt(error @ JwtError::KeysUnavailable(_))) => {
                ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
            Self::Unauthenticated(error) => {
                bearer::invalid_token(&endpoint.authenticator, "/ws", headers, error.to_string())
            }
            Self::Forbidden(rejection) => {
                ProblemDetails::new(StatusCode::FORBIDDEN, rejection.message)
            }
            Self::Unavailable(rejection) => {
                let status = match rejection.code {
                    RejectionCode::InvalidMessage => StatusCode::BAD_REQUEST,
                    _ => StatusCode::SERVICE_UNAVAILABLE,
                };
                ProblemDetails::new(status, rejection.message)
            }
        }
    }
}

/// Checks a token that is valid at every endpoint. A guest token is only valid together with its
/// room.
pub(super) async fn check_token(
    endpoint: &RoomsEndpoint,
    token: &Token,
) -> Result<(), AdmissionError> {
    let identity = endpoint.authenticator.identify(Some(token.reveal())).await;
    identity.map(drop).map_err(AdmissionError::Unauthenticated)
}

impl RoomAdmission {
    pub(super) async fn admit(
        endpoint: &RoomsEndpoint,
        room: &str,
        params: &JoinParams,
    ) -> Result<Self, AdmissionError> {
        let (room, identity) =
            open_room(endpoint, room, params.token.as_ref(), &params.certificate, &params.client)
                .await?;
        let id = participant_name(endpoint, &identity, params)?;
        check_participant(&id).map_err(AdmissionError::Forbidden)?;
        let (name, caller): (Box<str>, _) = (id.as_str().into(), Arc::clone(&identity));
        match room.inspect(move |room| room.check_can_join(&name, &caller)).await {
            Some(arrival) => arrival.map_err(AdmissionError::Forbidden)?,
            None => return Err(room_unavailable()),
        }
        let token_capabilities = match is_anonymous(endpoint, params) {
            true if endpoint.authenticator.allows_anonymous() => {
                Some(Capabilities::parse_all(&ANONYMOUS_CAPABILITIES))
            }
            _ => Capabilities::of_identity(&identity),
        };
        let join = ParticipantJoin {
            connection: 0,
            id: id.into(),
            token_capabilities,
            identity,
            protocol: params.protocol,
            history: params.history,
            kinds: params.kinds.clone(),
        };
        Ok(Self { room, join })
    }
}

fn room_unavailable() -> AdmissionError {
    let message = "the room is unavailable; see the gateway log";
    AdmissionError::Unavailable(RejectionCode::Unavailable.error(message))
}

/// Returns the room and the identity. Only an identity of this gateway opens a room; a guest must
/// name an existing one.
pub(super) async fn open_room(
    endpoint: &RoomsEndpoint,
    room: &str,
    token: Option<&Token>,
    certificate: &PeerCertificate,
    client: &Holder,
) -> Result<(RoomHandle, Arc<Identity>), AdmissionError> {
    let name = RoomName::parse(room);
    let identifying =
        endpoint.authenticator.identify_peer(token.map(Token::reveal), certificate.get());
    let unknown = match identifying.await {
        Ok(identity) => {
            let name = name.map_err(|error| RejectionCode::InvalidMessage.error(error.to_string()));
            let opener = Holder::from(&*identity);
            let room = name.and_then(|name| endpoint.rooms.get_or_open(&name, &opener));
            return Ok((room.map_err(AdmissionError::Unavailable)?, identity));
        }
        Err(error) => AdmissionError::Unauthenticated(error),
    };
    let (Some(token), Ok(name)) = (token, name) else { return Err(unknown) };
    let room = endpoint.rooms.find_existing(&name, client).await;
    let Some(room) = room else { return Err(unknown) };
    let identity = guest_identity(&room, token).await?;
    // A guest cannot impersonate an identity of this gateway.
    let identity = identity.filter(|guest| !endpoint.authenticator.has_identity(&guest.id));
    Ok((room, identity.ok_or(unknown)?))
}

/// Whether a participant has neither a token nor a client certificate with an identity.
fn is_anonymous(endpoint: &RoomsEndpoint, params: &JoinParams) -> bool {
    let certificate = params.certificate.get();
    let identity = certificate.and_then(|found| endpoint.authenticator.certificate_identity(found));
    params.token.is_none() && identity.is_none()
}

/// Returns the name of a participant. A token determines the name.
fn participant_name(
    endpoint: &RoomsEndpoint,
    identity: &Identity,
    params: &JoinParams,
) -> Result<String, AdmissionError> {
    let other =
        |message| Err(AdmissionError::Forbidden(RejectionCode::AuthViolation.error(message)));
    if is_anonymous(endpoint, params) {
        let id = params.participant.clone().unwrap_or_else(anonymous_name);
        return match endpoint.authenticator.has_identity(&id) {
            true => other(format!("`{id}` requires a token")),
            false => Ok(id),
        };
    }
    let id = identity.id.clone();
    match params.participant.as_ref().is_some_and(|requested| *requested != id) {
        true => other(format!("this token belongs to `{id}`")),
        false => Ok(id),
    }
}

/// Returns the guest identity of a token that is only valid in this room.
async fn guest_identity(
    room: &RoomHandle,
    token: &Token,
) -> Result<Option<Arc<Identity>>, AdmissionError> {
    let hash = token.hash().to_string();
    let room_name: Arc<str> = (**room.name()).into();
    let guest = room.inspect(move |room| {
        let (id, inviters) = room.guest(&hash)?;
        let kind = IdentityKind::Guest { room: room_name, inviters: inviters.into() };
        Some(Arc::new(Identity::new(id).with_kind(kind)))
    });
    guest.await.ok_or_else(room_unavailable)
}

/// Returns a name for an anonymous participant that does not choose one.
fn anonymous_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    match COUNT.fetch_add(1, Ordering::Relaxed) {
        0 => crate::auth::LOCAL.to_owned(),
        number => format!("{}-{}", crate::auth::LOCAL, number + 1),
    }
}
