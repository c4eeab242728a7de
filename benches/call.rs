//! The overhead of the pipeline on a call, and the cost of a large catalog.
//!
//! The baseline is the boxed future of the operation, called through an `Arc<dyn Fn>` in the same run
//! with the same value. The result of each call is the input of the next.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/mod.rs"]
mod harness;

use std::hint::black_box;
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::{Cost, claim, measure, measure_together};
use serde_json::{Value, json};
use toolpost::{
    Change, Handler, HandlerError, HandlerOutput, Operation, OperationKind, OperationSpec, Payload,
    Pipeline, Registry, Schema,
};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const WORDS: [&str; 12] = [
    "issues",
    "list",
    "create",
    "repository",
    "user",
    "payment",
    "refund",
    "search",
    "branch",
    "delete",
    "update",
    "report",
];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let small = pipeline(1);
    let large = pipeline(10_000);

    let numbers = || json!({"a": 2, "b": 3});
    let list = |items: i64| (0..items).map(|n| json!({"id": n, "name": "item"})).collect::<Value>();
    let _guard = runtime.enter();
    let [direct, through, in_large, kilobytes, megabyte, validated] = measure_together([
        &mut direct(numbers()),
        &mut call(&small, "bench.echo", numbers()),
        &mut call(&large, "bench.echo", numbers()),
        &mut call(&small, "bench.echo", list(400)),
        &mut call(&small, "bench.echo", list(40_000)),
        &mut call(&small, "bench.checked", numbers()),
    ]);
    println!("One call to an operation that returns its input:");
    println!("  its boxed future alone           {direct}");
    println!("  call, schemas unknown            {through}");
    println!("  call, 10,000 operations          {in_large}");
    println!("  call, 10 KB of payload           {kilobytes}");
    println!("  call, 1 MB of payload            {megabyte}");
    println!("  call, input and output validated {validated}");

    println!("A catalog of 10,000 operations:");
    let registry = large.registry();
    let ids: Vec<String> =
        registry.catalog().list().iter().map(|operation| operation.id().to_string()).collect();
    let mut next = 0;
    let lookup = measure(|| {
        next = (next + 7_919) % ids.len();
        black_box(registry.catalog().get(&ids[next]));
    });
    println!("  lookup                           {lookup}");
    let search = measure(|| {
        black_box(registry.catalog().search("list payment issues", 20));
    });
    println!("  search, three words              {search}");
    let rebuild = measure(|| registry.replace(echo("bench.echo", Schema::unknown())));
    println!("  replacing one operation          {rebuild}");

    println!();
    let overhead = |cost: Cost| (cost.nanos - direct.nanos) / 1e3;
    claim("call overhead over its boxed future", overhead(through), "µs", 0.5);
    claim("call overhead over its boxed future, 10,000 operations", overhead(in_large), "µs", 0.5);
    claim("1 MB of payload compared with 15 bytes", megabyte.nanos / through.nanos, "times", 1.25);
    claim("lookup among 10,000", lookup.nanos / 1e3, "µs", 1.0);
    claim("search among 10,000", search.nanos / 1e6, "ms", 1.0);
}

fn echo(id: &str, schema: Schema) -> Operation {
    let spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
    Operation::from_spec(spec)
        .schemas(schema.clone(), schema)
        .handler(Handler::once_fn(async |_, input| Ok(HandlerOutput::Data(input))))
        .build()
        .unwrap()
}

fn pipeline(operations: usize) -> Pipeline {
    let registry = Registry::new();
    let word = |n: usize| WORDS[n % WORDS.len()];
    let changes = (1..operations).map(|n| {
        let id = format!("api{}.{}/{}/{n}", n % 50, word(n), word(n / 7));
        let mut spec = OperationSpec::new(&id.parse().unwrap(), OperationKind::Query);
        spec.description =
            format!("Can {} every {} of a {}", word(n / 3), word(n / 5), word(n / 11));
        Change::Register(Operation::from_spec(spec).build().unwrap())
    });
    registry.apply(changes).unwrap();
    let schema = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    registry.register(echo("bench.echo", Schema::unknown())).unwrap();
    registry.register(echo("bench.checked", Schema::new(schema).unwrap())).unwrap();
    Pipeline::new(registry)
}

type DirectHandler =
    Arc<dyn Fn(Payload) -> BoxFuture<'static, Result<HandlerOutput, HandlerError>>>;

fn direct(value: Value) -> impl FnMut() {
    let direct: DirectHandler =
        black_box(Arc::new(|input| Box::pin(async { Ok(HandlerOutput::Data(input)) })));
    let mut value = Some(value);
    move || {
        let result = poll_once(direct(value.take().unwrap().into()));
        let Ok(HandlerOutput::Data(data)) = result else { panic!("an echo returns data") };
        value = Some(data.into_value().unwrap());
    }
}

fn call(pipeline: &Pipeline, id: &'static str, value: Value) -> impl FnMut() {
    let pipeline = pipeline.clone();
    let mut value = Some(value);
    move || {
        let envelope = poll_once(pipeline.call_trusted(id, value.take().unwrap())).unwrap();
        value = Some(envelope.data);
    }
}

/// An echo never waits, so one poll completes the call; the event loop of the runtime is excluded.
fn poll_once<F: Future>(future: F) -> F::Output {
    futures::FutureExt::now_or_never(future).expect("an echo is ready at the first poll")
}
