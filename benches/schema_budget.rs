//! Time and counted work of hostile schemas and values, and of a schema and a value over budget.
//! Run it with `cargo bench -p toolpost --bench schema_budget`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../crates/toolpost/tests/it/schema_attacks.rs"]
mod attacks;

use std::time::Instant;

use serde_json::{Value, json};
use toolpost::{Extras, Schema};

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 9;

fn main() {
    println!("{:<48}{:>12}{:>12}{:>12}{:>12}", "schema", "compile", "validate", "steps", "bytes");
    for (name, schema) in attacks::small_schemas() {
        print_row(name, &schema, &attacks::nested_value(100));
    }
    print_row("expression tree", &attacks::expression_tree(), &attacks::expression_input());
    let integers = json!({"items": {"type": "integer"}});
    print_row("4 MB of wrong values", &integers, &json!(vec!["wrong"; 500_000]));
    let unique = json!({"uniqueItems": true});
    let items: Vec<Value> = (0..100_000).map(|at| json!({"a": [at]})).collect();
    print_row("100,000 unique items", &unique, &Value::Array(items));
    print_row("schema over budget", &attacks::schema_over_budget(), &json!({}));
    let (schema, value) = attacks::value_over_budget();
    print_row("value over budget", &schema, &value);
}

fn print_row(name: &str, json: &Value, value: &Value) {
    let schema = Schema::new(json.clone()).unwrap();
    let compile = median_ms(|| _ = Schema::new(json.clone()).unwrap().compile());
    let validate = median_ms(|| _ = schema.validate(value));
    let work = schema.measure(&mut value.clone(), Extras::Strip);
    println!("{name:<48}{compile:>9.3} ms{validate:>9.3} ms{:>12}{:>12}", work.steps, work.memory);
}

fn median_ms(run: impl Fn()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1_000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
