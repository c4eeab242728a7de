//! Deadlines, and clients who hang up: a query ends with its caller, a mutation by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolpost::{CallContext, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use crate::hostile::Raw;
use crate::spokes::eventually;
use crate::{Running, client};

/// What became of calls that wait until they are let go or canceled.
#[derive(Default)]
struct Seen {
    begun: AtomicUsize,
    cancelled: AtomicUsize,
    done: AtomicUsize,
    go: Notify,
}

impl Seen {
    async fn wait(&self, context: CallContext) -> Result<(), HandlerError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = context.cancelled() => self.cancelled.fetch_add(1, Ordering::SeqCst),
            () = self.go.notified() => self.done.fetch_add(1, Ordering::SeqCst),
        };
        Ok(())
    }
}

#[tokio::test]
async fn hanging_up_cancels_a_query_and_not_a_mutation() {
    let seen = Arc::new(Seen::default());
    let handler = || {
        let seen = Arc::clone(&seen);
        move |context: CallContext, _: Value| {
            let seen = Arc::clone(&seen);
            async move { seen.wait(context).await }
        }
    };
    let query = Operation::query("t.query", handler()).build().unwrap();
    let mutation = Operation::mutation("t.mutation", handler()).build().unwrap();
    let gateway = Running::with([query, mutation], GatewaySettings::default()).await;
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);

    for request in ["GET /api/t/query", "POST /api/t/query", "POST /api/t/mutation"] {
        let begun = count(&seen.begun);
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        eventually("it has begun", || count(&seen.begun) == begun + 1).await;
        drop(raw);
        if request.ends_with("query") {
            eventually("it was canceled", || count(&seen.cancelled) == begun + 1).await;
        }
    }
    assert_eq!((count(&seen.cancelled), count(&seen.done)), (2, 0));
    seen.go.notify_one();
    eventually("the mutation ends", || count(&seen.done) == 1).await;
    assert!(gateway.stop().await.in_time);
}

/// Each row: the query, the header, and whether a call of a minute is over in time.
#[tokio::test]
async fn a_caller_says_how_long_it_waits() {
    let mut settings = GatewaySettings::default();
    settings.http.longest_timeout = Duration::from_millis(100);
    let gateway = Running::with([], settings).await;
    for (query, header) in [
        ("?ms=60000&timeout=50ms", None),
        ("?ms=60000", Some("0.05")),
        ("?ms=60000&timeout=1h", None),
    ] {
        let mut request = client().get(gateway.url(&format!("/api/demo/slow{query}")));
        if let Some(seconds) = header {
            request = request.header("request-timeout", seconds);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 504, "{query} {header:?}");
        let problem: Value = response.json().await.unwrap();
        assert_eq!(problem["error"]["code"], "TIMEOUT", "{problem}");
        assert_eq!(problem["error"]["retryable"], true, "it is a query");
    }
    let refused = client().post(gateway.url("/api/demo/add")).header("request-timeout", "soon");
    let refused = refused.json(&json!({"a": 1, "b": 1})).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 400);
    gateway.stop().await;
}

#[tokio::test]
async fn the_trace_of_the_caller_reaches_the_handler() {
    let tell = |context: CallContext, _: Value| async move {
        Ok::<_, HandlerError>(json!(context.metadata().and_then(|known| known.get("traceparent"))))
    };
    let operation = Operation::query("t.trace", tell).build().unwrap();
    let gateway = Running::with([operation], GatewaySettings::default()).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (sent, told) in [(trace, json!(trace)), ("nonsense", Value::Null)] {
        let request = client().get(gateway.url("/api/t/trace")).header("traceparent", sent);
        assert_eq!(request.send().await.unwrap().json::<Value>().await.unwrap(), told);
    }
    gateway.stop().await;
}
