//! The cost of an idempotency key: calls of one operation with and without a new key, with the
//! journal in mode `batch`, and with 100,000 stored outcomes.
//!
//! Rounds with and without keys alternate in one process; the medians are compared. Run it with
//! `cargo bench -p toolpost-gateway --bench durable_call`.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/claim.rs"]
mod claim;
#[path = "harness/stats.rs"]
mod stats;

use std::sync::Arc;
use std::time::Instant;

use claim::claim;
use serde_json::{Value, json};
use stats::median;
use toolpost::{Authority, CallRequest, HandlerError, Identity, Operation, Pipeline, Registry};
use toolpost_gateway::Gateway;

const ROUNDS: usize = 31;
const WARM_UP: usize = 5;
const CALLS_PER_ROUND: u32 = 1_000;
/// Number of stored outcomes in the second measurement.
const STORED: u32 = 100_000;

/// Maximum cost of a key in microseconds.
const MAX_KEY_MICROS: f64 = 10.0;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let data = std::env::temp_dir().join(format!("toolpost-durable-{}", std::process::id()));
        let registry = Registry::new();
        let add = async |input: Value| {
            let sum = input["a"].as_i64().unwrap_or(0) + input["b"].as_i64().unwrap_or(0);
            Ok::<_, HandlerError>(json!({"sum": sum}))
        };
        registry.register(Operation::mutation("bench.add", add).build().unwrap()).unwrap();
        let gateway = Gateway::builder(registry).journal(&data).build().unwrap();
        let mut bench = Bench { pipeline: gateway.pipeline().clone(), next_key: 0 };
        let cost = bench.key_cost().await;
        claim("a new key", cost, "µs", MAX_KEY_MICROS);
        while bench.next_key < u64::from(STORED) {
            bench.round(true).await;
        }
        let cost = bench.key_cost().await;
        claim("a new key with 100,000 stored outcomes", cost, "µs", MAX_KEY_MICROS);
        drop((bench, gateway));
        std::fs::remove_dir_all(data).unwrap();
    });
}

struct Bench {
    pipeline: Pipeline,
    next_key: u64,
}

impl Bench {
    /// Returns the difference of the medians in microseconds per call.
    async fn key_cost(&mut self) -> f64 {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..WARM_UP + ROUNDS {
            let (keyed, plain) = (self.round(true).await, self.round(false).await);
            if round >= WARM_UP {
                with.push(keyed);
                without.push(plain);
            }
        }
        median(with) - median(without)
    }

    /// Returns the time per call in microseconds.
    async fn round(&mut self, has_key: bool) -> f64 {
        let caller = Authority::untrusted(Some(Arc::new(Identity::new("ada"))));
        let start = Instant::now();
        for _ in 0..CALLS_PER_ROUND {
            let mut request = CallRequest::new("bench.add", json!({"a": 2, "b": 3}));
            if has_key {
                self.next_key += 1;
                let key: Arc<str> = format!("key-{:012}", self.next_key).into();
                request = request.idempotency_key(key);
            }
            self.pipeline.call(request, caller.clone()).await.unwrap();
        }
        start.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS_PER_ROUND)
    }
}
