//! A bad network between a hub and everybody else: every call still ends once, and nothing is left.
//!
//! `TOOLPOST_CHAOS_SECONDS` says for how long, `TOOLPOST_CHAOS_SEED` which network.

mod proxy;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use serde_json::json;
use tokio::runtime::Handle;
use tokio::time::Instant;
use toolpost::connection::{Client, Session, SessionSettings};
use toolpost::hub::{Hub, Spoke, SpokeSession};
use toolpost::link::{WsConnector, WsSettings};
use toolpost::{CallContext, CallError, CallRequest, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use self::proxy::{Dice, Proxy};
use super::Running;
use super::spokes::{eventually, in_time};

const CALLERS: u64 = 64;

/// Everything that a call may end with when the network fails.
const NAMED: [&str; 6] = ["answered", "ABORTED", "OVERLOADED", "TIMEOUT", "UNAVAILABLE", "dropped"];

/// How calls ended, by kind and ending.
type Tally = Arc<Mutex<BTreeMap<(&'static str, String), u64>>>;

/// How often each mutation was carried out, and which ones were answered.
#[derive(Clone, Default)]
struct Ledger {
    done: Arc<Mutex<HashMap<u64, u64>>>,
    answered: Arc<Mutex<Vec<u64>>>,
}

fn number(name: &str, otherwise: impl FnOnce() -> u64) -> u64 {
    let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(otherwise)
}

/// Lines that fall silent are noticed soon, but a machine with much to do is not taken for one.
fn websocket() -> WsSettings {
    let mut settings = WsSettings::default();
    settings.ping = Duration::from_millis(750);
    settings.farewell = Duration::from_millis(500);
    settings.connect = Duration::from_secs(1);
    settings
}

fn session_settings() -> SessionSettings {
    let mut settings = SessionSettings::default();
    settings.shortest_wait = Duration::from_millis(5);
    settings.longest_wait = Duration::from_millis(50);
    settings
}

fn connector(proxy: &Proxy) -> WsConnector {
    let url = format!("ws://{}", proxy.address);
    WsConnector::with(&url, None, websocket()).unwrap()
}

async fn nap(context: &CallContext, ms: u64) -> Result<(), HandlerError> {
    tokio::select! {
        () = context.cancelled() => Err(CallError::aborted("canceled").into()),
        () = tokio::time::sleep(Duration::from_millis(ms)) => Ok(()),
    }
}

async fn read(context: CallContext, ms: u64) -> Result<u64, HandlerError> {
    nap(&context, ms).await?;
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

fn spoke(proxy: &Proxy, ledger: &Ledger) -> SpokeSession {
    let done = Arc::clone(&ledger.done);
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
async fn every_call_ends_once_and_nothing_is_left() {
    let seconds = number("TOOLPOST_CHAOS_SECONDS", || 10);
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let seed = number("TOOLPOST_CHAOS_SEED", || u64::try_from(clock % 1_000_000_007).unwrap());
    eprintln!("chaos: seed {seed}, {seconds} s");

    let mut settings = GatewaySettings::default();
    settings.websocket = websocket();
    let gateway = Running::with([], settings).await;
    let proxy = Proxy::start(gateway.address, seed).await;
    let ledger = Ledger::default();
    let far = spoke(&proxy, &ledger);
    in_time("the spoke registers", far.ready()).await.unwrap();
    let near = super::spokes::caller(&gateway, None).await;
    let lines = [session(&proxy), session(&proxy)];
    let hub = gateway.gateway.hub().clone();
    everybody_is_there(&hub, &near, &lines).await;
    let tasks_before = settled_tasks().await;

    proxy.make_trouble();
    let tally = Tally::default();
    let end = Instant::now() + Duration::from_secs(seconds);
    let lines = Arc::new(lines);
    let callers = (1..=CALLERS).map(|number| Caller {
        dice: Dice::new(seed ^ number),
        number,
        near: near.clone(),
        lines: Arc::clone(&lines),
        tally: Arc::clone(&tally),
        ledger: ledger.clone(),
    });
    let callers: Vec<_> = callers.map(|caller| tokio::spawn(caller.run(end))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    proxy.calm_down();

    report(&tally, &proxy);
    in_time("the spoke is back", far.ready()).await.unwrap();
    let works = || async { near.execute("far.x.read", json!(0)).await.is_ok() };
    in_time("it answers again", until(works)).await;
    everybody_is_there(&hub, &near, &*lines).await;
    nothing_runs(&hub, &far).await;
    check_ledger(&ledger);
    assert_eq!(near.pending_count(), 0);
    let alive = || Handle::current().metrics().num_alive_tasks();
    eventually("no task is left", || alive() <= tasks_before).await;
    eprintln!("chaos: {tasks_before} tasks before, {} after", alive());
    far.close().await;
    assert!(gateway.stop().await.in_time);
}

async fn nothing_runs(hub: &Hub, far: &SpokeSession) {
    eventually("the hub waits for nothing", || hub.census().pending == 0).await;
    eventually("the hub serves nothing", || hub.census().serving == 0).await;
    eventually("nothing is in flight at the hub", || hub.pipeline().in_flight() == 0).await;
    eventually("nor at the spoke", || far.pipeline().in_flight() == 0).await;
}

fn session(proxy: &Proxy) -> Session {
    Session::start(connector(proxy), None, session_settings())
}

/// A peer has arrived when it has said something.
async fn everybody_is_there(hub: &Hub, near: &Client, lines: &[Session]) {
    let greet = async |client: &Client| client.execute("demo.add", json!({"a": 1, "b": 1})).await;
    in_time("the near caller", greet(near)).await.unwrap();
    for line in lines {
        let greeted = || async { greet(&line.connected().await.unwrap()).await.is_ok() };
        in_time("a caller behind the network", until(greeted)).await;
    }
    eventually("everybody is there and nobody else", || hub.census().peers == 4).await;
}

/// Tries until it holds, and lets others run in between: whatever fails at once would never let the
/// clock have its turn.
async fn until<F: Future<Output = bool>>(holds: impl Fn() -> F) {
    while !holds().await {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// The number of tasks, once those that only make connections have ended.
async fn settled_tasks() -> usize {
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
        assert!(NAMED.contains(&ending.as_str()), "{kind} ended with {ending}");
    }
    for kind in ["query", "mutation", "subscription"] {
        let answered = (kind, "answered".to_owned());
        assert!(tally.contains_key(&answered), "no {kind} came through at all");
    }
    let lost = tally.iter().any(|((_, ending), _)| ending == "UNAVAILABLE");
    assert!(lost, "nothing was lost: that was no chaos");
}

/// Nothing is carried out twice, and what was answered was carried out.
fn check_ledger(ledger: &Ledger) {
    let done = ledger.done.lock().unwrap();
    assert!(done.values().all(|times| *times == 1), "a mutation ran twice");
    let answered = ledger.answered.lock().unwrap();
    assert!(answered.iter().all(|id| done.contains_key(id)), "a mutation was made up");
    eprintln!("chaos: {} mutations carried out, {} answered", done.len(), answered.len());
}

struct Caller {
    dice: Dice,
    number: u64,
    /// Straight to the hub.
    near: Client,
    /// Through the bad network.
    lines: Arc<[Session; 2]>,
    tally: Tally,
    ledger: Ledger,
}

impl Caller {
    async fn run(mut self, end: Instant) {
        let mut round = 0;
        while Instant::now() < end {
            round += 1;
            let Some(client) = self.client() else {
                tokio::time::sleep(Duration::from_millis(2)).await;
                continue;
            };
            match self.dice.below(4) {
                0 => self.query(&client).await,
                1 => self.mutation(&client, self.number << 32 | round).await,
                2 => self.subscription(&client).await,
                _ => self.give_up(&client).await,
            }
        }
    }

    /// A quarter of the callers is behind the bad network.
    fn client(&self) -> Option<Client> {
        match self.number % 8 {
            line @ 0..2 => self.lines[usize::try_from(line).unwrap()].client(),
            _ => Some(self.near.clone()),
        }
    }

    fn note(&self, kind: &'static str, ending: String) {
        *self.tally.lock().unwrap().entry((kind, ending)).or_default() += 1;
    }

    /// Some deadlines are too short.
    fn timeout(&mut self) -> Duration {
        match self.dice.below(4) {
            0 => Duration::from_millis(self.dice.below(30)),
            _ => Duration::from_secs(20),
        }
    }

    async fn query(&mut self, client: &Client) {
        let ms = self.dice.below(20);
        let request = CallRequest::new("far.x.read", json!(ms)).timeout(self.timeout());
        let ending = match in_time("a query", client.call(request)).await {
            Ok(outcome) => {
                assert_eq!(outcome.envelope.into_value().unwrap().data, ms, "another's answer");
                "answered".to_owned()
            }
            Err(error) => error.code().to_string(),
        };
        self.note("query", ending);
    }

    async fn mutation(&mut self, client: &Client, id: u64) {
        let request = CallRequest::new("far.x.write", json!(id)).timeout(self.timeout());
        let ending = match in_time("a mutation", client.call(request)).await {
            Ok(outcome) => {
                assert_eq!(outcome.envelope.into_value().unwrap().data, id, "another's answer");
                self.ledger.answered.lock().unwrap().push(id);
                "answered".to_owned()
            }
            Err(error) => error.code().to_string(),
        };
        self.note("mutation", ending);
    }

    /// All of the values in their order, or an error and nothing after it.
    async fn subscription(&mut self, client: &Client) {
        let count = self.dice.below(600);
        let request = CallRequest::new("far.x.count", json!(count)).timeout(self.timeout());
        let mut values = client.subscribe(request);
        let mut expected = 0;
        let ending = loop {
            match in_time("a value", values.next()).await {
                Some(Ok(outcome)) => {
                    assert_eq!(outcome.envelope.into_value().unwrap().data, expected, "in order");
                    expected += 1;
                }
                Some(Err(error)) => break error.code().to_string(),
                None => {
                    assert_eq!(expected, count, "it ended before its end");
                    break "answered".to_owned();
                }
            }
        };
        assert!(in_time("the end", values.next()).await.is_none(), "it ended twice");
        self.note("subscription", ending);
    }

    /// Asks, and changes its mind: by name, or by going away.
    async fn give_up(&mut self, client: &Client) {
        let call = client.call(CallRequest::new("far.x.read", json!(1_000)));
        let handle = call.abort_handle();
        let wait = tokio::time::sleep(Duration::from_millis(self.dice.below(20)));
        if self.dice.below(2) == 0 {
            let ended = tokio::time::timeout_at(wait.deadline(), call).await;
            let ending = match ended {
                Err(_) => "dropped".to_owned(),
                Ok(answer) => answer.unwrap_err().code().to_string(),
            };
            return self.note("dropped", ending);
        }
        let mut call = call.fuse();
        let ended = tokio::select! {
            biased;
            ended = &mut call => ended,
            () = wait => {
                handle.abort("a change of mind");
                in_time("an aborted call", &mut call).await
            }
        };
        self.note("aborted", ended.unwrap_err().code().to_string());
    }
}
