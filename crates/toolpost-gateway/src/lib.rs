//! The Toolpost server, ready to embed: endpoints in front of a pipeline, demo operations, and
//! graceful shutdown.
//!
//! | module | contents |
//! |---|---|
//! | [`admin`] | the operator identity and its scopes |
//! | `app` | the composition: registry → pipeline → endpoints |
//! | [`approval`] | calls pending approval |
//! | [`auth`] | tokens and their identities |
//! | `builtin` | the operations of the embedded default |
//! | [`config`] | `toolpost.toml`: parsing, validation and edits |
//! | `data` | the data folder of a gateway |
//! | [`journal`] | the audit log of calls |
//! | `endpoint` | what the gateway serves: HTTP API, MCP, hub, rooms |
//! | `limits` | limits per caller and per source |
//! | [`room`] | rooms: messages, capabilities, participants |
//! | `runtime` | a configured gateway with its sources, reloadable |
//! | `server` | accepts, limits and drains connections |
//! | `source` | the configured sources |
//! | `telemetry` | metrics and traces |
//! | `glob`, `shorthand`, `units` | how settings are written |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use toolpost_gateway::{Gateway, builtin};
//!
//! let gateway = Gateway::new(builtin::registry());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let stop = async { /* for example, a signal */ };
//! let drained = gateway.serve(listener, stop).await?;
//! assert!(drained.in_time);
//! # Ok(()) }
//! ```

pub mod admin;
mod app;
pub mod approval;
pub mod auth;
pub mod builtin;
pub mod config;
mod data;
mod endpoint;
mod glob;
pub mod journal;
mod limits;
mod mcp_service;
pub mod room;
mod runtime;
mod server;
mod shorthand;
mod source;
mod telemetry;
mod units;

pub use app::{Gateway, GatewaySettings, ListenError, StartupGuard, check_address};
pub use data::{DataDir, DataError};
pub use endpoint::HttpEndpointSettings;
pub use limits::{BreakerLimits, Limiter, LimitsSettings, SourceLimits};
pub use mcp_service::{McpEndpointSettings, McpView};
pub use runtime::{ConfigSource, GatewayBuilder, GatewayHandle, ReloadError, ReloadReport};
pub use server::DrainReport;
pub use source::{LastError, McpEnv, SourceDiff, SourceError, SourceState, SourceStatus, Sources};
pub use telemetry::{Telemetry, TelemetrySettings};
