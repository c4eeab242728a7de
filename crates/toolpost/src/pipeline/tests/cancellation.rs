//! Cancellation at each stage, and what is reported. All tests run with paused time.

use futures::{FutureExt, StreamExt};

use super::*;
use crate::access::Authority;
use crate::env::build_env;

/// Yields until all other tasks are idle.
async fn run_until_idle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

fn pipeline_with(
    log: &EventLog,
    operations: impl IntoIterator<Item = OperationBuilder>,
) -> Pipeline {
    Pipeline::builder(registry(operations)).audit(log.clone()).build()
}

fn ticks(id: &str, log: &EventLog) -> OperationBuilder {
    let log = log.clone();
    let handler = Handler::stream_fn(move |context: CallContext, _| {
        let log = log.clone();
        futures::stream::unfold((0_u64, context, log), async |(n, context, log)| {
            tokio::select! {
                () = context.canceled() => {
                    log.add("stream stops");
                    None
                }
                () = tokio::time::sleep(Duration::from_secs(1)) => {
                    Some((Ok(HandlerOutput::dynamic(json!(n))), (n + 1, context, log)))
                }
            }
        })
    });
    Operation::from_spec(spec(id, OperationKind::Subscription)).handler(handler)
}

#[tokio::test(start_paused = true)]
async fn abort_stops_queries_and_mutations() {
    for kind in [OperationKind::Query, OperationKind::Mutation] {
        let log = EventLog::default();
        let pipeline = pipeline_with(&log, [waiting_operation("t.wait", kind, &log)]);
        let call = pipeline.call(CallRequest::new("t.wait", json!({})), trusted());
        let abort = call.abort_handle();
        let (result, ()) = tokio::join!(call, async { abort.abort("enough") });
        let error = result.unwrap_err();
        assert_eq!(error.message(), "the call was aborted: enough");
        assert_eq!(error.may_have_run(), kind == OperationKind::Mutation);
        let expected = ["enter t.wait", "t.wait starts", "t.wait stops", "exit t.wait ABORTED"];
        assert_eq!(log.take(), expected, "{kind:?}");
        assert_eq!(pipeline.in_flight(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_returns_timeout_and_cancels_handler() {
    let log = EventLog::default();
    let pipeline = pipeline_with(&log, [waiting_operation("t.wait", OperationKind::Query, &log)]);
    let request = CallRequest::new("t.wait", json!({})).timeout(Duration::from_secs(3));
    let error = pipeline.call(request, trusted()).await.unwrap_err();
    assert_eq!((error.code().as_str(), error.is_retryable()), ("TIMEOUT", true));
    let expected = ["enter t.wait", "t.wait starts", "t.wait stops", "exit t.wait TIMEOUT"];
    assert_eq!(log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn call_without_deadline_uses_default() {
    let log = EventLog::default();
    let pipeline = pipeline_with(&log, [waiting_operation("t.wait", OperationKind::Query, &log)]);
    let before = tokio::time::Instant::now();
    assert_eq!(code(pipeline.call_trusted("t.wait", json!({})).await), "TIMEOUT");
    assert_eq!(before.elapsed().as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn expired_deadline_does_not_start_handler() {
    let log = EventLog::default();
    let pipeline =
        pipeline_with(&log, [waiting_operation("t.wait", OperationKind::Mutation, &log)]);
    let request = CallRequest::new("t.wait", json!({})).timeout(Duration::ZERO);
    let error = pipeline.call(request, trusted()).await.unwrap_err();
    assert_eq!((error.code().as_str(), error.may_have_run()), ("TIMEOUT", false));
    assert_eq!(log.take(), ["enter t.wait", "exit t.wait TIMEOUT"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_query_cancels_handler() {
    let log = EventLog::default();
    let pipeline = pipeline_with(&log, [waiting_operation("t.wait", OperationKind::Query, &log)]);
    let mut call = Box::pin(pipeline.call_trusted("t.wait", json!({})));
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    assert!(pipeline.drain(Duration::from_secs(1)).await);
    let expected = ["enter t.wait", "t.wait starts", "t.wait stops", "exit t.wait ABORTED"];
    assert_eq!(log.take(), expected);
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_mutation_runs_to_completion() {
    let log = EventLog::default();
    let handler_log = log.clone();
    let write = dynamic_operation("t.write", OperationKind::Mutation, move |context, _| {
        let log = handler_log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            log.add(format!("written, canceled: {}", context.is_canceled()));
            Ok(json!(1))
        }
    });
    let pipeline = pipeline_with(&log, [write]);
    let mut call = Box::pin(pipeline.call_trusted("t.write", json!({})));
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    assert!(pipeline.drain(Duration::from_secs(5)).await);
    assert_eq!(log.take(), ["enter t.write", "written, canceled: false", "exit t.write ok"]);
}

#[tokio::test(start_paused = true)]
async fn drain_timeout_aborts_remaining_calls() {
    let log = EventLog::default();
    let pipeline =
        pipeline_with(&log, [waiting_operation("t.wait", OperationKind::Mutation, &log)]);
    let mut call = Box::pin(pipeline.call_trusted("t.wait", json!({})));
    assert!((&mut call).now_or_never().is_none());
    drop(call);
    assert!(!pipeline.drain(Duration::from_secs(5)).await);
    let expected = ["enter t.wait", "t.wait starts", "t.wait stops", "exit t.wait ABORTED"];
    assert_eq!(log.take(), expected);
}

#[tokio::test(start_paused = true)]
async fn queued_call_cancellation_keeps_queue_moving() {
    let log = EventLog::default();
    let handler_log = log.clone();
    let write = dynamic_operation("t.write", OperationKind::Mutation, move |_, input| {
        let log = handler_log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(10)).await;
            log.add(format!("wrote {input}"));
            Ok(input)
        }
    });
    let pipeline = pipeline_with(&log, [write.exclusive()]);
    let start = |n: i64| pipeline.call(CallRequest::new("t.write", json!(n)), trusted());

    let first = start(1);
    let aborted = start(2);
    let abort = aborted.abort_handle();
    let timed = pipeline
        .call(CallRequest::new("t.write", json!(3)).timeout(Duration::from_secs(2)), trusted());
    let mut dropped = start(4);
    let last = start(5);
    let leave = async {
        assert!((&mut dropped).now_or_never().is_none());
        run_until_idle().await;
        abort.abort("no longer wanted");
        drop(dropped);
    };
    let (first, aborted, timed, (), last) = tokio::join!(first, aborted, timed, leave, last);
    assert_eq!([code(first), code(last)], ["ok", "ok"]);
    let (aborted, timed) = (aborted.unwrap_err(), timed.unwrap_err());
    assert_eq!([aborted.code().as_str(), timed.code().as_str()], ["ABORTED", "TIMEOUT"]);
    assert!(!aborted.may_have_run() && timed.is_retryable(), "neither was dispatched");
    assert!(pipeline.drain(Duration::from_secs(1)).await);
    let lines = log.take();
    let wrote: Vec<_> = lines.iter().filter(|line| line.starts_with("wrote")).collect();
    assert_eq!(wrote, ["wrote 1", "wrote 5"]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("exit")).count(), 5);
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn full_exclusive_queue_returns_overloaded() {
    let log = EventLog::default();
    let settings = PipelineSettings { max_exclusive_queue: 2, ..PipelineSettings::default() };
    let operations =
        registry([waiting_operation("t.wait", OperationKind::Mutation, &log).exclusive()]);
    let pipeline = Pipeline::builder(operations).settings(settings).build();
    let calls: Vec<_> =
        (0..4).map(|_| pipeline.call(CallRequest::new("t.wait", json!({})), trusted())).collect();
    let handles: Vec<_> = calls.iter().map(Call::abort_handle).collect();
    let stop = async {
        run_until_idle().await;
        handles.iter().for_each(|handle| handle.abort("done"));
    };
    let (results, ()) = tokio::join!(futures::future::join_all(calls), stop);
    let rejected = results[3].as_ref().unwrap_err();
    assert_eq!(rejected.limit(), Some("exclusive_queue"));
    assert_eq!(rejected.retry_after(), Some(Duration::from_secs(1)));
    let codes: Vec<_> = results.into_iter().map(code).collect();
    assert_eq!(codes, ["ABORTED", "ABORTED", "ABORTED", "OVERLOADED"]);
}

#[tokio::test(start_paused = true)]
async fn exclusive_lock_held_until_canceled_handler_ends() {
    let log = EventLog::default();
    let handler_log = log.clone();
    let stubborn = dynamic_operation("t.stubborn", OperationKind::Mutation, move |_, input| {
        let log = handler_log.clone();
        async move {
            log.add(format!("{input} in"));
            tokio::time::sleep(Duration::from_secs(2)).await;
            log.add(format!("{input} out"));
            Ok(json!(1))
        }
    });
    let pipeline = Pipeline::new(registry([stubborn.exclusive()]));
    let short = CallRequest::new("t.stubborn", json!(1)).timeout(Duration::from_secs(1));
    let (first, second) = tokio::join!(
        pipeline.call(short, trusted()),
        pipeline.call_trusted("t.stubborn", json!(2))
    );
    assert_eq!([code(first), code(second)], ["TIMEOUT", "ok"]);
    assert_eq!(log.take(), ["1 in", "1 out", "2 in", "2 out"]);
}

#[tokio::test(start_paused = true)]
async fn handler_ignoring_cancellation_dropped_after_grace() {
    let unresponsive = dynamic_operation("t.unresponsive", OperationKind::Query, async |_, _| {
        std::future::pending().await
    });
    let pipeline = Pipeline::new(registry([unresponsive]));
    let before = tokio::time::Instant::now();
    let request = CallRequest::new("t.unresponsive", json!({})).timeout(Duration::from_secs(1));
    assert_eq!(code(pipeline.call(request, trusted()).await), "TIMEOUT");
    assert_eq!(before.elapsed().as_secs(), 1, "the caller does not wait for the handler to end");
    assert_eq!(pipeline.in_flight(), 1);
    assert!(pipeline.drain(Duration::from_secs(60)).await);
    assert_eq!(before.elapsed().as_secs(), 6);
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn stream_ends_on_abort_deadline_and_idle_timeout() {
    let request = || CallRequest::new("t.ticks", json!({}));
    let three = Duration::from_millis(3_500);
    let rows: [(&str, CallRequest, usize, &str); 3] = [
        ("deadline", request().timeout(three), 3, "TIMEOUT"),
        ("silence", request().idle_timeout(Duration::from_millis(500)), 0, "TIMEOUT"),
        ("abort", request(), 2, "ABORTED"),
    ];
    for (name, request, values, end) in rows {
        let log = EventLog::default();
        let pipeline = pipeline_with(&log, [ticks("t.ticks", &log)]);
        let mut stream = pipeline.start_subscription(request, trusted());
        for n in 0..values {
            let outcome = stream.next().await.unwrap().unwrap();
            assert_eq!(outcome.envelope.into_value().unwrap().data, json!(n), "{name}");
        }
        if name == "abort" {
            stream.abort_handle().abort("enough");
        }
        assert_eq!(code(stream.next().await.unwrap()), end, "{name}");
        assert!(stream.next().await.is_none(), "{name}: an error is the last item");
        assert!(pipeline.drain(Duration::from_secs(1)).await);
        let expected = ["enter t.ticks", "stream stops", &format!("exit t.ticks {end}")];
        assert_eq!(log.take(), expected, "{name}");
        assert_eq!(pipeline.in_flight(), 0, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_stream_cancels_handler() {
    let log = EventLog::default();
    let pipeline = pipeline_with(&log, [ticks("t.ticks", &log)]);
    let mut stream = pipeline.subscribe("t.ticks", json!({}));
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert!(pipeline.drain(Duration::from_secs(1)).await);
    assert_eq!(log.take(), ["enter t.ticks", "stream stops", "exit t.ticks ABORTED"]);
    assert_eq!(pipeline.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn finished_stream_records_completed() {
    let log = EventLog::default();
    let handler = Handler::stream_fn(|_, _| {
        futures::stream::iter([1, 2]).map(|n| Ok(HandlerOutput::dynamic(json!(n))))
    });
    let two = Operation::from_spec(spec("t.two", OperationKind::Subscription)).handler(handler);
    let pipeline = pipeline_with(&log, [two]);
    let values: Vec<_> = pipeline.subscribe("t.two", json!({})).map(code).collect().await;
    assert_eq!(values, ["ok", "ok"]);
    assert_eq!(log.take(), ["enter t.two", "exit t.two completed 2"]);
}

#[tokio::test(start_paused = true)]
async fn call_rejects_subscription_and_subscribe_accepts_query() {
    let log = EventLog::default();
    let once = dynamic_operation("t.once", OperationKind::Query, async |_, _| Ok(json!(7)));
    let pipeline = pipeline_with(&log, [once, ticks("t.ticks", &log)]);
    assert_eq!(code(pipeline.call_trusted("t.ticks", json!({})).await), "VALIDATION_ERROR");
    let values: Vec<_> = pipeline.subscribe("t.once", json!({})).collect().await;
    assert_eq!(values.len(), 1);
    assert_eq!(values[0].as_ref().unwrap().data, json!(7));
}

/// An approval gate that never decides, so that a call can be canceled while it waits.
struct PendingApproval;

impl ApprovalGate for PendingApproval {
    fn obtain(&self, _: &CallView<'_>) -> HookResult<Option<Approval>> {
        HookResult::Pending(Box::pin(std::future::pending()))
    }
}

#[tokio::test(start_paused = true)]
async fn call_pending_approval_can_time_out() {
    let log = EventLog::default();
    let operations = registry([waiting_operation("t.wait", OperationKind::Mutation, &log)]);
    let pipeline =
        Pipeline::builder(operations).audit(log.clone()).approval(PendingApproval).build();
    let request = CallRequest::new("t.wait", json!({})).timeout(Duration::from_secs(1));
    assert_eq!(code(pipeline.call(request, Authority::untrusted(None)).await), "TIMEOUT");
    assert_eq!(log.take(), ["enter t.wait", "exit t.wait TIMEOUT"]);
}

#[tokio::test(start_paused = true)]
async fn always_ready_stream_can_be_dropped_and_aborted() {
    let handler = Handler::stream_fn(|_, _| {
        futures::stream::repeat_with(|| Ok(HandlerOutput::dynamic(json!(1))))
    });
    let endless =
        Operation::from_spec(spec("t.endless", OperationKind::Subscription)).handler(handler);
    let pipeline = Pipeline::new(registry([endless]));
    let mut dropped = pipeline.subscribe("t.endless", json!({}));
    dropped.next().await.unwrap().unwrap();
    drop(dropped);
    let mut aborted =
        pipeline.start_subscription(CallRequest::new("t.endless", json!({})), trusted());
    aborted.next().await.unwrap().unwrap();
    aborted.abort_handle().abort("enough");
    assert_eq!(code(aborted.next().await.unwrap()), "ABORTED");
    drop(aborted);
    assert!(pipeline.drain(Duration::from_secs(1)).await);
    assert_eq!(pipeline.in_flight(), 0);
}

/// Hooks that take 200 seconds.
struct DelayedHooks;

impl DelayedHooks {
    fn wait<T: Default + Send + 'static>() -> HookResult<T> {
        HookResult::Pending(Box::pin(async {
            tokio::time::sleep(Duration::from_secs(200)).await;
            Ok(T::default())
        }))
    }
}

impl ApprovalGate for DelayedHooks {
    fn obtain(&self, _: &CallView<'_>) -> HookResult<Option<Approval>> {
        Self::wait()
    }
}

impl Limits for DelayedHooks {
    fn admit(&self, _: &CallView<'_>) -> HookResult<Permit> {
        Self::wait()
    }
}

/// The default deadline covers the whole call except the time spent waiting for approval.
#[tokio::test(start_paused = true)]
async fn default_deadline_excludes_approval_time() {
    for (is_approved, total, expected_remaining) in [(false, 300, "100"), (true, 500, "300")] {
        let seen = EventLog::default();
        let log = seen.clone();
        let slow = dynamic_operation("t.slow", OperationKind::Query, move |context, _| {
            log.add(context.remaining().unwrap().as_secs().to_string());
            std::future::pending()
        });
        let builder = Pipeline::builder(registry([slow]));
        let pipeline = match is_approved {
            true => builder.approval(DelayedHooks).build(),
            false => builder.limits(Arc::new(DelayedHooks)).build(),
        };
        let began = tokio::time::Instant::now();
        assert_eq!(code(pipeline.call_trusted("t.slow", json!({})).await), "TIMEOUT");
        assert_eq!(began.elapsed().as_secs(), total, "{is_approved}");
        assert_eq!(seen.take(), [expected_remaining], "{is_approved}");
    }
}

/// Each row: the timeout of the outer call, and the expected result of three nested calls that each
/// wait 200 seconds for approval.
#[tokio::test(start_paused = true)]
async fn nested_approval_pauses_ancestor_default_deadlines() {
    let calls = |id: &'static str, inner: &'static str| {
        dynamic_operation(id, OperationKind::Query, async move |context, _| {
            Ok(build_env(&context, ["t"]).call_trusted(inner, json!({})).await?.data)
        })
    };
    for (timeout, expected) in [(None, "ok"), (Some(550), "TIMEOUT")] {
        let inner = dynamic_operation("t.inner", OperationKind::Query, async |_, _| Ok(json!(1)));
        let operations = [inner, calls("t.middle", "t.inner"), calls("t.outer", "t.middle")];
        let pipeline = Pipeline::builder(registry(operations)).approval(DelayedHooks).build();
        let mut request = CallRequest::new("t.outer", json!({}));
        if let Some(seconds) = timeout {
            request = request.timeout(Duration::from_secs(seconds));
        }
        assert_eq!(code(pipeline.call(request, trusted()).await), expected, "{timeout:?}");
    }
}

#[tokio::test]
async fn overflowing_timeout_means_no_deadline() {
    let pipeline =
        Pipeline::new(registry([dynamic_operation("t.op", OperationKind::Query, async |_, _| {
            Ok(json!(1))
        })]));
    let request = CallRequest::new("t.op", json!({})).timeout(Duration::MAX);
    assert_eq!(code(pipeline.call(request, trusted()).await), "ok");
}

#[tokio::test(start_paused = true)]
async fn access_and_input_checked_before_exclusive_queue() {
    let log = EventLog::default();
    let mut control = crate::access::AccessControl::default();
    control.required_scopes.push("write".to_owned());
    let object = crate::schema::Schema::new(json!({"type": "object"})).unwrap();
    let write = waiting_operation("t.write", OperationKind::Mutation, &log)
        .exclusive()
        .access(control)
        .schemas(object, crate::schema::Schema::unknown());
    let pipeline = Pipeline::new(registry([write]));
    let start = |input: Value, scope: &str| {
        pipeline.call(CallRequest::new("t.write", input), untrusted(&[scope]))
    };
    let holder = start(json!({}), "write");
    let abort = holder.abort_handle();
    let rejected = async {
        run_until_idle().await;
        assert_eq!(code(start(json!({}), "read").now_or_never().unwrap()), "ACCESS_DENIED");
        assert_eq!(code(start(json!(5), "write").now_or_never().unwrap()), "VALIDATION_ERROR");
        assert!(start(json!({}), "write").now_or_never().is_none(), "an accepted call waits");
        abort.abort("seen");
    };
    assert_eq!(code(tokio::join!(holder, rejected).0), "ABORTED");
}
