//! Cancellation of calls at spokes: which calls are aborted when their caller cancels or
//! disconnects, and which finish.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::connection::{Client, Connection, ConnectionSettings, IncomingRequests};
use toolpost::transport::Connector;
use toolpost::{
    AuditEntry, AuditOutcome, AuditSink, Authority, CallContext, CallError, CallRequest, CallView,
    HandlerError, HookResult, Operation, build_env,
};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::{RawPeer, TestGateway, caller, connector, spoke, wait_until, with_timeout};

/// Number of started, canceled and finished calls at the spokes.
#[derive(Default)]
struct SpokeCounts {
    started: AtomicUsize,
    canceled: AtomicUsize,
    finished: AtomicUsize,
}

impl SpokeCounts {
    fn totals(&self) -> (usize, usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (read(&self.started), read(&self.canceled), read(&self.finished))
    }

    /// Waits until the gate opens or the call is canceled.
    async fn wait_at_gate(
        &self,
        context: &CallContext,
        gate: &Semaphore,
    ) -> Result<bool, HandlerError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = context.canceled() => {
                self.canceled.fetch_add(1, Ordering::SeqCst);
                Err(CallError::aborted("stopped").into())
            }
            permit = gate.acquire() => {
                permit.unwrap().forget();
                self.finished.fetch_add(1, Ordering::SeqCst);
                Ok(true)
            }
        }
    }
}

/// Returns a query that runs until it is canceled.
fn endless(counts: &Arc<SpokeCounts>) -> Operation {
    let counts = Arc::clone(counts);
    let wait = move |context: CallContext, _: Value| {
        let counts = Arc::clone(&counts);
        async move { counts.wait_at_gate(&context, &Semaphore::new(0)).await }
    };
    Operation::query("work.wait", wait).build().unwrap()
}

/// Calls each of two spokes fifty times concurrently.
async fn fan_out(context: CallContext, _: Value) -> Result<usize, HandlerError> {
    let env = build_env(&context, ["left", "right"]);
    let targets = ["left.work.wait", "right.work.wait"].into_iter().cycle().take(100);
    let responses = join_all(targets.map(|target| env.call_trusted(target, json!({})))).await;
    Ok(responses.len())
}

#[derive(Debug, Clone, Copy)]
enum EndCause {
    Abort,
    Deadline,
    Dropped,
    Disconnect,
}

#[tokio::test(flavor = "multi_thread")]
async fn fan_out_cancellation_aborts_all_spoke_calls() {
    let operation = Operation::query("fan.out", fan_out).build().unwrap();
    let gateway = TestGateway::start_with([operation], GatewaySettings::default()).await;
    let counts = Arc::new(SpokeCounts::default());
    let left = spoke(&gateway, None, "left", [endless(&counts)]).await;
    let right = spoke(&gateway, None, "right", [endless(&counts)]).await;

    let rows = [
        (EndCause::Abort, Some("ABORTED")),
        (EndCause::Deadline, Some("TIMEOUT")),
        (EndCause::Dropped, None),
        (EndCause::Disconnect, Some("UNAVAILABLE")),
    ];
    for (round, (end, code)) in rows.into_iter().enumerate() {
        let (before, after) = (100 * round, 100 * (round + 1));
        assert_eq!(counts.totals(), (before, before, 0), "{end:?}");
        let link = connector(&gateway, None).connect().await.unwrap();
        let (client, connection) =
            Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
        let connection = tokio::spawn(connection.run());
        let mut request = CallRequest::new("fan.out", json!({}));
        if matches!(end, EndCause::Deadline) {
            request = request.timeout(Duration::from_secs(2));
        }
        let call = client.call(request);
        let handle = call.abort_handle();
        let call = tokio::spawn(call);
        wait_until("all have started", || counts.totals().0 == after).await;
        match end {
            EndCause::Abort => handle.abort("enough"),
            EndCause::Deadline => {}
            EndCause::Dropped => call.abort(),
            EndCause::Disconnect => connection.abort(),
        }
        wait_until("all have stopped", || counts.totals() == (after, after, 0)).await;
        let ended = with_timeout("the call ends", call).await;
        let ended = ended.ok().map(|response| response.unwrap_err().code().to_string());
        assert_eq!(ended.as_deref(), code, "{end:?}");
    }
    let hub = gateway.gateway.hub().clone();
    wait_until("the hub has no pending requests", || hub.stats().pending == 0).await;
    wait_until("the caller has no call in flight", || hub.stats().inflight == 0).await;
    for pipeline in [gateway.gateway.pipeline(), left.pipeline(), right.pipeline()] {
        wait_until("nothing is in flight", || pipeline.in_flight() == 0).await;
    }
    assert!(gateway.stop().await.in_time);
}

/// Records the outcomes of calls, as `operation: outcome`.
#[derive(Clone, Default)]
struct RecordingSink(Arc<Mutex<Vec<String>>>);

