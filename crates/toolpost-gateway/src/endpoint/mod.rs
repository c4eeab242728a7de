//! The endpoints. Each converts a request to a call and its outcome to a response. Endpoints do not
//! depend on each other; the runtime routes requests to them. Shared code is in `accept`, `bearer`,
//! `body`, `etag`, `origin_guard`, `problem`, `settings`, `static_page` and `websocket`.

mod accept;
pub(crate) mod bearer;
mod body;
pub(crate) mod console;
mod etag;
pub(crate) mod health;
pub(crate) mod http;
pub(crate) mod hub;
pub(crate) mod mcp;
pub(crate) mod oauth_metadata;
pub(crate) mod openapi;
pub(crate) mod origin_guard;
mod problem;
pub(crate) mod rooms;
mod settings;
mod static_page;
mod websocket;

pub(crate) use console::ConsoleEndpoint;
pub(crate) use health::{GatewayStatus, HealthEndpoint, Readiness};
pub(crate) use http::HttpEndpoint;
pub use hub::CONFIG_HEADER;
pub(crate) use hub::HubEndpoint;
pub(crate) use mcp::{McpEndpoint, serve_streams};
pub(crate) use openapi::OpenApiEndpoint;
pub(crate) use origin_guard::OriginGuard;
pub(crate) use problem::ProblemDetails;
pub(crate) use rooms::RoomsEndpoint;
pub use settings::{GatewaySettings, HttpEndpointSettings};
pub(crate) use websocket::is_upgrade_request;
