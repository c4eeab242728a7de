//! Clients who are cut off and return with the last event that they have seen.

use std::time::Duration;

use futures::{Stream, StreamExt};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use toolpost::{CallContext, HandlerError, Identity, Operation};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use crate::spokes::{eventually, in_time};
use crate::{Running, client};

/// A feed that says what it is told, whoever listens.
fn feed(told: &broadcast::Sender<u64>) -> Operation {
    let told = told.clone();
    let values = move |_: CallContext, _: Value| -> futures::stream::BoxStream<'static, _> {
        let heard = told.subscribe();
        futures::stream::unfold(heard, async |mut heard| {
            let value = heard.recv().await.ok()?;
            Some((Ok::<_, HandlerError>(value), heard))
        })
        .boxed()
    };
    Operation::subscription("t.feed", values).build().unwrap()
}

struct World {
    gateway: Running,
    told: broadcast::Sender<u64>,
}

impl World {
    async fn start(settings: GatewaySettings) -> Self {
        let (told, _) = broadcast::channel(1_000);
        let gateway = Running::with([feed(&told)], settings).await;
        Self { gateway, told }
    }

    async fn listen(&self, last: Option<&str>) -> Events {
        let mut request = client().get(self.gateway.url("/api/t/feed"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        Events::of(request.send().await.unwrap())
    }

    async fn tell(&self, values: impl IntoIterator<Item = u64>) {
        in_time("somebody listens", async {
            while self.told.receiver_count() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for value in values {
            self.told.send(value).unwrap();
        }
    }
}

/// The events of a response, taken apart.
struct Events {
    bytes: std::pin::Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    rest: String,
}

#[derive(Debug, PartialEq)]
struct Event {
    kind: String,
    id: Option<String>,
    data: Value,
}

impl Events {
    fn of(response: Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let bytes = response.bytes_stream().map(|chunk| chunk.map(|chunk| chunk.to_vec()));
        Self { bytes: Box::pin(bytes), rest: String::new() }
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                let event = Event {
                    kind: field("event: ").unwrap_or_default(),
                    id: field("id: "),
                    data: field("data: ").map_or(Value::Null, |data| data.parse().unwrap()),
                };
                self.rest = rest.to_owned();
                if event.data.is_null() && event.id.is_none() {
                    continue;
                }
                return Some(event);
            }
            let chunk = in_time("an event", self.bytes.next()).await?.ok()?;
            self.rest += &String::from_utf8(chunk).unwrap();
        }
    }

    /// Takes so many values, and gives the id of the last.
    async fn values(&mut self, expected: impl IntoIterator<Item = u64>) -> String {
        let mut last = None;
        for value in expected {
            let event = self.next().await.unwrap();
            assert_eq!((event.kind.as_str(), event.data), ("", json!(value)));
            last = event.id;
        }
        last.unwrap()
    }
}

#[tokio::test]
async fn whoever_returns_misses_nothing() {
    let world = World::start(GatewaySettings::default()).await;
    let mut events = world.listen(None).await;
    world.tell(1..=3).await;
    let last = events.values(1..=3).await;
    drop(events);
    // Nobody listens but the one who waits for the client.
    world.tell(4..=6).await;
    let mut events = world.listen(Some(&last)).await;
    let last = events.values(4..=6).await;
    world.tell(7..=8).await;
    events.values(7..=8).await;
    // What was sent and did not arrive is there, too; and whoever comes takes the stream over.
    let mut again = world.listen(Some(&last)).await;
    again.values(7..=8).await;
    assert_eq!(events.next().await, None, "the old connection has lost it");
    world.tell([9]).await;
    again.values([9]).await;
    assert_eq!(world.gateway.gateway.pipeline().in_flight(), 1, "it was one subscription");
    drop(again);
    assert!(world.gateway.stop().await.in_time);
}

#[tokio::test]
async fn whoever_missed_something_is_told_how_much() {
    let mut settings = GatewaySettings::default();
    settings.http.kept_events = 4;
    let world = World::start(settings).await;
    let mut events = world.listen(None).await;
    world.tell([1]).await;
    let last = events.values([1]).await;
    drop(events);
    world.tell(2..=10).await;
    // Those that push others out come slowly.
    let mut events = loop {
        let mut events = world.listen(Some(&last)).await;
        let first = events.next().await.unwrap();
        assert_eq!((first.kind.as_str(), &first.id), ("gap", &None));
        if first.data == json!({"lost": 5, "isNew": false}) {
            break events;
        }
    };
    events.values(7..=10).await;
    drop(events);
    world.gateway.stop().await;
}

#[tokio::test]
async fn a_stream_that_is_not_there_begins_anew_and_says_so() {
    let mut settings = GatewaySettings::default();
    settings.http.return_time = Duration::from_millis(10);
    let world = World::start(settings).await;
    let new = Some(json!({"lost": null, "isNew": true}));
    let mut events = world.listen(None).await;
    world.tell([1]).await;
    let last = events.values([1]).await;
    drop(events);
    let pipeline = world.gateway.gateway.pipeline().clone();
    eventually("the time is over", || pipeline.in_flight() == 0).await;
    let guess = format!("{}-1", "0".repeat(32));
    for id in [last.as_str(), &guess, "7", "?-?"] {
        let mut events = world.listen(Some(id)).await;
        let first = events.next().await.unwrap();
        assert_eq!((first.kind.as_str(), Some(first.data)), ("gap", new.clone()), "{id}");
        world.tell([2]).await;
        events.values([2]).await;
        drop(events);
        eventually("it ends", || pipeline.in_flight() == 0).await;
    }
    world.gateway.stop().await;
}

#[tokio::test]
async fn whoever_has_seen_the_end_need_not_return() {
    let gateway = Running::start().await;
    let url = gateway.url("/api/demo/clock?count=2&everyMs=1");
    let mut events = Events::of(client().get(&url).send().await.unwrap());
    let mut ids = Vec::new();
    while let Some(event) = events.next().await {
        ids.push((event.kind, event.id.unwrap()));
    }
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[2].0, "complete");
    let back = |id: &str| client().get(&url).header("last-event-id", id.to_owned()).send();
    assert_eq!(back(&ids[2].1).await.unwrap().status().as_u16(), 204);
    // Whoever has not seen it is told the end.
    let mut events = Events::of(back(&ids[1].1).await.unwrap());
    assert_eq!(events.next().await.unwrap().kind, "complete");
    assert_eq!(events.next().await, None);
    gateway.stop().await;
}

#[tokio::test]
async fn nobody_returns_to_the_stream_of_another() {
    let (ann, bob) = (Token::generate().unwrap(), Token::generate().unwrap());
    let known = [(ann.hash(), Identity::new("ann")), (bob.hash(), Identity::new("bob"))];
    let gateway = Gateway::new(builtin::registry()).with_authenticator(Authenticator::with(known));
    let gateway = Running::serve(gateway, "127.0.0.1:0").await;
    let listen = async |token: &Token, path: &str, last: &str| {
        let request = client().get(gateway.url(path)).bearer_auth(token.reveal());
        Events::of(request.header("last-event-id", last).send().await.unwrap())
    };
    let clock = "/api/demo/clock?count=1000&everyMs=5";
    let mut events = listen(&ann, clock, "").await;
    let last = events.next().await.unwrap().id.unwrap();
    drop(events);
    for (token, path) in
        [(&bob, clock), (&ann, "/api/demo/clock?count=1000&everyMs=5&envelope=true")]
    {
        let mut other = listen(token, path, &last).await;
        assert_eq!(
            other.next().await.unwrap().data,
            json!({"lost": null, "isNew": true}),
            "{path}"
        );
    }
    let mut own = listen(&ann, clock, &last).await;
    assert_eq!(own.next().await.unwrap().data["tick"], 2);
    drop(own);
    assert!(gateway.stop().await.in_time);
}

/// Those who leave many streams lose their own, the oldest first.
#[tokio::test]
async fn only_so_many_streams_wait() {
    let mut settings = GatewaySettings::default();
    settings.http.waiting_of_one = 3;
    let gateway = Running::with([], settings).await;
    let url = gateway.url("/api/demo/clock?count=100000&everyMs=20");
    let mut ids = Vec::new();
    let pipeline = gateway.gateway.pipeline().clone();
    for number in 1_usize..=5 {
        let mut events = Events::of(client().get(&url).send().await.unwrap());
        ids.push(events.next().await.unwrap().id.unwrap());
        drop(events);
        let expected = number.min(3);
        // The gateway notices that somebody has left when it writes the next event.
        tokio::time::sleep(Duration::from_millis(60)).await;
        eventually("the others end", || pipeline.in_flight() == expected).await;
    }
    // Those who have returned stay, so that nobody makes room for them.
    let mut all = Vec::new();
    for (id, is_there) in ids.iter().zip([false, false, true, true, true]) {
        let request = client().get(&url).header("last-event-id", id);
        let mut events = Events::of(request.send().await.unwrap());
        let kind = events.next().await.unwrap().kind;
        assert_eq!(kind == "gap", !is_there, "{id}");
        all.push(events);
    }
    drop(all);
    assert!(gateway.stop().await.in_time);
}

/// A stream without end that nobody reads costs a little and not a core.
#[tokio::test]
async fn a_flood_that_nobody_reads_is_slow() {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&count);
    let values = move |_: CallContext, _: Value| {
        let counted = std::sync::Arc::clone(&counted);
        futures::stream::repeat_with(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, HandlerError>("x".repeat(1_000))
        })
    };
    let flood = Operation::subscription("t.flood", values).build().unwrap();
    let mut settings = GatewaySettings::default();
    settings.http.return_time = Duration::from_millis(500);
    settings.http.kept_events = 10;
    let gateway = Running::with([flood], settings).await;
    let mut events = Events::of(client().get(gateway.url("/api/t/flood")).send().await.unwrap());
    events.next().await.unwrap();
    drop(events);
    let read = || count.load(std::sync::atomic::Ordering::SeqCst);
    // What fits into the socket is written before anybody notices.
    let pipeline = gateway.gateway.pipeline().clone();
    let mut before = 0;
    while read() != before {
        before = read();
        tokio::time::sleep(Duration::from_millis(5)).await;
        if read() - before < 5 {
            break;
        }
    }
    let before = read();
    eventually("the time is over", || pipeline.in_flight() == 0).await;
    assert!(read() - before < 100, "{} values in half a second", read() - before);
    gateway.stop().await;
}
