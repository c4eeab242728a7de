//! Read access to rooms over HTTP, without joining.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::RoomsEndpoint;
use super::admission::{self, AdmissionError};
use crate::auth::Token;
use crate::endpoint::bearer::{self, PeerCertificate};
use crate::endpoint::problem::ProblemDetails;
use crate::endpoint::websocket;
use crate::kind_filter::KindFilter;
use crate::room::message::{Protocol, RoomMessage};
use crate::room::{REGISTRY_PARTICIPANT, RoomHandle, format_for_mcpx};

/// Default number of messages per page.
const DEFAULT_LIMIT: usize = 100;
/// Maximum number of messages per page.
const MAX_LIMIT: usize = 1_000;

/// `GET /v0.1/topics`: lists the rooms that the caller may join.
pub(in crate::endpoint) async fn topics(
    State(endpoint): State<RoomsEndpoint>,
    uri: Uri,
    certificate: PeerCertificate,
    headers: HeaderMap,
) -> Result<Response<Body>, ProblemDetails> {
    let authenticating =
        bearer::authenticate(&endpoint.authenticator, uri.path(), &headers, &certificate);
    let identity = authenticating.await?;
    let topics = endpoint.rooms.room_names();
    let topics = topics.iter().filter(|name| endpoint.rooms.admits(name, &identity));
    let topics: Vec<&str> = topics.map(|name| &**name).collect();
    Ok(Json(json!({"topics": topics})).into_response())
}

/// `GET /v0.1/topics/{topic}/participants`: the current participants.
pub(in crate::endpoint) async fn participants(
    State(endpoint): State<RoomsEndpoint>,
    Path(topic): Path<String>,
    head: Parts,
) -> Result<Response<Body>, ProblemDetails> {
    let room = accessible_room(&endpoint, &topic, &head).await?;
    let present = room.inspect(|room| room.participants()).await.ok_or_else(room_unavailable)?;
    let mut entries: Vec<Value> = present
        .iter()
        .map(|(id, capabilities)| json!({"id": &**id, "capabilities": format_for_mcpx(capabilities)}))
        .collect();
    entries.push(json!({"id": REGISTRY_PARTICIPANT, "capabilities": ["mcp/response"]}));
    Ok(Json(json!({"participants": entries})).into_response())
}

/// `GET /v0.1/topics/{topic}/history`: the messages, newest first.
pub(in crate::endpoint) async fn history(
    State(endpoint): State<RoomsEndpoint>,
    Path(topic): Path<String>,
    head: Parts,
) -> Result<Response<Body>, ProblemDetails> {
    let HistoryQuery { limit, before, protocol, kinds } = HistoryQuery::parse(&head.uri)?;
    let room = accessible_room(&endpoint, &topic, &head).await?;
    let messages =
        room.inspect(move |room| room.history_page(limit, before.as_deref(), kinds.as_ref())).await;
    let segments = history_segments(&messages.ok_or_else(room_unavailable)?, protocol);
    let length: usize = segments.iter().map(Bytes::len).sum();
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CONTENT_LENGTH, length.into()),
    ];
    let segments = futures::stream::iter(segments.into_iter().map(Ok::<_, Infallible>));
    Ok((headers, Body::from_stream(segments)).into_response())
}

/// Encodes the history in segments, which share the messages with the room. Some clients read
/// `messages`, others `history`.
fn history_segments(messages: &[Arc<RoomMessage>], protocol: Protocol) -> Vec<Bytes> {
    let mut list = Vec::new();
    for message in messages {
        if !list.is_empty() {
            list.push(Bytes::from_static(b","));
        }
        list.extend(RoomMessage::encode_segments(message, protocol));
    }
    let part = |text: &'static str| [Bytes::from_static(text.as_bytes())];
    let body = part(r#"{"messages":["#).into_iter().chain(list.clone());
    body.chain(part(r#"],"history":["#)).chain(list).chain(part("]}")).collect()
}

struct HistoryQuery {
    limit: usize,
    before: Option<String>,
    protocol: Protocol,
    kinds: Option<KindFilter>,
}

impl HistoryQuery {
    fn parse(uri: &Uri) -> Result<Self, ProblemDetails> {
        let bad = |message: &str| ProblemDetails::new(StatusCode::BAD_REQUEST, message);
        let (mut limit, mut protocol) = (Some(DEFAULT_LIMIT), Some(Protocol::Mcpx01));
        let (mut before, mut kinds) = (None, Vec::new());
        let query = uri.query().unwrap_or_default();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "limit" => limit = value.parse().ok(),
                "before" => before = Some(value.into_owned()),
                "protocol" => protocol = Protocol::parse(&value),
                "kind" => kinds.push(value),
                _ => {}
            }
        }
        let limit = limit.filter(|limit| (1..=MAX_LIMIT).contains(limit));
        let limit_error = || bad(&format!("`limit` must be a number from 1 to {MAX_LIMIT}"));
        Ok(Self {
            limit: limit.ok_or_else(limit_error)?,
            before,
            protocol: protocol.ok_or_else(|| bad("unsupported `protocol`"))?,
            kinds: KindFilter::parse(&kinds).map_err(bad)?,
        })
    }
}

/// Returns the room if the caller may enter it.
async fn accessible_room(
    endpoint: &RoomsEndpoint,
    topic: &str,
    head: &Parts,
) -> Result<RoomHandle, ProblemDetails> {
    let headers = &head.headers;
    let token = bearer::bearer_token(headers).ok().flatten();
    let token = token.map(|token| Token::from(token.to_owned()));
    let client = websocket::request_holder(&head.extensions);
    // Guests of this room may read it too.
    let certificate = PeerCertificate::from_extensions(&head.extensions);
    let opened = admission::open_room(endpoint, topic, token.as_ref(), &certificate, &client).await;
    let (room, identity) = opened.map_err(|denied| denied.into_problem(endpoint, headers))?;
    match room.inspect(move |room| room.check_membership(&identity.id, &identity)).await {
        Some(Ok(())) => Ok(room),
        Some(Err(rejection)) => {
            Err(AdmissionError::Forbidden(rejection).into_problem(endpoint, headers))
        }
        None => Err(room_unavailable()),
    }
}

fn room_unavailable() -> ProblemDetails {
    let message = "the room is unavailable; see the gateway log";
    ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, message)
}
