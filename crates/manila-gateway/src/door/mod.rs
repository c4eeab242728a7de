//! The doors, by address. Each turns a request into a call and an outcome into a response; errors
//! leave by `problem` and nowhere else.

mod bearer;
mod call;
mod docs;
mod guard;
mod health;
mod http;
mod mcp;
mod openapi;
mod problem;
mod refusal;
mod sse;
mod tag;
mod wellknown;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{any, get};
use futures::FutureExt;
use futures::future::Either;
use tower_service::Service;

use crate::app::Gateway;
pub use http::HttpDoorSettings;
pub(crate) use mcp::{McpDoor, serve_streams};
pub use mcp::{McpDoorSettings, McpView};
pub(crate) use openapi::Documents;
use problem::Problem;
pub(crate) use refusal::Strangers;
pub(crate) use sse::Streams;

/// Where clients of `/mcp` look first.
const WELL_KNOWN_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

pub(crate) fn router(gateway: Gateway) -> Router {
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
        .method_not_allowed_fallback(only_get)
        .layer(guard)
        .route("/", any(docs::root))
        .route("/docs", any(docs::serve))
        .route("/docs/", any(docs::serve))
        .route("/docs/{file}", any(docs::serve))
        .fallback(api)
        .with_state(gateway)
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
        if request.uri().path().starts_with("/api/") {
            return Either::Left(api(State(self.gateway.clone()), request));
        }
        // A router is always ready.
        let answer = self.others.clone().call(request);
        Either::Right(answer.map(|answer| answer.unwrap_or_else(|never| match never {})))
    }
}

/// `/api/{namespace}/{name}`. Neither a layer nor a route with parameters stands before it: both make
/// boxes and texts for each request, and a small call is not much more than that.
async fn api(State(gateway): State<Gateway>, request: Request) -> Response {
    if let Err(problem) = guard::check(&gateway, &request) {
        return problem.into_response();
    }
    match http::segments(request.uri().path()) {
        Some(_) => http::call(gateway, request).await,
        None => nothing_here(),
    }
}

fn nothing_here() -> Response {
    Problem::not_found(
        "nothing is served here; try /docs, /openapi.json, /health, POST /api/{namespace}/{name}, an \
         MCP client at /mcp or a WebSocket to /hub",
    )
    .into_response()
}

async fn only_get() -> Response {
    Problem::new(axum::http::StatusCode::METHOD_NOT_ALLOWED, "this address answers to GET")
        .into_response()
}
