//! Who is told when a caller does not want an answer any more, and who goes on.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolpost::connection::{Client, Connection, ConnectionSettings, Serve};
use toolpost::link::Connector;
use toolpost::{
    AuditSink, Authority, CallContext, CallError, CallRequest, CallView, Ending, Entered,
    HandlerError, Operation, Pipeline, Step, build_env,
};
use toolpost_gateway::{Gateway, GatewaySettings, builtin};

use super::{Raw, Running, caller, connector, eventually, in_time, spoke};

/// What happened at the spokes.
#[derive(Default)]
struct Counts {
    started: AtomicUsize,
    cancelled: AtomicUsize,
    finished: AtomicUsize,
}

impl Counts {
    fn all(&self) -> (usize, usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::SeqCst);
        (read(&self.started), read(&self.cancelled), read(&self.finished))
    }

    /// Goes on until somebody opens the gate, or nobody wants it any more.
    async fn wait(&self, context: &CallContext, gate: &Semaphore) -> Result<bool, HandlerError> {
        self.started.fetch_add(1, Ordering::SeqCst);
        tokio::select! {
            () = context.cancelled() => {
                self.cancelled.fetch_add(1, Ordering::SeqCst);
                Err(CallError::aborted("told to stop").into())
            }
            permit = gate.acquire() => {
                permit.unwrap().forget();
                self.finished.fetch_add(1, Ordering::SeqCst);
                Ok(true)
            }
        }
    }
}

/// An endless query of a spoke.
fn endless(counts: &Arc<Counts>) -> Operation {
    let counts = Arc::clone(counts);
    let wait = move |context: CallContext, _: Value| {
        let counts = Arc::clone(&counts);
        async move { counts.wait(&context, &Semaphore::new(0)).await }
    };
    Operation::query("work.wait", wait).build().unwrap()
}

/// Calls fifty times into each of two spokes, at once.
async fn fan_out(context: CallContext, _: Value) -> Result<usize, HandlerError> {
    let env = build_env(&context, ["left", "right"]);
    let targets = ["left.work.wait", "right.work.wait"].into_iter().cycle().take(100);
    let answers = join_all(targets.map(|target| env.execute(target, json!({})))).await;
    Ok(answers.len())
}

#[derive(Debug, Clone, Copy)]
enum End {
    Abort,
    Deadline,
    Dropped,
    Disconnect,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fans_out_over_two_spokes_stops_all_hundred() {
    let operation = Operation::query("fan.out", fan_out).build().unwrap();
    let gateway = Running::with([operation], GatewaySettings::default()).await;
    let counts = Arc::new(Counts::default());
    let left = spoke(&gateway, None, "left", [endless(&counts)]).await;
    let right = spoke(&gateway, None, "right", [endless(&counts)]).await;

    let rows = [
        (End::Abort, Some("ABORTED")),
        (End::Deadline, Some("TIMEOUT")),
        (End::Dropped, None),
        (End::Disconnect, Some("UNAVAILABLE")),
    ];
    for (round, (end, code)) in rows.into_iter().enumerate() {
        let (before, after) = (100 * round, 100 * (round + 1));
        assert_eq!(counts.all(), (before, before, 0), "{end:?}");
        let link = connector(&gateway, None).connect().await.unwrap();
        let (client, connection) =
            Connection::new(link, Serve::Nothing, ConnectionSettings::default());
        let connection = tokio::spawn(connection.run());
        let mut request = CallRequest::new("fan.out", json!({}));
        if matches!(end, End::Deadline) {
            request = request.timeout(Duration::from_secs(2));
        }
        let call = client.call(request);
        let handle = call.abort_handle();
        let call = tokio::spawn(call);
        eventually("all have started", || counts.all().0 == after).await;
        match end {
            End::Abort => handle.abort("enough"),
            End::Deadline => {}
            End::Dropped => call.abort(),
            End::Disconnect => connection.abort(),
        }
        eventually("all have stopped", || counts.all() == (after, after, 0)).await;
        let ended = in_time("the call ends", call).await;
        let ended = ended.ok().map(|answer| answer.unwrap_err().code().to_string());
        assert_eq!(ended.as_deref(), code, "{end:?}");
    }
    let hub = gateway.gateway.hub().clone();
    eventually("the hub waits for nothing", || hub.census().pending == 0).await;
    eventually("nor for the caller", || hub.census().serving == 0).await;
    for pipeline in [gateway.gateway.pipeline(), left.pipeline(), right.pipeline()] {
        eventually("nothing is in flight", || pipeline.in_flight() == 0).await;
    }
    assert!(gateway.stop().await.in_time);
}

/// The ends of calls, as `operation: how`.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn has(&self, line: &str) -> bool {
        self.0.lock().unwrap().iter().any(|written| written == line)
    }
}

