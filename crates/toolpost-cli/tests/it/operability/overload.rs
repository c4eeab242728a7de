//! Ten times the capacity: accepted calls keep their latency, and the others are rejected at once
//! with `Retry-After`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    EXCLUSIVE, GatewayProcess, HttpClient, HttpResponse, SlowService, duration_from_env, median,
};

/// Response time of the service. The gateway sends it at most [`CONCURRENCY`] calls at a time.
const SERVICE_TIME: Duration = Duration::from_millis(200);
const CONCURRENCY: usize = 4;
/// Number of clients, each of which makes one call per [`INTERVAL`]: ten times the capacity.
const CLIENTS: usize = 40;
const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Latencies {
    accepted: Vec<Duration>,
    rejected: Vec<Duration>,
}

impl Latencies {
    fn record(&mut self, response: &HttpResponse, took: Duration) {
        match response.status {
            200 => self.accepted.push(took),
            429 => {
                let again: u32 = response.header("retry-after").unwrap().parse().unwrap();
                assert!(again >= 1);
                assert_eq!(response.json()["error"]["details"]["limit"], "source_queue");
                self.rejected.push(took);
            }
            other => panic!("{other}: {}", response.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn overload_keeps_accepted_latency_and_rejects_fast() {
    let _alone = EXCLUSIVE.lock().await;
    let service = SlowService::start(SERVICE_TIME).await;
    let limits = format!("concurrency = {CONCURRENCY}\nqueue = {CONCURRENCY}");
    let served = GatewayProcess::start("overload", &service.source("overload", &limits), &[], &[]);
    served.ready().await;
    let alone = median_latency(&served, 10).await;
    let memory = served.metric("process_resident_memory_bytes").await;

    let time = duration_from_env("TOOLPOST_OVERLOAD_SECONDS", 10);
    let clients = (0..CLIENTS).map(|number| {
        let address = served.address.clone();
        tokio::spawn(async move { run_client(&address, number, time).await })
    });
    let clients: Vec<_> = clients.collect();
    let mut most = memory;
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::time::sleep(time / 20).await;
        most = most.max(served.metric("process_resident_memory_bytes").await);
    }
    let mut all = Latencies::default();
    for client in clients {
        let seen = client.await.unwrap();
        all.accepted.extend(seen.accepted);
        all.rejected.extend(seen.rejected);
    }
    let (accepted, rejected) = (all.accepted.len(), all.rejected.len());
    let (worst, worst_rejected) = (percentile_99(&all.accepted), percentile_99(&all.rejected));
    let (loaded, quick) = (median(all.accepted), median(all.rejected));
    let ratio = loaded.as_secs_f64() / alone.as_secs_f64();
    eprintln!(
        "overload: {accepted} accepted in {loaded:?}, at worst {worst:?} (alone {alone:?}, {ratio:.2} \
         times), {rejected} rejected in {quick:?}, at most {worst_rejected:?}, memory {:.1} MB, at most {:.1} MB",
        memory / 1e6,
        most / 1e6
    );
    assert!(accepted > 0 && rejected > accepted, "the calls exceed the limit");
    assert!(ratio < 3.0, "{loaded:?} of {alone:?}");
    // An accepted call waits for at most one other call; a rejected call does not wait.
    assert!(worst < alone * 3, "{worst:?} of {alone:?}");
    assert!(quick < alone / 4, "rejected calls do not wait: {quick:?}, unloaded {alone:?}");
    assert!(
        worst_rejected < alone / 2,
        "rejections are fast: {worst_rejected:?}, unloaded {alone:?}"
    );
    assert!(most - memory < 64e6, "{memory} {most}");
    let counted = "toolpost_rejections_total{limit=\"source_queue\"}";
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let expected = rejected as f64;
    assert_eq!(served.metric(counted).await, expected);
    // After the load, the gateway recovers.
    assert_eq!(served.metric("toolpost_queue_depth{source=\"slow\"}").await, 0.0);
    let after = median_latency(&served, 5).await;
    assert!(after < alone * 3, "{after:?}");
}

/// Returns the 99th percentile.
pub(super) fn percentile_99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

/// Returns the median latency of sequential calls.
async fn median_latency(served: &GatewayProcess, times: usize) -> Duration {
    let mut caller = served.caller().await;
    let mut took = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        let response = caller.post("/api/slow/work", &json!({})).await;
        assert_eq!(response.status, 200, "{}", response.body);
        took.push(start.elapsed());
    }
    median(took)
}

async fn run_client(address: &str, number: usize, time: Duration) -> Latencies {
    let mut caller = HttpClient::connect(address).await;
    let mut seen = Latencies::default();
    let body: Arc<Value> = Arc::new(json!({}));
    let share = INTERVAL.mul_f64(f64::from(u32::try_from(number).unwrap()) / CLIENTS as f64);
    let start = tokio::time::Instant::now() + share;
    let mut ticks = tokio::time::interval_at(start, INTERVAL);
    while start.elapsed() < time {
        ticks.tick().await;
        let began = Instant::now();
        let response =
            tokio::time::timeout(Duration::from_secs(30), caller.post("/api/slow/work", &body));
        seen.record(&response.await.expect("every call ends"), began.elapsed());
    }
    seen
}
