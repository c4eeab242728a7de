//! What the pipeline adds to a call, and what a large catalog costs.
//!
//! The reference is the operation's own boxed future, called through an `Arc<dyn Fn>` in the same
//! run on the same value. The value goes round: what a call gives back is the input of the next.

#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints")]

#[path = "harness/mod.rs"]
mod harness;

use std::hint::black_box;
use std::sync::Arc;

use futures::future::BoxFuture;
use harness::{Cost, claim, measure, measure_together};
use serde_json::{Value, json};
use toolpost::{
    Change, Handler, HandlerError, Kind, Operation, OperationSpec, Output, Payload, Pipeline,
    Registry, Schema,
};

/// As in the binary.
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
        &mut execute(&small, "bench.echo", numbers()),
        &mut execute(&large, "bench.echo", numbers()),
        &mut execute(&small, "bench.echo", list(400)),
        &mut execute(&small, "bench.echo", list(40_000)),
        &mut execute(&small, "bench.checked", numbers()),
    ]);
    println!("One call of an operation that gives back its input:");
    println!("  its boxed future alone           {direct}");
    println!("  execute, schemas unknown         {through}");
    println!("  execute, 10,000 operations       {in_large}");
    println!("  execute, 10 KB of payload        {kilobytes}");
    println!("  execute, 1 MB of payload         {megabyte}");
    println!("  execute, input and output known  {validated}");

    println!("A catalog of 10,000 operations:");
    let registry = large.registry();
    let ids: Vec<String> =
        registry.catalog().list().iter().map(|operation| operation.id().to_string()).collect();
    let mut next = 0;
    let look_up = measure(|| {
        next = (next + 7_919) % ids.len();
        black_box(registry.catalog().get(&ids[next]));
    });
    println!("  look-up                          {look_up}");
    let search = measure(|| {
        black_box(registry.catalog().search("list payment issues", 20));
    });
    println!("  search, three words              {search}");
    let rebuild = measure(|| registry.replace(echo("bench.echo", Schema::unknown())));
    println!("  replacing one operation          {rebuild}");

    println!();
    let above = |cost: Cost| (cost.nanos - direct.nanos) / 1e3;
    claim("execute above its boxed future", above(through), "µs", 0.5);
    claim("execute above its boxed future, 10,000 operations", above(in_large), "µs", 0.5);
    claim("1 MB of payload beside 15 bytes", megabyte.nanos / through.nanos, "times", 1.25);
    claim("look-up among 10,000", look_up.nanos / 1e3, "µs", 1.0);
    claim("search among 10,000", search.nanos / 1e6, "ms", 1.0);
}

fn echo(id: &str, schema: Schema) -> Operation {
    let spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
    Operation::from_spec(spec)
        .schemas(schema.clone(), schema)
        .handler(Handler::once_fn(async |_, input| Ok(Output::Data(input))))
        .build()
        .unwrap()
}

fn pipeline(operations: usize) -> Pipeline {
    let registry = Registry::new();
    let word = |n: usize| WORDS[n % WORDS.len()];
    let many = (1..operations).map(|n| {
        let id = format!("api{}.{}/{}/{n}", n % 50, word(n), word(n / 7));
        let mut spec = OperationSpec::new(&id.parse().unwrap(), Kind::Query);
        spec.description =
            format!("Can {} every {} of a {}", word(n / 3), word(n / 5), word(n / 11));
        Change::Register(Operation::from_spec(spec).build().unwrap())
    });
    registry.apply(many).unwrap();
    let known = json!({
        "type": "object",
        "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
        "required": ["a", "b"],
    });
    registry.register(echo("bench.echo", Schema::unknown())).unwrap();
    registry.register(echo("bench.checked", Schema::new(known).unwrap())).unwrap();
    Pipeline::new(registry)
}

type Direct = Arc<dyn Fn(Payload) -> BoxFuture<'static, Result<Output, HandlerError>>>;

fn direct(value: Value) -> impl FnMut() {
    let direct: Direct = black_box(Arc::new(|input| Box::pin(async { Ok(Output::Data(input)) })));
    let mut value = Some(value);
    move || {
        let answered = now(direct(value.take().unwrap().into()));
        let Ok(Output::Data(data)) = answered else { panic!("an echo gives data") };
        value = Some(data.into_value().unwrap());
    }
}

fn execute(pipeline: &Pipeline, id: &'static str, value: Value) -> impl FnMut() {
    let pipeline = pipeline.clone();
    let mut value = Some(value);
    move || {
        let envelope = now(pipeline.execute(id, value.take().unwrap())).unwrap();
        value = Some(envelope.data);
    }
}

/// An echo never waits, so one poll is the whole call; the runtime's own loop is not measured.
fn now<F: Future>(future: F) -> F::Output {
    futures::FutureExt::now_or_never(future).expect("an echo answers at once")
}
