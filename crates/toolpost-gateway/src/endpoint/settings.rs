//! Settings of the endpoints and their connections.

use std::time::Duration;

use toolpost::hub::HubSettings;
use toolpost::transport::WsSettings;

use crate::mcp_service::McpEndpointSettings;

/// Limits and settings of a gateway.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// Maximum request body size in bytes. Larger bodies are rejected with 413.
    pub max_body_bytes: usize,
    /// Maximum memory of a parsed body in bytes. Bodies that need more are rejected with 413.
    pub max_input_memory: usize,
    /// Maximum number of requests that are served at the same time, each on a connection. Further
    /// requests wait briefly and are then rejected with 503. A new connection evicts one that waits
    /// for a request: of the caller with the most connections, the one that has waited longest.
    ///
    /// WebSockets are counted separately, with the same limits.
    pub max_connections: usize,
    /// Maximum number of these requests, and of WebSockets, per caller.
    pub max_connections_per_caller: usize,
    /// Maximum number of these requests, and of WebSockets, per address before authentication.
    pub max_connections_per_address: usize,
    /// Number of connections beyond the maximum that are reserved for the operator and for
    /// `/health`, `/ready` and `/metrics`.
    pub reserved_connections: usize,
    /// Maximum time for receiving a request head.
    pub header_timeout: Duration,
    /// Maximum time for receiving a request body.
    pub body_timeout: Duration,
    /// Maximum time without progress while a client reads a response or a stream.
    pub write_timeout: Duration,
    /// Size of the socket send buffer in bytes, which bounds the unread data that the kernel holds
    /// per client. The system default can grow to megabytes. A large buffer also makes a slow
    /// reader look stalled, because the socket becomes writable only when a third of the buffer is
    /// free.
    pub send_buffer_bytes: usize,
    /// Interval between keep-alive comments on an idle stream. They prevent intermediaries from
    /// closing it.
    pub heartbeat_interval: Duration,
    /// Maximum time for calls in flight to finish after shutdown begins.
    pub drain_timeout: Duration,
    /// Maximum time for a peer to authenticate.
    pub auth_timeout: Duration,
    /// Limits of the hub and its connections.
    pub hub: HubSettings,
    /// Limits of a WebSocket connection.
    pub websocket: WsSettings,
    /// Settings of the HTTP API.
    pub http: HttpEndpointSettings,
    /// Settings of the MCP endpoint.
    pub mcp: McpEndpointSettings,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            max_body_bytes: 4 * 1024 * 1024,
            max_input_memory: 128 * 1024 * 1024,
            max_connections: 1_024,
            max_connections_per_caller: 256,
            max_connections_per_address: 128,
            reserved_connections: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
            send_buffer_bytes: 256 * 1024,
            heartbeat_interval: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(10),
            auth_timeout: Duration::from_secs(5),
            hub: HubSettings::default(),
            websocket: WsSettings::default(),
            http: HttpEndpointSettings::default(),
            mcp: McpEndpointSettings::default(),
        }
    }
}

/// Limits and allowed origins of the HTTP endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpEndpointSettings {
    /// Maximum timeout of a call. A longer requested timeout is reduced to it.
    pub max_timeout: Duration,
    /// Size in bytes above which responses are compressed, if the client accepts it.
    pub compress_above: usize,
    /// How long a subscription continues after its client disconnects, so that the client can
    /// resume it.
    pub resume_window: Duration,
    /// Maximum number of events kept per subscription for replay. Older events are dropped.
    pub replay_events: usize,
    /// Maximum total size in bytes of the events kept per subscription.
    pub replay_bytes: usize,
    /// Maximum number of detached subscriptions, whose clients have disconnected. Beyond it, the
    /// one that has been detached the longest ends.
    pub max_detached_streams: usize,
    /// Maximum number of detached subscriptions per caller. Beyond it, one of the same caller ends.
    pub max_detached_streams_per_caller: usize,
    /// Origins, such as `https://app.example`, whose pages may call the gateway and read responses.
    /// Applies to every endpoint. If empty, browsers block cross-origin requests.
    pub cors_origins: Vec<String>,
}

impl Default for HttpEndpointSettings {
    fn default() -> Self {
        Self {
            max_timeout: Duration::from_secs(3_600),
            compress_above: 1_024,
            resume_window: Duration::from_secs(30),
            replay_events: 1_000,
            replay_bytes: 256 * 1024,
            max_detached_streams: 256,
            max_detached_streams_per_caller: 32,
            cors_origins: Vec::new(),
        }
    }
}
