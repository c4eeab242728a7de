//! Namespace `demo`: operations of each kind, including ones that fail, run slowly or return
//! mismatched output.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolpost::{
    CallContext, CallError, DomainError, ErrorDefinition, Handler, HandlerError, HandlerOutput,
    Operation, OperationKind, OperationSpec, Progress, Schema,
};

/// Maximum number of stored notes. The oldest note is removed when it is reached.
const MAX_NOTES: usize = 1_000;

pub(super) fn operations() -> Vec<Operation> {
    let failure = ErrorDefinition::new("DEMO_FAILURE", "Every call to `demo.fail` fails.")
        .with_schema(Schema::of_serialized::<FailureDetails>())
        .with_http_status(409);
    let builders = [
        Operation::query("demo.add", add)
            .title("Add")
            .description("Adds two numbers.")
            .tag("arithmetic"),
        Operation::mutation("demo.note", note_handler())
            .title("Take a note")
            .description("Stores a note in memory and returns the number of stored notes."),
        Operation::subscription("demo.clock", clock)
            .title("Clock")
            .description("Emits `count` ticks, `everyMs` milliseconds apart.")
            .tag("time"),
        Operation::query("demo.fail", fail)
            .title("Fail")
            .description("Always fails with a declared error.")
            .raises(failure),
        Operation::query("demo.slow", slow)
            .title("Sleep")
            .description("Sleeps for `ms` milliseconds and reports progress; can be canceled.")
            .tag("time"),
        Operation::from_spec(messy_spec())
            .handler(Handler::once_fn(async |_, _| Ok(HandlerOutput::dynamic(messy_output())))),
    ];
    builders.map(|builder| builder.build().expect("built-in operations are well formed")).into()
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({"a": 2, "b": 3}))]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Sum {
    sum: serde_json::Number,
}

async fn add(input: Add) -> Result<Sum, HandlerError> {
    let sum = input.a + input.b;
    // An integral sum is serialized as an integer.
    #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
    let number = if sum.fract() == 0.0 && sum.abs() < 9e15 {
        Some(serde_json::Number::from(sum as i64))
    } else {
        serde_json::Number::from_f64(sum)
    };
    let sum = number.ok_or_else(|| CallError::execution("the sum is out of range"))?;
    Ok(Sum { sum })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({"text": "milk"}))]
struct Note {
    /// The text of the note.
    #[schemars(length(max = 10_000))]
    text: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct NoteOutput {
    /// Id of the note.
    id: u64,
    text: String,
    /// Number of stored notes.
    kept: usize,
}

type NoteStore = Arc<Mutex<(u64, VecDeque<String>)>>;

fn note_handler() -> impl Fn(Note) -> std::future::Ready<Result<NoteOutput, HandlerError>> {
    let notebook = NoteStore::default();
    move |input| {
        let mut notebook = notebook.lock();
        let (last_id, notes) = &mut *notebook;
        *last_id += 1;
        if notes.len() == MAX_NOTES {
            notes.pop_front();
        }
        notes.push_back(input.text.clone());
        std::future::ready(Ok(NoteOutput { id: *last_id, text: input.text, kept: notes.len() }))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({"count": 3, "everyMs": 100}))]
#[serde(rename_all = "camelCase")]
struct Clock {
    /// Number of ticks.
    #[serde(default = "ten")]
    count: u64,
    /// Milliseconds between two ticks.
    #[serde(default = "thousand")]
    #[schemars(range(min = 1, max = 3_600_000))]
    every_ms: u64,
}

fn ten() -> u64 {
    10
}

fn thousand() -> u64 {
    1_000
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Tick {
    tick: u64,
    of: u64,
    /// Milliseconds since the first tick.
    elapsed_ms: u64,
}

fn clock(
    context: CallContext,
    Clock { count, every_ms }: Clock,
) -> impl Stream<Item = Result<Tick, HandlerError>> {
    let mut interval = tokio::time::interval(Duration::from_millis(every_ms.max(1)));
    // A slow consumer gets the next tick delayed, not a burst of missed ticks.
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let state = (context, interval, 0, tokio::time::Instant::now());
    futures::stream::unfold(state, move |(context, mut interval, ticks, began)| async move {
        if ticks == count {
            return None;
        }
        tokio::select! {
            biased;
            () = context.canceled() => return None,
            _ = interval.tick() => {}
        }
        let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let tick = Tick { tick: ticks + 1, of: count, elapsed_ms };
        Some((Ok(tick), (context, interval, ticks + 1, began)))
    })
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
struct Fail {
    /// The error message.
    message: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct FailureDetails {
    /// How to resolve the error.
    remedy: String,
}

async fn fail(input: Fail) -> Result<(), HandlerError> {
    let message = input.message.unwrap_or_else(|| "this operation always fails".to_owned());
    let details = json!({"remedy": "call another operation"});
    Err(DomainError::new("DEMO_FAILURE", message).with_details(details).into())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({"ms": 200}))]
struct Slow {
    /// Duration of the call in milliseconds.
    #[schemars(range(max = 3_600_000))]
    ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Slept {
    slept_ms: u64,
}

async fn slow(context: CallContext, input: Slow) -> Result<Slept, HandlerError> {
    const STEPS: u64 = 20;
    let began = tokio::time::Instant::now();
    tracing::debug!(request_id = %context.request_id(), ms = input.ms, "demo.slow started");
    for step in 1..=STEPS {
        let until = began + Duration::from_millis(input.ms * step / STEPS);
        tokio::select! {
            biased;
            () = context.canceled() => {
                let after_ms = began.elapsed().as_millis();
                tracing::info!(request_id = %context.request_id(), after_ms, "demo.slow was canceled and stopped");
                return Err(CallError::aborted("demo.slow was canceled").into());
            }
            () = tokio::time::sleep_until(until) => {}
        }
        #[expect(clippy::cast_precision_loss, reason = "both are at most a few millions")]
        let (done, total) = ((input.ms * step / STEPS) as f64, input.ms as f64);
        context.report(Progress::new(done).with_total(total));
    }
    Ok(Slept { slept_ms: input.ms })
}

fn messy_spec() -> OperationSpec {
    let id = "demo.messy".parse().expect("a plain id");
    let mut spec = OperationSpec::new(&id, OperationKind::Query);
    spec.title = Some("Mismatched output".to_owned());
    spec.description = "Returns output that does not match its schema.".to_owned();
    let output = json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "string"},
            "active": {"type": "boolean"},
            "role": {"type": "string", "default": "guest"},
            "score": {"type": "number"},
        },
        "required": ["id", "name", "active", "score"],
    });
    spec.output_schema = Schema::new(output).expect("an object is a schema");
    spec
}

fn messy_output() -> serde_json::Value {
    json!({"id": "42", "name": "Ada", "active": "true", "score": "high", "debug": {"ms": 3}})
}
