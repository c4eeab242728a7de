//! The Toolpost server, ready to embed: endpoints in front of a pipeline, demo operations, and
//! graceful shutdown.
//!
//! The crate has five layers. A module imports only from layers below its own, which
//! `tests/it/layers.rs` checks.
//!
//! | layer | modules |
//! |---|---|
//! | runtime | `runtime` ([`Gateway`] and its builder), [`config`] (`toolpost.toml`), `source` (the configured sources) |
//! | endpoints | `endpoint`: HTTP API, MCP, hub, rooms, console pages, health; `server`, which accepts and limits connections; shared code of the endpoints |
//! | services | `mcp_service` (MCP methods without a transport), `openapi_document` |
//! | rooms | [`room`]: messages, capabilities, participants |
//! | core | [`admin`] (the operator), [`approval`], [`auth`], [`builtin`] (demo operations), `data` (the data folder), `durable` (outcomes of calls with an idempotency key), `gzip`, `input_digest`, [`journal`] (the audit log), `limits`, `telemetry`, `kind_filter`, and the syntax of settings (`glob`, `shorthand`, `units`) |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use toolpost_gateway::{Gateway, builtin};
//!
//! let shutdown = async { /* for example, a signal */ };
//! let gateway = Gateway::builder(builtin::registry()).listen("127.0.0.1:0");
//! let drained = gateway.serve(shutdown).await?;
//! assert!(drained.in_time);
//! # Ok(()) }
//! ```

pub mod admin;
pub mod approval;
pub mod auth;
pub mod builtin;
pub mod config;
mod data;
mod durable;
mod endpoint;
mod glob;
mod gzip;
mod input_digest;
pub mod journal;
mod kind_filter;
mod limits;
mod mcp_service;
mod openapi_document;
pub mod room;
mod runtime;
mod server;
mod shorthand;
mod source;
mod telemetry;
mod units;

pub use data::{DataDir, DataError};
pub use durable::IdempotencySettings;
pub use endpoint::{CONFIG_HEADER, GatewaySettings, HttpEndpointSettings};
pub use limits::{BreakerLimits, Limiter, LimitsSettings, SourceLimits};
pub use mcp_service::{McpEndpointSettings, McpView};
pub use runtime::{
    ConfigSource, DrainReport, Gateway, GatewayBuilder, GatewayError, ReloadError, ReloadReport,
    StartupGuard, check_address,
};
pub use source::{LastError, McpEnv, SourceDiff, SourceError, SourceState, SourceStatus, Sources};
pub use telemetry::{Telemetry, TelemetrySettings};
