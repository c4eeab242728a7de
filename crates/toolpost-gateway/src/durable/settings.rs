//! Settings of the store.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Count, PositiveDuration, Size};

/// How long and how many outcomes of calls with an idempotency key are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { retain = \"24h\" }")]
#[schemars(rename = "Idempotency")]
#[non_exhaustive]
pub struct IdempotencySettings {
    /// How long the outcome of a call with an idempotency key is kept.
    #[serde(with = "PositiveDuration")]
    pub retain: Duration,
    /// Maximum number of kept outcomes. Further calls with a new key are rejected with `OVERLOADED`.
    #[serde(with = "Count")]
    pub max: usize,
    /// Maximum total size of the stored inputs and outcomes. Further calls with a new key are
    /// rejected with `OVERLOADED`.
    #[serde(with = "Size::<1>")]
    pub max_size: u64,
}

impl Default for IdempotencySettings {
    fn default() -> Self {
        Self {
            retain: Duration::from_secs(24 * 60 * 60),
            max: 1_000_000,
            max_size: 4 * 1024 * 1024 * 1024,
        }
    }
}
