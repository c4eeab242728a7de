//! Settings of the HTTP endpoint.

use std::time::Duration;

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
    /// Applies to every endpoint. If empty, browsers block pages of other origins.
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
