//! The routes of a gateway.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{any, get};
use futures::FutureExt;
use futures::future::Either;
use toolpost::shares::Holder;
use tower_service::Service;

use super::Components;
use crate::auth::Authenticator;
use crate::config::Config;
use crate::endpoint::{
    ConsoleEndpoint, HealthEndpoint, HttpEndpoint, HubEndpoint, OpenApiEndpoint, OriginGuard,
    ProblemDetails, RoomsEndpoint, bearer, console, health, http, hub, is_upgrade_request, mcp,
    oauth_metadata, openapi, origin_guard, rooms,
};
use crate::server::{Peer, RequestHandler};

/// Path of the protected resource metadata (RFC 9728) for `/mcp`, which clients try first.
const WELL_KNOWN_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

pub(super) fn router(components: &Components) -> Router {
    let Components { authenticator, settings, stopping, .. } = components;
    let guard = components.origin_guard();
    let health = HealthEndpoint {
        pipeline: components.pipeline.clone(),
        authenticator: authenticator.clone(),
        journal: components.journal.clone(),
        status: Arc::clone(&components.status) as _,
    };
    let hub = HubEndpoint {
        hub: components.hub.clone(),
        authenticator: authenticator.clone(),
        settings: Arc::clone(settings),
        websockets: components.websockets.clone(),
        pending_handshakes: components.pending_handshakes.clone(),
        stopping: stopping.clone(),
        config_url: Arc::new({
            let source = components.config_source.clone();
            move || source.file().as_deref().and_then(Config::file_url)
        }),
    };
    let registry = components.pipeline.registry().clone();
    let openapi = OpenApiEndpoint::new(registry, authenticator.clone());
    let rooms = RoomsEndpoint::new(
        components.rooms.clone(),
        authenticator.clone(),
        settings,
        components.websockets.clone(),
        stopping.clone(),
    );
    let metadata = get(oauth_metadata::metadata).with_state(authenticator.clone());
    let console = ConsoleEndpoint::new(authenticator.clone(), guard.clone());
    let pages = ["", "/", "/{file}"].iter().fold(Router::new(), |pages, below| {
        pages
            .route(&format!("/docs{below}"), any(console::docs))
            .route(&format!("/rooms{below}"), any(console::rooms))
    });
    let pages = pages.with_state(console.clone());
    let root = any(root).with_state(Root { guard: guard.clone(), console, rooms: rooms.clone() });
    let api = Arc::clone(&components.http);
    let routes = Router::new()
        .route("/health", get(health::health))
        .route("/metrics", get(health::metrics))
        .route("/ready", get(health::ready))
        .with_state(health)
        .route("/hub", get(hub::upgrade).with_state(hub))
        .route("/mcp", any(mcp::serve).with_state(Arc::clone(&components.mcp)))
        .route("/openapi.json", get(openapi::serve).with_state(openapi))
        .route(bearer::METADATA_PATH, metadata.clone())
        .route(WELL_KNOWN_MCP, metadata)
        .merge(rooms::routes(rooms))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(guard.clone(), origin_guard::reject_foreign_origins))
        .route("/", root)
        .merge(pages)
        .fallback(move |request: Request| Arc::clone(&api).serve(request));
    match guard.has_cors_origins() {
        true => routes.layer(from_fn_with_state(guard, origin_guard::add_cors_headers)),
        false => routes,
    }
}

#[derive(Clone)]
struct Root {
    guard: OriginGuard,
    console: ConsoleEndpoint,
    rooms: RoomsEndpoint,
}

/// `/`: joins a room if the request is a WebSocket upgrade, since some room clients only know the
/// host. Browsers are redirected to the docs.
async fn root(
    State(root): State<Root>,
    original: OriginalUri,
    request: Request,
) -> Result<Response, ProblemDetails> {
    if !is_upgrade_request(request.headers()) {
        return console::root(&root.console, &original, &request)?.ok_or_else(http::unknown_path);
    }
    root.guard.check(&request)?;
    rooms::connect(State(root.rooms), request).await
}

async fn method_not_allowed() -> Response {
    ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed").into_response()
}

/// The endpoints of this crate's server. Calls are dispatched directly and everything else through
/// the router, because routing takes longer than a small call.
#[derive(Clone)]
pub(super) struct Endpoints {
    router: Router,
    /// `None` with CORS, whose layer is part of the router.
    http: Option<Arc<HttpEndpoint>>,
    authenticator: Authenticator,
}

impl Endpoints {
    pub(super) fn new(components: &Components) -> Self {
        let has_cors = components.origin_guard().has_cors_origins();
        let http = (!has_cors).then(|| Arc::clone(&components.http));
        let authenticator = components.authenticator.clone();
        Self { router: router(components), http, authenticator }
    }
}

impl RequestHandler for Endpoints {
    async fn holder<B: Sync>(&self, peer: Peer, request: &axum::http::Request<B>) -> Holder {
        match peer {
            Peer::SameUser => Holder::Operator,
            Peer::Remote(_) => {
                let (headers, extensions) = (request.headers(), request.extensions());
                bearer::holder(&self.authenticator, headers, extensions, peer.holder()).await
            }
        }
    }

    fn is_probe<B>(&self, request: &axum::http::Request<B>) -> bool {
        health::PROBE_PATHS.contains(&request.uri().path())
    }

    fn handle(mut self, request: Request) -> impl Future<Output = Response<Body>> + Send {
        if let Some(http) = self.http.filter(|_| request.uri().path().starts_with("/api/")) {
            return Either::Left(http.serve(request));
        }
        // `Router` is always ready, so `poll_ready` is not needed.
        let response = self.router.call(request);
        Either::Right(response.map(|response| response.unwrap_or_else(|never| match never {})))
    }
}
