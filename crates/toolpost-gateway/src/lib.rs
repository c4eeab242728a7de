//! The Toolpost server, ready to embed: doors in front of a pipeline, built-in operations to try, and
//! a stop that loses nothing.
//!
//! | room | holds |
//! |---|---|
//! | [`admin`] | who runs the gateway, and what he may do |
//! | `app` | the composition: registry → pipeline → doors |
//! | [`approval`] | calls that wait for a person's word |
//! | [`auth`] | tokens, and the identities that they stand for |
//! | `builtin` | the operations of the embedded default |
//! | [`config`] | `toolpost.toml`: read, checked, and written to |
//! | `data` | the folder in which a gateway keeps what outlives it |
//! | [`journal`] | every call, written down |
//! | `door` | HTTP in and out; each door translates one outcome type |
//! | `limits` | how much is too much, for one caller and for one source |
//! | [`room`] | the workspace: messages, capabilities, rooms |
//! | `run` | a gateway with its configuration and sources, changed while it runs |
//! | `server` | connections: accepted, bounded, owned, drained |
//! | `source` | the sources of a configuration, started and ended |
//! | `telemetry` | what can be seen from outside: metrics and traces |
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use toolpost_gateway::{Gateway, builtin};
//!
//! let gateway = Gateway::new(builtin::registry());
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let stop = async { /* a signal, in real life */ };
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
mod door;
pub mod journal;
mod limits;
pub mod room;
mod run;
mod server;
mod source;
mod telemetry;

pub use app::{Gateway, GatewaySettings, ListenError, Starting, check_address};
pub use data::{DataError, DataFolder};
pub use door::{HttpDoorSettings, McpDoorSettings, McpView};
pub use limits::{BreakerLimits, Limiter, LimitsSettings, SourceLimits};
pub use run::{Origin, Part, ReloadError, Reloaded, Running, Setup};
pub use server::Drained;
pub use source::{
    LastError, McpParts, SourceChanges, SourceError, SourceSight, SourceState, Sources,
    start_service,
};
pub use telemetry::{Sight, TelemetrySettings};
