//! What is settled about the door before anybody comes.

use std::time::Duration;

/// What bounds the HTTP door, and for whom it is open.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpDoorSettings {
    /// The longest deadline that a caller can ask for; a longer one is taken for this.
    pub longest_timeout: Duration,
    /// Answers of more bytes than these are packed for clients that accept it.
    pub pack_above: usize,
    /// How long a subscription goes on for a client that has left and may return.
    pub return_time: Duration,
    /// How many events of a subscription are kept for a client that returns; older ones are lost.
    pub kept_events: usize,
    /// How many bytes these have together.
    pub kept_bytes: usize,
    /// How many subscriptions wait for clients that have left; beyond that the one that has waited the
    /// longest ends.
    pub waiting: usize,
    /// How many of these one caller may have; beyond that one of its own ends.
    pub waiting_of_one: usize,
    /// The origins, such as `https://app.example`, whose pages may call and read the answers. It holds
    /// for every door. With none, browsers keep the pages of others out.
    pub cors: Vec<String>,
}

impl Default for HttpDoorSettings {
    fn default() -> Self {
        Self {
            longest_timeout: Duration::from_secs(3_600),
            pack_above: 1_024,
            return_time: Duration::from_secs(30),
            kept_events: 1_000,
            kept_bytes: 256 * 1024,
            waiting: 256,
            waiting_of_one: 32,
            cors: Vec::new(),
        }
    }
}
