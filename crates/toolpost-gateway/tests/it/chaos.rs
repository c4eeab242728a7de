//! A faulty network between a hub and its peers: every call ends exactly once, and nothing leaks.
//!
//! `TOOLPOST_CHAOS_SECONDS` sets the duration, `TOOLPOST_CHAOS_SEED` the seed of the faults.

mod proxy;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Instant;
use toolpost::connection::{Client, ReconnectSettings, ReconnectingClient};
use toolpost::hub::{Hub, Spoke, SpokeHandle};
use toolpost::transport::{WsConnector, WsSettings};
use toolpost::{CallContext, CallError, CallRequest, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use self::proxy::{Proxy, SeededRng};
use super::TestGateway;
use super::spokes::{wait_until, with_timeout};

const CALLERS: u64 = 64;

/// All outcomes that a call can have when the network fails.
const EXPECTED_OUTCOMES: [&str; 6] =
    ["completed", "ABORTED", "OVERLOADED", "TIMEOUT", "UNAVAILABLE", "dropped"];

/// Number of calls by kind and outcome.
type Tally = Arc<Mutex<BTreeMap<(&'static str, String), u64>>>;

/// How often each mutation was executed, and which ones were acknowledged.
#[derive(Clone, Default)]
struct MutationLog {
    executed: Arc<Mutex<HashMap<u64, u64>>>,
    acknowledged: Arc<Mutex<Vec<u64>>>,
}

fn number(name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(otherwise)
}

/// WebSocket settings that detect a silent connection quickly, but tolerate a busy machine.
fn websocket() -> WsSettings {
    let mut settings = WsSettings::default();
    settings.ping_interval = Duration::from_millis(750);
    settings.close_timeout = Duration::from_millis(500);
    settings.connect_timeout = Duration::from_secs(1);
    settings
}

fn session_settings() -> ReconnectSettings {
    let mut settings = ReconnectSettings::default();
    settings.min_backoff = Duration::from_millis(5);
    settings.max_backoff = Duration::from_millis(50);
    settings
}

fn connector(proxy: &Proxy) -> WsConnector {
    let url = format!("ws://{}", proxy.address);
    WsConnector::with_settings(&url, None, websocket()).unwrap()
}

async fn sleep(context: &CallContext, ms: u64) -> Result<(), HandlerError> {
    tokio::select! {
        () = context.canceled() => Err(CallError::aborted("canceled").into()),
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(()),
    }
}

async fn read(context: CallContext, ms: u64) -> Result<u64, HandlerError> {
    sleep(&context, ms).await?;
    Ok(ms)
}

fn count(ms: u64) -> impl Stream<Item = Result<u64, HandlerError>> {
    futures::stream::iter(0..ms).then(async |value| {
        if value % 8 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(value)
    })
}

fn spoke(proxy: &Proxy, ledger: &MutationLog) -> SpokeHandle {
    let done = Arc::clone(&ledger.executed);
    let write = move |id: u64| {
        *done.lock().unwrap().entry(id).or_default() += 1;
        async move {
            tokio::time::sleep(Duration::from_millis(id % 10)).await;
            Ok::<_, HandlerError>(id)
        }
    };
    let spoke = Spoke::new("far").settings(session_settings());
    let operations = [
        Operation::query("x.read", read).build().unwrap(),
        Operation::mutation("x.write", write).build().unwrap(),
        Operation::subscription("x.count", count).build().unwrap(),
    ];
    let spoke = operations.into_iter().fold(spoke, |spoke, made| spoke.operation(made).unwrap());
    spoke.connect(connector(proxy))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_ends_once_under_network_faults() {
    let seconds = number("TOOLPOST_CHAOS_SECONDS", || 10);
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let seed = number("TOOLPOST_CHAOS_SEED", || u64::try_from(clock % 1_000_000_007).unwrap());
    eprintln!("chaos: seed {seed}, {seconds} s");

    let mut settings = GatewaySettings::default();
    settings.websocket = websocket();
    let gateway = TestGateway::start_with([], settings).await;
    let proxy = Proxy::start(gateway.address, seed).await;
    let ledger = MutationLog::default();
    let spoke_handle = spoke(&proxy, &ledger);
    with_timeout("the spoke registers", spoke_handle.ready()).await.unwrap();
    let direct_client = super::spokes::caller(&gateway, None).await;
    let lines = [session(&proxy), session(&proxy)];
    let hub = gateway.gateway.hub().clone();
    wait_until_connected(&hub, &direct_client, &lines).await;
    let tasks_before = stable_task_count().await;

    proxy.enable_faults();
    let tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    let lines = Arc::new(lines);
    let callers = (1..=CALLERS).map(|number| ChaosCaller {
        rng: SeededRng::new(seed ^ number),
        number,
        direct: direct_client.clone(),
        proxied: Arc::clone(&lines),
        tally: Arc::clone(&tally),
        ledger: ledger.clone(),
    });
    let callers: Vec<_> = callers.map(|caller| tokio::spawn(caller.run(end))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    proxy.disable_faults();

    report(&tally, &proxy);
    with_timeout("the spoke is back", spoke_handle.ready()).await.unwrap();
    let works = || async { direct_client.call_json("far.x.read", json!(0)).await.is_ok() };
    with_timeout("the hub responds again", retry_until(works)).await;
    wait_until_connected(&hub, &direct_client, &*lines).await;
    wait_until_idle(&hub, &spoke_handle).await;
    check_mutation_log(&ledger);
    assert_eq!(direct_client.pending_count(), 0);
    let alive = || Handle::current().metrics().num_alive_tasks();
    wait_until("no task is left", || alive() <= tasks_before).await;
    eprintln!("chaos: {tasks_before} tasks before, {} after", alive());
    spoke_handle.close().await;
    assert!(gateway.stop().await.in_time);
}

async fn wait_until_idle(hub: &Hub, spoke: &SpokeHandle) {
    wait_until("the hub has no pending requests", || hub.stats().pending == 0).await;
    wait_until("the hub handles no requests", || hub.stats().inflight == 0).await;
    wait_until("nothing is in flight at the hub", || hub.pipeline().in_flight() == 0).await;
    wait_until("nothing is in flight at the spoke", || spoke.pipeline().in_flight() == 0).await;
}

fn session(proxy: &Proxy) -> ReconnectingClient {
    ReconnectingClient::start(connector(proxy), None, session_settings())
}

/// Waits until every peer is connected. A caller is connected once a call succeeds.
async fn wait_until_connected(hub: &Hub, direct_client: &Client, lines: &[ReconnectingClient]) {
    let call_add =
        async |client: &Client| client.call_json("demo.add", json!({"a": 1, "b": 1})).await;
    with_timeout("the near caller", call_add(direct_client)).await.unwrap();
    for line in lines {
        let is_responding =
            || async { call_add(&line.wait_connected().await.unwrap()).await.is_ok() };
        with_timeout("a caller behind the network", retry_until(is_responding)).await;
    }
    wait_until("exactly the expected peers are connected", || hub.stats().connections == 4).await;
}

/// Retries until the condition holds. The sleep lets other tasks and timers run between attempts
/// that fail immediately.
async fn retry_until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the number of async tasks after those that only establish connections have ended.
async fn stable_task_count() -> usize {
    let alive = || Handle::current().metrics().num_alive_tasks();
    let (mut least, mut same) = (alive(), 0);
    while same < 50 {
        tokio::time::sleep(Duration::from_millis(2)).await;
        same = if alive() < least { 0 } else { same + 1 };
        least = least.min(alive());
    }
    least
}

fn report(tally: &Tally, proxy: &Proxy) {
    let tally = tally.lock().unwrap();
    eprintln!("chaos: {}", proxy.summary());
    for ((kind, ending), count) in &*tally {
        eprintln!("chaos: {kind:>12} {ending:<12} {count}");
        assert!(EXPECTED_OUTCOMES.contains(&ending.as_str()), "{kind} ended with {ending}");
    }
    for kind in ["query", "mutation", "subscription"] {
        let responded = (kind, "completed".to_owned());
        assert!(tally.contains_key(&responded), "no {kind} succeeded");
    }
    let lost = tally.iter().any(|((_, ending), _)| ending == "UNAVAILABLE");
    assert!(lost, "no connection was lost, so nothing was tested");
}

/// No mutation was executed twice, and every acknowledged one was executed.
fn check_mutation_log(ledger: &MutationLog) {
    let done = ledger.executed.lock().unwrap();
    assert!(done.values().all(|times| *times == 1), "a mutation ran twice");
    let responded = ledger.acknowledged.lock().unwrap();
    assert!(
        responded.iter().all(|id| done.contains_key(id)),
        "an acknowledged mutation did not run"
    );
    eprintln!("chaos: {} mutations executed, {} acknowledged", done.len(), responded.len());
}

struct ChaosCaller {
    rng: SeededRng,
    number: u64,
    /// Client connected directly to the hub.
    direct: Client,
    /// Clients connected through the faulty network.
    proxied: Arc<[ReconnectingClient; 2]>,
    tally: Tally,
    ledger: MutationLog,
}

impl ChaosCaller {
    async fn run(mut self, end: Instant) {
        let mut round = 0;
        while Instant::now() < end {
            round += 1;
            let Some(client) = self.client() else {
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            };
            match self.rng.below(4) {
                0 => self.query(&client).await,
                1 => self.mutation(&client, self.number << 32 | round).await,
                2 => self.subscription(&client).await,
                _ => self.cancel_call(&client).await,
            }
        }
    }

    /// Returns the client to use. A quarter of the callers use the faulty network.
    fn client(&self) -> Option<Client> {
        match self.number % 8 {
            line @ 0..2 => self.proxied[usize::try_from(line).unwrap()].client(),
            _ => Some(self.direct.clone()),
        }
    }

    fn record(&self, kind: &'static str, ending: String) {
        *self.tally.lock().unwrap().entry((kind, ending)).or_default() += 1;
    }

    /// Returns a random timeout; some are too short for the call.
    fn timeout(&mut self) -> Duration {
        match self.rng.below(4) {
            0 => Duration::from_millis(self.rng.below(30)),
            _ => Duration::from_secs(20),
        }
    }

    async fn query(&mut self, client: &Client) {
        let ms = self.rng.below(20);
        let request = CallRequest::new("far.x.read", json!(ms)).timeout(self.timeout());
        let ending = match with_timeout("a query", client.call(request)).await {
            Ok(outcome) => {
                assert_eq!(
                    outcome.envelope.into_value().unwrap().data,
                    ms,
                    "a response of another call"
                );
                "completed".to_owned()
            }
            Err(error) => error.code().to_string(),
        };
        self.record("query", ending);
    }

    async fn mutation(&mut self, client: &Client, id: u64) {
        let request = CallRequest::new("far.x.write", json!(id)).timeout(self.timeout());
        let ending = match with_timeout("a mutation", client.call(request)).await {
            Ok(outcome) => {
                assert_eq!(
                    outcome.envelope.into_value().unwrap().data,
                    id,
                    "a response of another call"
                );
                self.ledger.acknowledged.lock().unwrap().push(id);
                "completed".to_owned()
            }
            Err(error) => error.code().to_string(),
        };
        self.record("mutation", ending);
    }

    /// Expects all values in order, or an error that ends the stream.
    async fn subscription(&mut self, client: &Client) {
        let count = self.rng.below(600);
        let request = CallRequest::new("far.x.count", json!(count)).timeout(self.timeout());
        let mut values = client.subscribe(request);
        let mut expected = 0;
        let ending = loop {
            match with_timeout("a value", values.next()).await {
                Some(Ok(outcome)) => {
                    assert_eq!(outcome.envelope.into_value().unwrap().data, expected, "in order");
                    expected += 1;
                }
                Some(Err(error)) => break error.code().to_string(),
                None => {
                    assert_eq!(expected, count, "the stream ended early");
                    break "completed".to_owned();
                }
            }
        };
        assert!(with_timeout("the end", values.next()).await.is_none(), "the stream ended twice");
        self.record("subscription", ending);
    }

    /// Starts a call and cancels it, explicitly or by dropping it.
    async fn cancel_call(&mut self, client: &Client) {
        let call = client.call(CallRequest::new("far.x.read", json!(1_000)));
        let handle = call.abort_handle();
        let wait = tokio::time::sleep(Duration::from_millis(self.rng.below(20)));
        if self.rng.below(2) == 0 {
            let ended = tokio::time::timeout_at(wait.deadline(), call).await;
            let ending = match ended {
                Err(_) => "dropped".to_owned(),
                Ok(response) => response.unwrap_err().code().to_string(),
            };
            return self.record("dropped", ending);
        }
        let mut call = call.fuse();
        let ended = tokio::select! {
            biased;
            ended = &mut call => ended,
            () = wait => {
                handle.abort("a change of mind");
                with_timeout("an aborted call", &mut call).await
            }
        };
        self.record("aborted", ended.unwrap_err().code().to_string());
    }
}
