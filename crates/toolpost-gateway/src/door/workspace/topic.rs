//! What can be read of rooms without being there.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, Uri, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use super::reader;
use super::ticket::{self, Denied};
use crate::app::Gateway;
use crate::auth::Token;
use crate::door::bearer;
use crate::door::problem::Problem;
use crate::room::message::{Message, Protocol};
use crate::room::{RoomHandle, TOOLPOST, shown_to_mcpx};

/// How many messages are on a page unless somebody says so.
const USUAL: usize = 100;
/// How many messages are on a page at most.
const MOST: usize = 1_000;

/// `GET /v0.1/topics`: the rooms that the caller may enter.
pub(in crate::door) async fn topics(
    State(gateway): State<Gateway>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let identity = match reader(&gateway, &uri, &headers).await {
        Ok(identity) => identity,
        Err(problem) => return problem.into_response(),
    };
    let mut topics = Vec::new();
    for name in gateway.0.workspace.names() {
        // What is not open yet is looked at by its settings alone.
        if gateway.0.workspace.admits(&name, &identity.id) {
            topics.push(name);
        }
    }
    Json(json!({"topics": topics})).into_response()
}

/// `GET /v0.1/topics/{topic}/participants`: who is there.
pub(in crate::door) async fn participants(
    State(gateway): State<Gateway>,
    Path(topic): Path<String>,
    headers: HeaderMap,
) -> Response<Body> {
    let room = match visible(&gateway, &topic, &headers).await {
        Ok(room) => room,
        Err(problem) => return problem.into_response(),
    };
    let Some(present) = room.look(|room| room.participants()).await else {
        return unavailable().into_response();
    };
    let mut shown: Vec<Value> = present
        .iter()
        .map(|(id, may)| json!({"id": &**id, "capabilities": shown_to_mcpx(may)}))
        .collect();
    shown.push(json!({"id": TOOLPOST, "capabilities": ["mcp/response"]}));
    Json(json!({"participants": shown})).into_response()
}

struct Page {
    limit: Option<String>,
    before: Option<String>,
    protocol: Option<String>,
}

/// `GET /v0.1/topics/{topic}/history`: what was said, newest first.
pub(in crate::door) async fn history(
    State(gateway): State<Gateway>,
    Path(topic): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let asked = page(&uri);
    let (limit, before, protocol) = match asked {
        Ok(asked) => asked,
        Err(problem) => return problem.into_response(),
    };
    let room = match visible(&gateway, &topic, &headers).await {
        Ok(room) => room,
        Err(problem) => return problem.into_response(),
    };
    let found = room.look(move |room| room.page(limit, before.as_deref())).await;
    let Some(found) = found else { return unavailable().into_response() };
    let body = written(&found, protocol);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Clients of one build look for `messages`, those of another for `history`.
fn written(found: &[Arc<Message>], protocol: Protocol) -> String {
    let texts: Vec<String> = found.iter().map(|message| message.write(protocol)).collect();
    let list = texts.join(",");
    format!(r#"{{"messages":[{list}],"history":[{list}]}}"#)
}

fn page(uri: &Uri) -> Result<(usize, Option<String>, Protocol), Problem> {
    let bad = |words: String| Problem::new(StatusCode::BAD_REQUEST, words);
    let mut asked = Page { limit: None, before: None, protocol: None };
    let query = uri.query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => asked.limit = Some(value.into_owned()),
            "before" => asked.before = Some(value.into_owned()),
            "protocol" => asked.protocol = Some(value.into_owned()),
            _ => {}
        }
    }
    let limit = asked.limit.map_or(Some(USUAL), |text| text.parse().ok());
    let limit = limit.filter(|limit| (1..=MOST).contains(limit));
    let limit = limit.ok_or_else(|| bad(format!("`limit` must be a number from 1 to {MOST}")))?;
    let protocol = asked.protocol.map_or(Some(Protocol::Mcpx01), |text| Protocol::parse(&text));
    let protocol = protocol.ok_or_else(|| bad("`protocol` is not spoken here".to_owned()))?;
    Ok((limit, asked.before, protocol))
}

/// The room, if whoever asks may enter it.
async fn visible(
    gateway: &Gateway,
    topic: &str,
    headers: &HeaderMap,
) -> Result<RoomHandle, Problem> {
    let denied = match bearer::presented(headers) {
        // Somebody whom only this room knows may read here, too.
        Ok(Some(token)) => {
            ticket::enter(gateway, topic, Some(&Token::from(token.to_owned()))).await
        }
        _ => ticket::enter(gateway, topic, None).await,
    };
    let (room, identity) = denied.map_err(|denied| denied.into_problem(gateway, headers))?;
    let id = identity.id.clone();
    match room.look(move |room| room.check_member(&id)).await {
        Some(Ok(())) => Ok(room),
        Some(Err(refusal)) => Err(Denied::Forbidden(refusal).into_problem(gateway, headers)),
        None => Err(unavailable()),
    }
}

fn unavailable() -> Problem {
    let words = "the room cannot be opened; the gateway's log says why";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, words)
}
