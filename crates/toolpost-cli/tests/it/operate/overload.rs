//! Ten times as much as there is room for: what is let in is as quick as ever, and the rest learns at
//! once when to come again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{ALONE, Answer, Caller, Served, Service, median, seconds};

/// How long the service takes, and how many calls it gets at the same time.
const TAKES: Duration = Duration::from_millis(200);
const PLACES: usize = 4;
/// So many clients, each with a call in so much time, are ten times what the places can do.
const CLIENTS: usize = 40;
const EVERY: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Seen {
    accepted: Vec<Duration>,
    refused: Vec<Duration>,
}

impl Seen {
    fn take(&mut self, answer: &Answer, took: Duration) {
        match answer.status {
            200 => self.accepted.push(took),
            429 => {
                let again: u32 = answer.header("retry-after").unwrap().parse().unwrap();
                assert!(again >= 1);
                assert_eq!(answer.json()["error"]["details"]["limit"], "source_queue");
                self.refused.push(took);
            }
            other => panic!("{other}: {}", answer.body),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_times_too_much_delays_nobody_who_is_let_in() {
    let _alone = ALONE.lock().await;
    let service = Service::start(TAKES).await;
    let limits = format!("concurrency = {PLACES}\nqueue = {PLACES}");
    let served = Served::start("overload", &service.source("overload", &limits), &[], &[]);
    served.ready().await;
    let alone = measure(&served, 10).await;
    let memory = served.metric("process_resident_memory_bytes").await;

    let time = seconds("TOOLPOST_OVERLOAD_SECONDS", 10);
    let clients = (0..CLIENTS).map(|number| {
        let address = served.address.clone();
        tokio::spawn(async move { offer(&address, number, time).await })
    });
    let clients: Vec<_> = clients.collect();
    let mut most = memory;
    let start = Instant::now();
    while start.elapsed() < time {
        tokio::time::sleep(time / 20).await;
        most = most.max(served.metric("process_resident_memory_bytes").await);
    }
    let mut all = Seen::default();
    for client in clients {
        let seen = client.await.unwrap();
        all.accepted.extend(seen.accepted);
        all.refused.extend(seen.refused);
    }
    let (accepted, refused) = (all.accepted.len(), all.refused.len());
    let (worst, worst_refused) = (nearly_worst(&all.accepted), nearly_worst(&all.refused));
    let (loaded, quick) = (median(all.accepted), median(all.refused));
    let ratio = loaded.as_secs_f64() / alone.as_secs_f64();
    eprintln!(
        "overload: {accepted} accepted in {loaded:?}, at worst {worst:?} (alone {alone:?}, {ratio:.2} \
         times), {refused} refused in {quick:?}, at worst {worst_refused:?}, memory {:.1} MB, at most {:.1} MB",
        memory / 1e6,
        most / 1e6
    );
    assert!(accepted > 0 && refused > accepted, "it was too much");
    assert!(ratio < 3.0, "{loaded:?} of {alone:?}");
    // Who is let in waits for one place at most, and who is refused for none.
    assert!(worst < alone * 3, "{worst:?} of {alone:?}");
    assert!(quick < alone / 4, "who is refused does not wait: {quick:?} of {alone:?}");
    assert!(worst_refused < alone / 2, "nor does anybody else: {worst_refused:?} of {alone:?}");
    assert!(most - memory < 64e6, "{memory} {most}");
    let counted = "toolpost_refusals_total{limit=\"source_queue\"}";
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    let expected = refused as f64;
    assert_eq!(served.metric(counted).await, expected);
    // And then it is as before.
    assert_eq!(served.metric("toolpost_queue_depth{source=\"slow\"}").await, 0.0);
    let after = measure(&served, 5).await;
    assert!(after < alone * 3, "{after:?}");
}

/// What all but one in a hundred stay below.
fn nearly_worst(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).copied().unwrap_or_default()
}

/// The median of calls one after another.
async fn measure(served: &Served, times: usize) -> Duration {
    let mut caller = served.caller().await;
    let mut took = Vec::new();
    for _ in 0..times {
        let start = Instant::now();
        let answer = caller.post("/api/slow/work", &json!({})).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        took.push(start.elapsed());
    }
    median(took)
}

async fn offer(address: &str, number: usize, time: Duration) -> Seen {
    let mut caller = Caller::connect(address).await;
    let mut seen = Seen::default();
    let body: Arc<Value> = Arc::new(json!({}));
    let share = EVERY.mul_f64(f64::from(u32::try_from(number).unwrap()) / CLIENTS as f64);
    let start = tokio::time::Instant::now() + share;
    let mut ticks = tokio::time::interval_at(start, EVERY);
    while start.elapsed() < time {
        ticks.tick().await;
        let began = Instant::now();
        let asked =
            tokio::time::timeout(Duration::from_secs(30), caller.post("/api/slow/work", &body));
        seen.take(&asked.await.expect("none hangs"), began.elapsed());
    }
    seen
}
