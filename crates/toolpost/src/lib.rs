//! Toolpost exposes Rust functions, MCP servers, OpenAPI services and remote processes as
//! operations: typed, access-controlled calls that all return the same response envelope.
//!
//! An [`Operation`] consists of a spec and a handler: an `async fn` with `serde` and `schemars`
//! types, or a function that takes JSON. A [`Registry`] holds operations, and a [`Pipeline`] calls
//! them. A call to any operation returns an [`Envelope`] or a [`CallError`].
//!
//! ```
//! use toolpost::{HandlerError, Operation, Toolpost};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Add { a: i64, b: i64 }
//!
//! async fn add(input: Add) -> Result<i64, HandlerError> {
//!     Ok(input.a + input.b)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let toolpost = Toolpost::builder().operation(Operation::query("demo.add", add)).build().await?;
//!
//! let envelope = toolpost.call_trusted("demo.add", json!({"a": 2, "b": 3})).await?;
//! assert_eq!(envelope.data, 5);
//! assert_eq!(envelope.meta.source(), "local");
//! # Ok(()) }
//! ```
//!
//! The builder also takes sources: `mcp_stdio` and `mcp_http` (feature `mcp`), `openapi` (feature
//! `openapi`), or any [`Source`].
//!
//! | module | contents |
//! |---|---|
//! | `spec`, `operation` | operation metadata; operations and their builder |
//! | `handler`, `env` | handlers, their call context, and calls to other operations |
//! | `envelope` | data and meta, content blocks, detection |
//! | `schema` | JSON Schemas, compiled once: check, normalize, cast |
//! | [`json`] | objects with unparsed members, JSON Pointers |
//! | `query` | encoding of inputs in URL queries |
//! | `error`, `access` | call errors and access control |
//! | `registry` | the mutable set of operations, immutable catalogs, search |
//! | `pipeline` | the stages of a call, one file per stage |
//! | [`shares`] | shares of bounded resources per identity and address |
//! | `trace` | trace context and spans of calls |
//! | [`protocol`] | the call protocol without I/O: events, pending requests |
//! | [`transport`] | transports of the call protocol: in-process, WebSocket |
//! | [`connection`] | clients and call handlers over transports, reconnecting clients |
//! | `http` | bounded HTTP requests |
//! | `source` | sources and the supervisor that runs them |
//! | `embedded` | [`Toolpost`] and its builder, for use in a program |
//! | [`hub`] | hub and spokes: operations of many processes in one registry |
//! | [`tool_envelope`] | ToolEnvelope V1: a structured payload beside the text of a tool result |
//! | `mcp` | MCP servers as sources |
//! | `openapi` | HTTP services with an OpenAPI document as sources |
//! | `view` | operations as MCP tools and as an OpenAPI document |
//!
//! | feature | adds |
//! |---|---|
//! | `mcp` | the tools of MCP servers as operations |
//! | `openapi` | HTTP services with an OpenAPI document as operations |
//! | `sse` | server-sent events |
//! | `typebox-cast` | repairs like TypeBox's `Value.Cast` |
//! | `ws` | the WebSocket transport |
//!
//! Without features, the crate contains no network code.

#[cfg(all(feature = "mcp", not(unix)))]
compile_error!("the feature `mcp` of toolpost needs Unix: it uses process groups and signals");

#[macro_use]
mod debug_fields;

mod access;
mod circuit_breaker;
mod clock;
pub mod connection;
mod embedded;
mod env;
mod envelope;
mod error;
mod fair_queue;
mod handler;
mod header_params;
#[cfg(any(feature = "mcp", feature = "openapi"))]
pub mod http;
pub mod hub;
pub mod json;
pub mod json_rpc;
#[cfg(any(feature = "mcp", feature = "openapi"))]
mod loopback;
#[cfg(feature = "mcp")]
pub mod mcp;
#[cfg(feature = "openapi")]
pub mod openapi;
mod operation;
mod outcome;
mod payload;
mod pipeline;
mod prose;
pub mod protocol;
mod query;
mod registry;
mod schema;
pub mod shares;
mod source;
mod spec;
#[cfg(feature = "sse")]
pub mod sse;
#[cfg(any(feature = "mcp", feature = "openapi", feature = "ws"))]
mod tls;
#[cfg(any(feature = "mcp", feature = "openapi"))]
#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "OpenAPI uses only a part"))]
mod token_endpoint;
pub mod tool_envelope;
mod trace;
pub mod transport;
pub mod view;

pub use access::{AccessControl, Authority, Identity, IdentityKey, IdentityKind};
pub use circuit_breaker::{BreakerState, CircuitBreaker, HealthSignal};
pub use clock::{epoch_ms, since_epoch, timestamp};
pub use embedded::{BuildError, Caller, Toolpost, ToolpostBuilder};
pub use env::{OperationEnv, build_env};
pub use envelope::{
    Annotations, CONTENT_BLOCK_SCHEMA, ContentBlock, ENVELOPE_SCHEMA, Envelope, HTTP_META_SCHEMA,
    HttpMeta, LOCAL_META_SCHEMA, LocalMeta, MCP_META_SCHEMA, META_SCHEMA, McpMeta, MediaBlock,
    Meta, NextPage, ResourceBlock, ResourceContents, ResourceLinkBlock, SseMeta, TextBlock,
};
pub use error::{
    CallError, DomainError, ErrorCode, ErrorCodeInfo, ErrorOrigin, HandlerError, Limit,
};
pub use handler::{
    AbortHandle, CallContext, ClientChannel, Handler, HandlerOutput, IntoOnceHandler,
    IntoStreamHandler, LogMessage, MultiRoundTrip, OnceHandler, Progress, ProgressObserver,
    ProgressSender, RequestId, RespondToServer, ServerRequest, ServerRequestError, StreamHandler,
};
pub use json::JsonPointer;
pub use operation::{
    Operation, OperationBuilder, OperationError, OperationSource, OutputPolicy, ResultPolicy,
    SourceKind,
};
pub use outcome::Outcome;
pub use payload::{Payload, PayloadError};
pub use pipeline::{
    Approval, ApprovalGate, AuditEntry, AuditOutcome, AuditSink, Call, CallRequest, CallTimes,
    CallView, Endpoint, HookResult, Idempotency, IdempotencyClaim, IdempotentRun, Limits, Observer,
    Permit, Pipeline, PipelineBuilder, PipelineSettings, SourceSignal, StoredResult, Subscription,
};
pub use query::{QueryEncoding, QueryParameter, QueryStyle, property_from_text};
pub use registry::{
    Catalog, Change, Registry, ResolvedOperation, SearchHit, SearchResults, suggest_name,
};
pub use schema::{
    Extras, Issue, MASKED, Normalized, PropertyNames, Repair, RepairAction, Schema, SchemaError,
    SchemaPart, Secrets, Work, WorkLimits,
};
pub use source::{
    ConfigLint, RunningSource, Source, SourceContext, SourceHistory, SourceHooks, SourceInfo,
    SourceMonitor, SourceStatus, SpecTransform,
};
pub use spec::{
    ErrorDefinition, IdError, MAX_NAME_LENGTH, OperationId, OperationKind, OperationMeta,
    OperationSpec,
};
#[cfg(any(feature = "mcp", feature = "openapi", feature = "ws"))]
pub use tls::{ClientTls, UnencryptedError};
pub use trace::{CallSpan, TRACE_PARENT, TRACE_STATE, TraceContext, trace_metadata};
#[cfg(feature = "typebox-cast")]
pub use typebox_cast::{CastCode, CastError};
