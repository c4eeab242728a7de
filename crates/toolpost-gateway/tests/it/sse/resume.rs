//! Clients that are disconnected and resume with the last event that they received.

use std::time::Duration;

use futures::{Stream, StreamExt};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use toolpost::{CallContext, HandlerError, Identity, Operation};
use toolpost_gateway::auth::{Authenticator, Token};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use crate::spokes::{wait_until, with_timeout};
use crate::{TestGateway, client};

/// A subscription that streams the published values.
fn feed_operation(value_sender: &broadcast::Sender<u64>) -> Operation {
    let value_sender = value_sender.clone();
    let values = move |_: CallContext, _: Value| -> futures::stream::BoxStream<'static, _> {
        let received = value_sender.subscribe();
        futures::stream::unfold(received, async |mut received| {
            let value = received.recv().await.ok()?;
            Some((Ok::<_, HandlerError>(value), received))
        })
        .boxed()
    };
    Operation::subscription("t.feed", values).build().unwrap()
}

struct Fixture {
    gateway: TestGateway,
    sender: broadcast::Sender<u64>,
}

impl Fixture {
    async fn start(settings: GatewaySettings) -> Self {
        let (value_sender, _) = broadcast::channel(1_000);
        let gateway = TestGateway::start_with([feed_operation(&value_sender)], settings).await;
        Self { gateway, sender: value_sender }
    }

    async fn listen(&self, last: Option<&str>) -> SseEvents {
        let mut request = client().get(self.gateway.url("/api/t/feed"));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        SseEvents::of(request.send().await.unwrap())
    }

    async fn publish(&self, values: impl IntoIterator<Item = u64>) {
        with_timeout("a client listens", async {
            while self.sender.receiver_count() == 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        for value in values {
            self.sender.send(value).unwrap();
        }
    }
}

/// Parses the events of a response.
struct SseEvents {
    bytes: std::pin::Pin<Box<dyn Stream<Item = reqwest::Result<Vec<u8>>> + Send>>,
    rest: String,
}

#[derive(Debug, PartialEq)]
struct SseEvent {
    kind: String,
    id: Option<String>,
    data: Value,
}

impl SseEvents {
    fn of(response: Response) -> Self {
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let bytes = response.bytes_stream().map(|chunk| chunk.map(|chunk| chunk.to_vec()));
        Self { bytes: Box::pin(bytes), rest: String::new() }
    }

    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
                };
                let event = SseEvent {
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
            let chunk = with_timeout("an event", self.bytes.next()).await?.ok()?;
            self.rest += &String::from_utf8(chunk).unwrap();
        }
    }

