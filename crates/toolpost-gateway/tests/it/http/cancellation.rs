//! Deadlines and disconnects: a query is canceled with its caller, a mutation runs to completion.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use toolpost::{CallContext, HandlerError, Operation};
use toolpost_gateway::GatewaySettings;

use crate::hostile::RawClient;
use crate::spokes::wait_until;
use crate::{TestGateway, client};

/// Counts calls that wait until they are released or canceled.
#[derive(Default)]
struct CallCounters {
    started: AtomicUsize,
    canceled: AtomicUsize,
    completed: AtomicUsize,
    release: Notify,
}

impl CallCounters {
    async fn wait(&self, context: CallContext) -> Result<(), HandlerError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = context.canceled() => self.canceled.fetch_add(1, Ordering::SeqCst),
            () = self.release.notified() => self.completed.fetch_add(1, Ordering::SeqCst),
        };
        Ok(())
    }
}

#[tokio::test]
async fn client_disconnect_cancels_query_not_mutation() {
    let seen = Arc::new(CallCounters::default());
    let handler = || {
        let seen = Arc::clone(&seen);
        move |context: CallContext, _: Value| {
            let seen = Arc::clone(&seen);
            async move { seen.wait(context).await }
        }
    };
    let query = Operation::query("t.query", handler()).build().unwrap();
    let mutation = Operation::mutation("t.mutation", handler()).build().unwrap();
    let gateway = TestGateway::start_with([query, mutation], GatewaySettings::default()).await;
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);

    for request in ["GET /api/t/query", "POST /api/t/query", "POST /api/t/mutation"] {
        let begun = count(&seen.started);
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n")).await;
        wait_until("the call has started", || count(&seen.started) == begun + 1).await;
        drop(raw);
        if request.ends_with("query") {
            wait_until("it was canceled", || count(&seen.canceled) == begun + 1).await;
        }
    }
    assert_eq!((count(&seen.canceled), count(&seen.completed)), (2, 0));
    seen.release.notify_one();
    wait_until("the mutation ends", || count(&seen.completed) == 1).await;
    assert!(gateway.stop().await.in_time);
}

/// Each row: the query and the header of a call that would take a minute.
#[tokio::test]
async fn request_timeout_bounds_the_call() {
    let mut settings = GatewaySettings::default();
    settings.http.max_timeout = Duration::from_millis(100);
    let gateway = TestGateway::start_with([], settings).await;
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
    let rejected = client().post(gateway.url("/api/demo/add")).header("request-timeout", "soon");
    let rejected = rejected.json(&json!({"a": 1, "b": 1})).send().await.unwrap();
    assert_eq!(rejected.status().as_u16(), 400);
    gateway.stop().await;
}

#[tokio::test]
async fn trace_context_is_propagated_to_handler() {
    let handler = |context: CallContext, _: Value| async move {
        Ok::<_, HandlerError>(json!(context.metadata().and_then(|known| known.get("traceparent"))))
    };
    let operation = Operation::query("t.trace", handler).build().unwrap();
    let gateway = TestGateway::start_with([operation], GatewaySettings::default()).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (sent, expected) in [(trace, json!(trace)), ("nonsense", Value::Null)] {
        let request = client().get(gateway.url("/api/t/trace")).header("traceparent", sent);
        assert_eq!(request.send().await.unwrap().json::<Value>().await.unwrap(), expected);
    }
    gateway.stop().await;
}
