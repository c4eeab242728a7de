//! The endpoints and their routes. Each endpoint turns a request into a call and its outcome into a
//! response. HTTP errors are built in `problem`.

mod bearer;
mod cors;
mod docs;
mod etag;
mod health;
mod http;
mod hub;
mod mcp;
mod oauth_metadata;
mod openapi;
mod origin_guard;
mod problem;
mod rejected_requests;
mod rooms;
mod rooms_page;
mod sse;
mod static_page;
mod websocket;

use std::sync::Arc;

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
pub use http::HttpEndpointSettings;
pub(crate) use mcp::{McpEndpoint, serve_streams};
pub(crate) use openapi::OpenApiDocuments;
use problem::ProblemDetails;
pub(crate) use rejected_requests::AnonymousRejections;
use rooms::RoomsEndpoint;
pub(crate) use sse::StreamRegistry;

/// Path of the protected resource metadata (RFC 9728) for `/mcp`, which clients try first.
const WELL_KNOWN_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

pub(crate) fn router(gateway: Gateway) -> Router {
    let endpoints = endpoint_routes(gateway.clone());
    if !cors::is_configured(&gateway) {
        return endpoints;
    }
    let shared = async |State(gateway): State<Gateway>, request: Request, next: Next| {
        cors::handle(gateway, request, |request| next.run(request)).await
    };
    endpoints.layer(axum::middleware::from_fn_with_state(gateway, shared))
}

fn endpoint_routes(gateway: Gateway) -> Router {
    let guard =
        axum::middleware::from_fn_with_state(gateway.clone(), origin_guard::reject_foreign_origins);
    let mcp = Arc::clone(&gateway.0.mcp);
    let rooms = RoomsEndpoint::new(&gateway);
    let room_routes = Router::new()
        .route("/ws", get(rooms::connect))
        .route("/v0/ws", get(rooms::connect))
        .route("/v0.1/ws", get(rooms::connect))
        .route("/v0.1/topics", get(rooms::topics))
        .route("/v0.1/topics/{topic}/participants", get(rooms::participants))
        .route("/v0.1/topics/{topic}/history", get(rooms::history))
        .with_state(rooms);
    Router::new()
        .merge(room_routes)
        .route("/hub", get(hub::upgrade))
        .route("/mcp", any(mcp::serve).with_state(mcp))
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/ready", get(health::ready))
        .route(bearer::METADATA_PATH, get(oauth_metadata::metadata))
        .route(WELL_KNOWN_MCP, get(oauth_metadata::metadata))
        .route("/openapi.json", get(openapi::document))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(guard)
        .route("/", any(root))
        .route("/docs", any(docs::serve))
        .route("/docs/", any(docs::serve))
        .route("/docs/{file}", any(docs::serve))
        .route("/rooms", any(rooms_page::serve))
        .route("/rooms/", any(rooms_page::serve))
        .route("/rooms/{file}", any(rooms_page::serve))
        .fallback(api)
        .with_state(gateway)
}

/// `/`: joins a room if the request is a WebSocket upgrade, since some room clients only know the
/// host. Other requests get the docs.
async fn root(State(gateway): State<Gateway>, request: Request) -> Response {
    if !websocket::is_upgrade_request(request.headers()) {
        return docs::root(State(gateway), request).await;
    }
    match origin_guard::check_origin(&gateway, &request) {
        Ok(()) => rooms::connect(State(RoomsEndpoint::new(&gateway)), request)
            .await
            .unwrap_or_else(ProblemDetails::into_response),
        Err(problem) => problem.into_response(),
    }
}

/// The endpoints of this server. Calls are dispatched directly and everything else through the
/// router, because routing takes longer than a small call.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    gateway: Gateway,
    router: Router,
}

impl Endpoints {
    pub(crate) fn new(gateway: Gateway) -> Self {
        Self { router: router(gateway.clone()), gateway }
    }

    pub(crate) fn handle(&self, request: Request) -> impl Future<Output = Response> + Send + use<> {
        // Calls bypass the router, unless CORS is configured: its layer is part of the router.
        if request.uri().path().starts_with("/api/") && !cors::is_configured(&self.gateway) {
            return Either::Left(api(State(self.gateway.clone()), request));
        }
        // `Router` is always ready, so `poll_ready` is not needed.
        let response = self.router.clone().call(request);
        Either::Right(response.map(|response| response.unwrap_or_else(|never| match never {})))
    }
}

/// Encodes a complete HTTP/1.1 problem response for a connection that is closed afterwards.
pub(crate) fn raw_problem_response(status: StatusCode, detail: &str) -> Vec<u8> {
    let body = ProblemDetails::new(status, detail).to_json();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// Adds a problem body to the head of an error response that has no body; `None` if `head` is not
/// one.
pub(crate) fn add_problem_body(head: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let status: StatusCode = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let message = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE | StatusCode::URI_TOO_LONG => {
            "the request head is too large or has too many headers"
        }
        _ => "malformed HTTP/1.1 request",
    };
    let body = ProblemDetails::new(status, message).to_json();
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

/// `/api/{namespace}/{name}`. It does not use a layer or a route with parameters, since both
/// allocate for each request, which is significant for a small call.
async fn api(State(gateway): State<Gateway>, request: Request) -> Response {
    if let Err(problem) = origin_guard::check_origin(&gateway, &request) {
        return http::reject(request.headers(), problem);
    }
    match http::path_segments(request.uri().path()) {
        Some(_) => http::call(gateway, request).await,
        None => http::reject(request.headers(), unknown_path()),
    }
}

fn unknown_path() -> ProblemDetails {
    ProblemDetails::not_found(
        "no such path; try /docs, /rooms, /openapi.json, /health, POST /api/{namespace}/{name}, an \
         MCP client at /mcp, a WebSocket to /hub or one to a room at /ws",
    )
}

async fn method_not_allowed() -> Response {
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_head_without_body_gets_problem_body() {
        for (head, is_explained) in [
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: now\r\n\r\n", true),
            ("HTTP/1.1 431 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n", true),
            ("HTTP/1.1 400 Bad Request\r\ncontent-length: 5\r\n\r\nwords", false),
            ("HTTP/1.1 400 Bad Request\r\n\r\n", false),
            ("HTTP/1.1 4", false),
            ("", false),
        ] {
            let explained = add_problem_body(head.as_bytes());
            assert_eq!(explained.is_some(), is_explained, "{head}");
            let Some(explained) = explained.map(|bytes| String::from_utf8(bytes).unwrap()) else {
                continue;
            };
            let (response_head, body) = explained.split_once("\r\n\r\n").unwrap();
            let length = format!("content-length: {}", body.len());
            assert!(
                response_head.contains(&length) && response_head.contains("problem+json"),
                "{explained}"
            );
            let problem: serde_json::Value = serde_json::from_str(body).unwrap();
            assert_eq!(problem["status"].to_string(), head[9..12]);
        }
    }
}