    /// Reads the expected values and returns the id of the last event.
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
async fn resume_replays_missed_events() {
    let fixture = Fixture::start(GatewaySettings::default()).await;
    let mut events = fixture.listen(None).await;
    fixture.publish(1..=3).await;
    let last = events.values(1..=3).await;
    drop(events);
    // Only the task of the detached stream reads.
    fixture.publish(4..=6).await;
    let mut events = fixture.listen(Some(&last)).await;
    let last = events.values(4..=6).await;
    fixture.publish(7..=8).await;
    events.values(7..=8).await;
    // Events that were sent but not received are replayed, and the new connection takes over the
    // stream.
    let mut again = fixture.listen(Some(&last)).await;
    again.values(7..=8).await;
    assert_eq!(events.next().await, None, "the old connection no longer receives the stream");
    fixture.publish([9]).await;
    again.values([9]).await;
    assert_eq!(fixture.gateway.gateway.pipeline().in_flight(), 1, "there was one subscription");
    drop(again);
    assert!(fixture.gateway.stop().await.in_time);
}

#[tokio::test]
async fn resume_past_buffer_reports_gap() {
    let mut settings = GatewaySettings::default();
    settings.http.replay_events = 4;
    let fixture = Fixture::start(settings).await;
    let mut events = fixture.listen(None).await;
    fixture.publish([1]).await;
    let last = events.values([1]).await;
    drop(events);
    fixture.publish(2..=10).await;
    // A detached stream is throttled while events displace others, so it may take a few attempts.
    let mut events = loop {
        let mut events = fixture.listen(Some(&last)).await;
        let first = events.next().await.unwrap();
        assert_eq!((first.kind.as_str(), &first.id), ("gap", &None));
        if first.data == json!({"lost": 5, "isNew": false}) {
            break events;
        }
    };
    events.values(7..=10).await;
    drop(events);
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn resume_of_unknown_stream_starts_new_with_gap() {
    let mut settings = GatewaySettings::default();
    settings.http.resume_window = Duration::from_millis(10);
    let fixture = Fixture::start(settings).await;
    let new = Some(json!({"lost": null, "isNew": true}));
    let mut events = fixture.listen(None).await;
    fixture.publish([1]).await;
    let last = events.values([1]).await;
    drop(events);
    let pipeline = fixture.gateway.gateway.pipeline().clone();
    wait_until("the resume window ends", || pipeline.in_flight() == 0).await;
    let guess = format!("{}-1", "0".repeat(32));
    for id in [last.as_str(), &guess, "7", "?-?"] {
        let mut events = fixture.listen(Some(id)).await;
        let first = events.next().await.unwrap();
        assert_eq!((first.kind.as_str(), Some(first.data)), ("gap", new.clone()), "{id}");
        fixture.publish([2]).await;
        events.values([2]).await;
        drop(events);
        wait_until("it ends", || pipeline.in_flight() == 0).await;
    }
    fixture.gateway.stop().await;
}

#[tokio::test]
async fn resume_after_complete_returns_204() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/api/demo/clock?count=2&everyMs=1");
    let mut events = SseEvents::of(client().get(&url).send().await.unwrap());
    let mut ids = Vec::new();
    while let Some(event) = events.next().await {
        ids.push((event.kind, event.id.unwrap()));
    }
    assert_eq!(ids.len(), 3);
    assert_eq!(ids[2].0, "complete");
    let back = |id: &str| client().get(&url).header("last-event-id", id.to_owned()).send();
    assert_eq!(back(&ids[2].1).await.unwrap().status().as_u16(), 204);
    // A client that has not received the end receives it.
    let mut events = SseEvents::of(back(&ids[1].1).await.unwrap());
    assert_eq!(events.next().await.unwrap().kind, "complete");
    assert_eq!(events.next().await, None);
    gateway.stop().await;
}

#[tokio::test]
async fn resume_of_other_identity_stream_is_isolated() {
    let (ann, bob) = (Token::generate().unwrap(), Token::generate().unwrap());
    let known = [(ann.hash(), Identity::new("ann")), (bob.hash(), Identity::new("bob"))];
    let gateway =
        Gateway::builder(builtin::registry()).authenticator(Authenticator::with_tokens(known));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;
    let listen = async |token: &Token, path: &str, last: &str| {
        let request = client().get(gateway.url(path)).bearer_auth(token.reveal());
        SseEvents::of(request.header("last-event-id", last).send().await.unwrap())
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

/// A caller with too many detached streams loses its oldest ones.
#[tokio::test]
async fn detached_streams_are_limited() {
    let mut settings = GatewaySettings::default();
    settings.http.max_detached_streams_per_caller = 3;
    let gateway = TestGateway::start_with([], settings).await;
    let url = gateway.url("/api/demo/clock?count=100000&everyMs=20");
    let mut ids = Vec::new();
    let pipeline = gateway.gateway.pipeline().clone();
    for number in 1_usize..=5 {
        let mut events = SseEvents::of(client().get(&url).send().await.unwrap());
        ids.push(events.next().await.unwrap().id.unwrap());
        drop(events);
        let expected = number.min(3);
        // The gateway notices a disconnect when it writes the next event.
        tokio::time::sleep(Duration::from_millis(60)).await;
        wait_until("the others end", || pipeline.in_flight() == expected).await;
    }
    // Resumed streams stay connected, so that they evict no others.
    let mut all = Vec::new();
    for (id, is_there) in ids.iter().zip([false, false, true, true, true]) {
        let request = client().get(&url).header("last-event-id", id);
        let mut events = SseEvents::of(request.send().await.unwrap());
        let kind = events.next().await.unwrap().kind;
        assert_eq!(kind == "gap", !is_there, "{id}");
        all.push(events);
    }
    drop(all);
    assert!(gateway.stop().await.in_time);
}

/// An endless detached stream is throttled.
#[tokio::test]
async fn detached_flood_is_throttled() {
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
    settings.http.resume_window = Duration::from_millis(500);
    settings.http.replay_events = 10;
    let gateway = TestGateway::start_with([flood], settings).await;
    let mut events = SseEvents::of(client().get(gateway.url("/api/t/flood")).send().await.unwrap());
    events.next().await.unwrap();
    drop(events);
    let read = || count.load(std::sync::atomic::Ordering::SeqCst);
    // Events that fit into the socket buffer are written before the disconnect is noticed.
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
    wait_until("the resume window ends", || pipeline.in_flight() == 0).await;
    assert!(read() - before < 100, "{} values in half a second", read() - before);
    gateway.stop().await;
}