impl RecordingSink {
    fn contains(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|written| written == line)
    }
}

impl AuditSink for RecordingSink {
    fn enter(&self, _: &CallView<'_>) -> AuditEntry {
        HookResult::Ready(Ok(())).into()
    }

    fn exit(&self, call: &CallView<'_>, ending: &AuditOutcome<'_>, _: Duration) -> HookResult<()> {
        let how = match ending {
            AuditOutcome::Succeeded(_) => "succeeded".to_owned(),
            AuditOutcome::Failed(error) => error.code().to_string(),
            _ => "completed".to_owned(),
        };
        self.0.lock().unwrap().push(format!("{}: {how}", call.operation_id));
        HookResult::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mutation_outlives_caller_and_query_is_canceled() {
    let journal = RecordingSink::default();
    let audit = journal.clone();
    let gateway = Gateway::builder(builtin::registry()).pipeline(|pipeline| pipeline.audit(audit));
    let gateway = TestGateway::serve(gateway, "127.0.0.1:0").await;

    let (reads, writes) = (Arc::new(SpokeCounts::default()), Arc::new(SpokeCounts::default()));
    let gate = Arc::new(Semaphore::new(0));
    let (counts, opened) = (Arc::clone(&writes), Arc::clone(&gate));
    let write = move |context: CallContext, _: Value| {
        let (counts, opened) = (Arc::clone(&counts), Arc::clone(&opened));
        async move { counts.wait_at_gate(&context, &opened).await }
    };
    let write = Operation::mutation("disk.write", write).build().unwrap();
    let store = spoke(&gateway, None, "store", [endless(&reads), write]).await;

    let link = connector(&gateway, None).connect().await.unwrap();
    let (client, connection) =
        Connection::new(link, IncomingRequests::Reject, ConnectionSettings::default());
    let connection = tokio::spawn(connection.run());
    let calls = ["store.work.wait", "store.disk.write"]
        .map(|operation| tokio::spawn(client.call(CallRequest::new(operation, json!({})))));
    wait_until("both run", || (reads.totals().0, writes.totals().0) == (1, 1)).await;

    connection.abort();
    for call in calls {
        let error = with_timeout("the caller gets the error", call).await.unwrap().unwrap_err();
        assert_eq!(error.code().as_str(), "UNAVAILABLE");
    }
    wait_until("the query is canceled", || reads.totals() == (1, 1, 0)).await;
    wait_until("and recorded", || journal.contains("store.work.wait: ABORTED")).await;
    assert_eq!(writes.totals(), (1, 0, 0), "the mutation continues");
    assert_eq!(gateway.gateway.pipeline().in_flight(), 1);

    gate.add_permits(1);
    wait_until("the mutation ends", || writes.totals() == (1, 0, 1)).await;
    wait_until("the outcome is recorded", || journal.contains("store.disk.write: succeeded")).await;
    wait_until("no call is in flight", || gateway.gateway.pipeline().in_flight() == 0).await;
    wait_until("nothing is in flight at the spoke", || store.pipeline().in_flight() == 0).await;

    // An explicit abort also stops a mutation.
    let client = caller(&gateway, None).await;
    let call = client.call(CallRequest::new("store.disk.write", json!({})));
    let handle = call.abort_handle();
    let call = tokio::spawn(call);
    wait_until("it runs again", || writes.totals().0 == 2).await;
    handle.abort("a change of mind");
    assert_eq!(
        with_timeout("it ends", call).await.unwrap().unwrap_err().code().as_str(),
        "ABORTED"
    );
    wait_until("it is stopped at the spoke", || writes.totals() == (2, 1, 1)).await;
    gateway.stop().await;
}

/// Sends more abort events than the queue to the spoke holds, with no later event that flushes
/// them. The test runs on one thread, so that none is sent before all are queued.
#[tokio::test]
async fn thousand_canceled_calls_are_aborted_at_the_spoke() {
    let gateway = TestGateway::start().await;
    let mut spoke = RawPeer::connect(&gateway, None).await;
    spoke.register("r1", "quiet").await;
    let client = Client::in_process(gateway.gateway.pipeline().clone(), Authority::untrusted(None));
    let calls = (0..1_000).map(|_| client.call(CallRequest::new("quiet.wire.ask", json!({}))));
    let mut calls = join_all(calls);
    let all_requested = async {
        for _ in 0..1_000 {
            assert_eq!(spoke.next_event().await["type"], "call.requested");
        }
    };
    tokio::select! {
        _ = &mut calls => panic!("no response is expected"),
        () = all_requested => {}
    }
    drop(calls);
    for _ in 0..1_000 {
        assert_eq!(spoke.next_event().await["type"], "call.aborted");
    }
    drop(spoke);
    gateway.stop().await;
}
