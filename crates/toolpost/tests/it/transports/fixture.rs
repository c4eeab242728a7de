//! Operations called by the suite, and counters of their calls.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Notify, watch};
use toolpost::{
    AuditEntry, AuditOutcome, AuditSink, CallContext, CallError, CallView, DomainError,
    ErrorDefinition, Handler, HandlerError, HandlerOutput, HookResult, Operation, OperationKind,
    OperationSpec, Payload, Pipeline, Progress, Registry, Schema,
};

/// A monotonic counter that can be awaited.
#[derive(Debug, Clone)]
pub(super) struct Counter(watch::Sender<usize>);

impl Default for Counter {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Counter {
    fn add(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(super) fn get(&self) -> usize {
        *self.0.borrow()
    }

    pub(super) async fn wait_for(&self, expected: usize) {
        let mut count = self.0.subscribe();
        let reached = count.wait_for(|count| *count >= expected);
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
        reached.unwrap_or_else(|_| panic!("{} instead of {expected}", self.get())).unwrap();
    }
}

/// A pipeline with the suite's operations, counters and an audit recorder.
#[derive(Clone)]
pub(super) struct Fixture {
    pub(super) pipeline: Pipeline,
    pub(super) counts: Counts,
    /// Releases all waiting `suite.write` calls.
    pub(super) release: Arc<Notify>,
    /// Recorded call outcomes, as operation id and error code or `ok`.
    pub(super) audit: AuditRecorder,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// Started calls to `suite.wait` and `suite.write`, and first values of `suite.quiet`.
    pub(super) started: Counter,
    /// Calls to `suite.wait` and `suite.write` that observed their cancellation.
    pub(super) canceled: Counter,
    /// Values produced by the source of `suite.ticks`.
    pub(super) produced: Counter,
    /// Dropped source streams.
    pub(super) stopped: Counter,
}

impl Fixture {
    pub(super) fn new() -> Self {
        Self::with_barrier(1)
    }

    /// A fixture whose `suite.meet` responds once `many` calls to it are in flight.
    pub(super) fn with_barrier(many: usize) -> Self {
        let (counts, release, audit) =
            (Counts::default(), Arc::default(), AuditRecorder::default());
        let registry = Registry::new();
        for operation in operations(&counts, &release, many) {
            registry.register(operation).unwrap();
        }
        let pipeline = Pipeline::builder(registry).audit(audit.clone()).build();
        Self { pipeline, counts, release, audit }
    }
}

fn operations(counts: &Counts, release: &Arc<Notify>, many: usize) -> Vec<Operation> {
    let (counting, barrier) = (counts.clone(), Arc::new(Barrier::new(many)));
    let wait = move |context: CallContext, _: Payload| {
        wait_until_released(counting.clone(), context, None)
    };
    let (counting, releasing) = (counts.clone(), Arc::clone(release));
    let write = move |context: CallContext, _: Payload| {
        wait_until_released(counting.clone(), context, Some(Arc::clone(&releasing)))
    };
    let meet = move |_: CallContext, input: Payload| {
        let barrier = Arc::clone(&barrier);
        async move {
            barrier.wait().await;
            Ok(HandlerOutput::Data(input))
        }
    };
    let (ticking, silent) = (counts.clone(), counts.clone());
    let ticks = move |context, _: Payload| CountedStream::new(&ticking, context, ticks(&ticking));
    let quiet = move |context, _: Payload| CountedStream::new(&silent, context, one_value(&silent));
    vec![
        once("suite.echo", OperationKind::Query, async |_, input| Ok(HandlerOutput::Data(input))),
        once("suite.meet", OperationKind::Query, meet),
        once("suite.wait", OperationKind::Query, wait),
        once("suite.write", OperationKind::Mutation, write),
        once("suite.steps", OperationKind::Query, steps),
        stream("suite.count", count_values),
        stream("suite.ticks", ticks),
        stream("suite.quiet", quiet),
        operation_with_invalid_output(),
        failing_operation(OperationKind::Query),
        failing_operation(OperationKind::Mutation),
    ]
}

fn once<F, Fut>(id: &str, kind: OperationKind, function: F) -> Operation
where
    F: Fn(CallContext, Payload) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<HandlerOutput, HandlerError>> + Send + 'static,
{
    let spec = OperationSpec::new(&id.parse().unwrap(), kind);
    Operation::from_spec(spec).handler(Handler::once_fn(function)).build().unwrap()
}

fn stream<F, S>(id: &str, function: F) -> Operation
where
    F: Fn(CallContext, Payload) -> S + Send + Sync + 'static,
    S: Stream<Item = Result<HandlerOutput, HandlerError>> + Send + 'static,
{
    let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Subscription);
    Operation::from_spec(spec).handler(Handler::stream_fn(function)).build().unwrap()
}

/// Waits until the call is canceled or released.
async fn wait_until_released(
    counts: Counts,
    context: CallContext,
    release: Option<Arc<Notify>>,
) -> Result<HandlerOutput, HandlerError> {
    let released = async {
        match &release {
            Some(release) => release.notified().await,
            None => std::future::pending().await,
        }
    };
    let mut released = std::pin::pin!(released);
    // Registered before `started` is incremented, so that no release is missed.
    let _ = futures::poll!(&mut released);
    counts.started.add();
    tokio::select! {
        () = context.canceled() => {
            counts.canceled.add();
            Err(CallError::aborted("noticed").into())
        }
        () = released => Ok(HandlerOutput::dynamic(json!("done"))),
    }
}

/// Reports every step before it returns.
async fn steps(context: CallContext, input: Payload) -> Result<HandlerOutput, HandlerError> {
    let many: u32 = input.into_typed()?;
    for step in 1..=many {
        let message = format!("step {step}");
        context.report(Progress::new(step.into()).with_total(many.into()).with_message(message));
        if step % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(HandlerOutput::dynamic(json!("done")))
}

fn count_values(
    _: CallContext,
    input: Payload,
) -> BoxStream<'static, Result<HandlerOutput, HandlerError>> {
    let many: u64 = input.into_typed().unwrap();
    futures::stream::iter((0..many).map(|number| Ok(HandlerOutput::dynamic(json!(number))))).boxed()
}

type Values = BoxStream<'static, Result<HandlerOutput, HandlerError>>;

/// An endless stream of numbers.
fn ticks(counts: &Counts) -> Values {
    let produced = counts.produced.clone();
    let values = (0_u64..).map(move |number| {
        produced.add();
        Ok(HandlerOutput::dynamic(json!(number)))
    });
    futures::stream::iter(values).boxed()
}

/// A stream that yields one value and then stays pending.
fn one_value(counts: &Counts) -> Values {
    let started = counts.started.clone();
    let first = futures::stream::once(async move {
        started.add();
        Ok(HandlerOutput::dynamic(json!("first")))
    });
    first.chain(futures::stream::pending()).boxed()
}

/// A stream that counts its drop in `stopped`.
struct CountedStream {
    values: Values,
    stopped: Counter,
}

impl CountedStream {
    fn new(counts: &Counts, context: CallContext, values: Values) -> Self {
        let canceled = async move { context.canceled().await };
        let values = values.take_until(canceled.boxed()).boxed();
        Self { values, stopped: counts.stopped.clone() }
    }
}

impl Stream for CountedStream {
    type Item = Result<HandlerOutput, HandlerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.values.as_mut().poll_next(cx)
    }
}

