//! What is settled about the endpoint before anybody comes.

use std::time::Duration;

/// What bounds the HTTP endpoint, and for whom it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpEndpointSettings {
    /// The longest deadline that a caller can ask for; a longer one is taken for this.
    pub max_timeout: Duration,
    /// Answers of more bytes than these are packed for clients that accept it.
    pub compress_above: usize,
    /// How long a subscription goes on for a client that has left and may return.
    pub resume_window: Duration,
    /// How many events of a subscription are kept for a client that returns; older ones are lost.
    pub replay_events: usize,
    /// How many bytes these have together.
    pub replay_bytes: usize,
    /// How many subscriptions wait for clients that have left; beyond that the one that has waited the
    /// longest ends.
    pub max_detached_streams: usize,
    /// How many of these one caller may have; beyond that one of its own ends.
    pub max_detached_streams_per_caller: usize,
    /// The origins, such as `https://app.example`, whose pages may call and read the answers. It holds
    /// for every endpoint. With none, browsers keep the pages of others out.
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