impl AuditSink for Journal {
    fn enter(&self, _: &CallView<'_>) -> Entered {
        Step::Now(Ok(())).into()
    }

    fn exit(&self, call: &CallView<'_>, ending: &Ending<'_>, _: Duration) -> Step<()> {
        let how = match ending {
            Ending::Answered(_) => "answered".to_owned(),
            Ending::Failed(error) => error.code().to_string(),
            _ => "completed".to_owned(),
        };
        self.0.lock().unwrap().push(format!("{}: {how}", call.operation_id));
        Step::Now(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutation_outlives_its_caller_and_a_query_does_not() {
    let journal = Journal::default();
    let pipeline = Pipeline::builder(builtin::registry()).audit(journal.clone()).build();
    let gateway = Gateway::with(pipeline, GatewaySettings::default());
    let gateway = Running::serve(gateway, "127.0.0.1:0").await;

    let (reads, writes) = (Arc::new(Counts::default()), Arc::new(Counts::default()));
    let gate = Arc::new(Semaphore::new(0));
    let (counts, opened) = (Arc::clone(&writes), Arc::clone(&gate));
    let write = move |context: CallContext, _: Value| {
        let (counts, opened) = (Arc::clone(&counts), Arc::clone(&opened));
        async move { counts.wait(&context, &opened).await }
    };
    let write = Operation::mutation("disk.write", write).build().unwrap();
    let store = spoke(&gateway, None, "store", [endless(&reads), write]).await;

    let link = connector(&gateway, None).connect().await.unwrap();
    let (client, connection) = Connection::new(link, Serve::Nothing, ConnectionSettings::default());
    let connection = tokio::spawn(connection.run());
    let calls = ["store.work.wait", "store.disk.write"]
        .map(|operation| tokio::spawn(client.call(CallRequest::new(operation, json!({})))));
    eventually("both run", || (reads.all().0, writes.all().0) == (1, 1)).await;

    connection.abort();
    for call in calls {
        let error = in_time("the caller is told", call).await.unwrap().unwrap_err();
        assert_eq!(error.code().as_str(), "UNAVAILABLE");
    }
    eventually("the query is canceled", || reads.all() == (1, 1, 0)).await;
    eventually("and recorded", || journal.has("store.work.wait: ABORTED")).await;
    assert_eq!(writes.all(), (1, 0, 0), "the mutation goes on");
    assert_eq!(gateway.gateway.pipeline().in_flight(), 1);

    gate.add_permits(1);
    eventually("the mutation ends", || writes.all() == (1, 0, 1)).await;
    eventually("and is recorded", || journal.has("store.disk.write: answered")).await;
    eventually("nothing is left", || gateway.gateway.pipeline().in_flight() == 0).await;
    eventually("nor at the spoke", || store.pipeline().in_flight() == 0).await;

    // Whoever asks for it by name stops a mutation too.
    let client = caller(&gateway, None).await;
    let call = client.call(CallRequest::new("store.disk.write", json!({})));
    let handle = call.abort_handle();
    let call = tokio::spawn(call);
    eventually("it runs again", || writes.all().0 == 2).await;
    handle.abort("a change of mind");
    assert_eq!(in_time("it ends", call).await.unwrap().unwrap_err().code().as_str(), "ABORTED");
    eventually("it is stopped at the spoke", || writes.all() == (2, 1, 1)).await;
    gateway.stop().await;
}

/// More last words than the queue to the spoke holds, and nothing after them that pushes them out.
/// One thread, so that nothing is sent before all of them are there.
#[tokio::test]
async fn a_thousand_calls_that_are_given_up_at_once_are_all_aborted_at_the_spoke() {
    let gateway = Running::start().await;
    let mut spoke = Raw::connect(&gateway, None).await;
    spoke.register("r1", "quiet").await;
    let client = Client::in_process(gateway.gateway.pipeline().clone(), Authority::outside(None));
    let calls = (0..1_000).map(|_| client.call(CallRequest::new("quiet.wire.ask", json!({}))));
    let mut calls = join_all(calls);
    let asked = async {
        for _ in 0..1_000 {
            assert_eq!(spoke.next().await["type"], "call.requested");
        }
    };
    tokio::select! {
        _ = &mut calls => panic!("nobody answers"),
        () = asked => {}
    }
    drop(calls);
    for _ in 0..1_000 {
        assert_eq!(spoke.next().await["type"], "call.aborted");
    }
    drop(spoke);
    gateway.stop().await;
}