impl Drop for CountedStream {
    fn drop(&mut self) {
        self.stopped.add();
    }
}

/// An operation whose output needs repairs and still does not match its schema afterward.
fn operation_with_invalid_output() -> Operation {
    let mut spec = OperationSpec::new(&"suite.messy".parse().unwrap(), OperationKind::Query);
    let output = json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "score": {"type": "number"}},
        "required": ["id", "score"],
    });
    spec.output_schema = Schema::new(output).unwrap();
    let mess =
        async |_, _| Ok(HandlerOutput::dynamic(json!({"id": "42", "score": "high", "odd": 1})));
    Operation::from_spec(spec).handler(Handler::once_fn(mess)).build().unwrap()
}

/// An operation that fails with the error selected by its input.
fn failing_operation(kind: OperationKind) -> Operation {
    let id = format!("suite.fail-{}", kind.as_str());
    let mut spec = OperationSpec::new(&id.parse().unwrap(), kind);
    spec.error_schemas = vec![ErrorDefinition::new("SOLD_OUT", "Nothing is left.")];
    let fail = async |_, input: Payload| {
        let how: String = input.into_typed()?;
        Err::<HandlerOutput, HandlerError>(match how.as_str() {
            "domain" => {
                DomainError::new("SOLD_OUT", "none left").with_details(json!({"left": 0})).into()
            }
            "unavailable" => CallError::unavailable("away").into(),
            "unsent" => CallError::unavailable("away").not_sent().into(),
            _ => std::io::Error::other("broken").into(),
        })
    };
    Operation::from_spec(spec).handler(Handler::once_fn(fail)).build().unwrap()
}

/// Audit sink that records the outcome of each call.
#[derive(Clone, Default)]
pub(super) struct AuditRecorder {
    lines: Arc<Mutex<Vec<String>>>,
    written: Counter,
}

impl AuditRecorder {
    /// Waits until `many` lines are recorded, then returns all recorded lines, sorted.
    pub(super) async fn lines(&self, many: usize) -> Vec<String> {
        self.written.wait_for(many).await;
        let mut lines = self.lines.lock().unwrap().clone();
        lines.sort();
        lines
    }
}

impl AuditSink for AuditRecorder {
    fn enter(&self, _: &CallView<'_>) -> AuditEntry {
        HookResult::Ready(Ok(())).into()
    }

    fn exit(&self, call: &CallView<'_>, ending: &AuditOutcome<'_>, _: Duration) -> HookResult<()> {
        let how = match ending {
            AuditOutcome::Failed(error) => error.code().to_string(),
            _ => "ok".to_owned(),
        };
        self.lines.lock().unwrap().push(format!("{} {how}", call.operation_id));
        self.written.add();
        HookResult::Ready(Ok(()))
    }
}

/// Returns the data of an outcome.
pub(super) fn data(outcome: toolpost::Outcome) -> Value {
    outcome.envelope.into_value().unwrap().data
}
