//! The doors, by address. Each turns a request into a call and an outcome into a response; errors
//! leave by `problem` and nowhere else.

mod bearer;
mod call;
mod cors;
mod docs;
mod guard;
mod health;
mod http;
mod mcp;
mod openapi;
mod page;
mod problem;
mod refusal;
mod rooms;
mod sse;
mod tag;
mod websocket;
mod wellknown;
mod workspace;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{any, get};
use futures::FutureExt;
use futures::future::Either;
use tower_service::Service;

use crate::app::Gateway;
pub use http::HttpDoorSettings;
pub(crate) use mcp::{McpDoor, RoomRequest, answer_room, masked_in_room, serve_streams};
pub use mcp::{McpDoorSettings, McpView};
pub(crate) use openapi::Documents;
use problem::Problem;
pub(crate) use refusal::Strangers;
pub(crate) use sse::Streams;
pub(crate) use workspace::room_capabilities;

/// Where clients of `/mcp` look first.
const WELL_KNOWN_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

pub(crate) fn router(gateway: Gateway) -> Router {
    let doors = doors(gateway.clone());
    if !cors::is_configured(&gateway) {
        return doors;
    }
    let shared = async |State(gateway): State<Gateway>, request: Request, next: Next| {
        cors::answer(gateway, request, |request| next.run(request)).await
    };
    doors.layer(axum::middleware::from_fn_with_state(gateway, shared))
}

fn doors(gateway: Gateway) -> Router {
    let guard = axum::middleware::from_fn_with_state(gateway.clone(), guard::keep_pages_out);
    Router::new()
        .route("/hub", get(call::upgrade))
        .route("/mcp", any(mcp::serve))
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/ready", get(health::ready))
        .route(bearer::METADATA, get(wellknown::metadata))
        .route(WELL_KNOWN_MCP, get(wellknown::metadata))
        .route("/openapi.json", get(openapi::document))
        .route("/ws", get(workspace::connect))
        .route("/v0/ws", get(workspace::connect))
        .route("/v0.1/ws", get(workspace::connect))
        .route("/v0.1/topics", get(workspace::topics))
        .route("/v0.1/topics/{topic}/participants", get(workspace::participants))
        .route("/v0.1/topics/{topic}/history", get(workspace::history))
        .method_not_allowed_fallback(only_get)
        .layer(guard)
        .route("/", any(root))
        .route("/docs", any(docs::serve))
        .route("/docs/", any(docs::serve))
        .route("/docs/{file}", any(docs::serve))
        .route("/rooms", any(rooms::serve))
        .route("/rooms/", any(rooms::serve))
        .route("/rooms/{file}", any(rooms::serve))
        .fallback(api)
        .with_state(gateway)
}

/// Some clients of the workspace know the gateway by its host alone.
async fn root(State(gateway): State<Gateway>, request: Request) -> Response {
    if !websocket::is_asked(request.headers()) {
        return docs::root(State(gateway), request).await;
    }
    match guard::check(&gateway, &request) {
        Ok(()) => workspace::connect(State(gateway), request).await,
        Err(problem) => problem.into_response(),
    }
}

/// The doors behind the connections of this server. Calls are answered here, everything else by the
/// router: to find one of its routes and to go through it takes longer than a small call.
#[derive(Debug, Clone)]
pub(crate) struct Doors {
    gateway: Gateway,
    others: Router,
}

impl Doors {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { others: router(gateway.clone()), gateway }
    }

    pub(crate) fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + use<> {
        // The router also looks after pages of other origins, where any are named.
        if request.uri().path().starts_with("/api/") && !cors::is_configured(&self.gateway) {
            return Either::Left(api(State(self.gateway.clone()), request));
        }
        // A router is always ready.
        let answer = self.others.clone().call(request);
        Either::Right(answer.map(|answer| answer.unwrap_or_else(|never| match never {})))
    }
}

/// A whole answer in HTTP/1.1, for clients with whom nobody talks any further.
pub(crate) fn last_words(status: StatusCode, detail: &str) -> Vec<u8> {
    let body = Problem::new(status, detail).to_json();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// The head of a refusal that has no body, with one that says why; `None` if it is no such head.
pub(crate) fn explained(head: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let status: StatusCode = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let words = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => {
            "the head of the request is too large, or has too many headers"
        }
        _ => "the request is not HTTP/1.1 that can be read",
    };
    let body = Problem::new(status, words).to_json();
    let described =
        format!("content-type: application/problem+json\r\ncontent-length: {}", body.len());
    let (before, after) = head.split_once("content-length: 0")?;
    Some(
        [before, &described, after, "\r\n\r\n"]
            .concat()
            .into_bytes()
            .into_iter()
            .chain(body)
            .collect(),
    )
}

/// `/api/{namespace}/{name}`. Neither a layer nor a route with parameters stands before it: both make
/// boxes and texts for each request, and a small call is not much more than that.
async fn api(State(gateway): State<Gateway>, request: Request) -> Response {
    if let Err(problem) = guard::check(&gateway, &request) {
        return http::refuse(request.headers(), problem);
    }
    match http::segments(request.uri().path()) {
        Some(_) => http::call(gateway, request).await,
        None => http::refuse(request.headers(), nothing_here()),
    }
}

fn nothing_here() -> Problem {
    Problem::not_found(
        "nothing is served here; try /docs, /rooms, /openapi.json, /health, POST /api/{namespace}/{name}, an \
         MCP client at /mcp, a WebSocket to /hub or one to a room at /ws",
    )
}

async fn only_get() -> Response {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this address answers to GET").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_body_gets_one_and_nothing_else_changes() {
        for (head, is_explained) in [
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: now\r\n\r\n", true),
            ("HTTP/1.1 431 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", true),
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\nwords", false),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", false),
            ("HTTP/1.1 4", false),
            ("", false),
        ] {
            let explained = explained(head.as_bytes());
            assert_eq!(explained.is_some(), is_explained, "{head}");
            let Some(explained) = explained.map(|bytes| String::from_utf8(bytes).unwrap()) else {
                continue;
            };
            let (said, body) = explained.split_once("\r\n\r\n").unwrap();
            let length = format!("content-length: {}", body.len());
            assert!(said.contains(&length) && said.contains("problem+json"), "{explained}");
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(problem["status"].to_string(), head[9..12]);
        }
    }
}
