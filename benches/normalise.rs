//! `Schema::normalise` beside what it is compared with: parsing the same bytes, the `jsonschema`
//! crate, and TypeBox under Node.
//!
//! Every number is the median over many batches; the spread is the distance between the quartiles
//! as a share of the median. Run it on a quiet machine: `cargo bench -p manila --bench normalise`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a program that reports"
)]

use std::collections::HashMap;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use manila::{Extras, Schema};
use serde_json::{Value, json};

/// As in the binary; the parser that we are compared with has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [&str; 3] = ["small", "medium", "large"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = payloads(&root);
    let typebox = typebox(&root, &folder);
    println!(
        "{:<14}{:>12}{:>8}{:>12}{:>8}{:>12}{:>14}{:>9}{:>9}",
        "payload", "normalise", "spread", "parse", "of it", "crate", "TypeBox", "faster", "spread"
    );
    for size in SIZES {
        let schema = read(&folder, &format!("{size}.schema.json"));
        for state in ["valid", "dirty"] {
            let bytes = read(&folder, &format!("{size}.{state}.json"));
            report(&format!("{size}.{state}"), &schema, &bytes, &typebox);
        }
    }
}

struct Timing {
    nanoseconds: f64,
    spread: f64,
}

fn report(name: &str, schema: &[u8], bytes: &[u8], typebox: &HashMap<String, Timing>) {
    let json: Value = serde_json::from_slice(schema).expect("the schema is JSON");
    let value: Value = serde_json::from_slice(bytes).expect("the payload is JSON");
    let validator = jsonschema::validator_for(&json).expect("the schema compiles");
    let schema = Schema::new(json).expect("the schema is one");
    schema.compile().expect("the schema compiles");
    // What is made is dropped outside of the clock, here as for the parser.
    let ours = measure(
        || (value.clone(), None),
        |(value, done)| *done = schema.normalise(black_box(value), Extras::Strip).ok(),
    );
    let parse = measure(
        || None,
        |parsed| *parsed = black_box(serde_json::from_slice::<Value>(black_box(bytes)).ok()),
    );
    let crate_ = measure(|| false, |fits| *fits = black_box(validator.is_valid(black_box(&value))));
    let other = typebox.get(name);
    println!(
        "{name:<14}{:>12}{:>7.0}%{:>12}{:>8.2}{:>12}{:>14}{:>9}{:>9}",
        written(ours.nanoseconds),
        ours.spread * 100.0,
        written(parse.nanoseconds),
        ours.nanoseconds / parse.nanoseconds,
        written(crate_.nanoseconds),
        other.map_or("-".to_owned(), |other| written(other.nanoseconds)),
        other.map_or("-".to_owned(), |other| {
            format!("{:.0}x", other.nanoseconds / ours.nanoseconds)
        }),
        other.map_or("-".to_owned(), |other| format!("{:.0}%", other.spread * 100.0)),
    );
}

/// The median over many batches. A batch prepares its inputs and drops them outside of the clock.
fn measure<T>(prepare: impl Fn() -> T, work: impl Fn(&mut T)) -> Timing {
    let once = |count: usize| {
        let mut inputs: Vec<T> = (0..count).map(|_| prepare()).collect();
        let started = Instant::now();
        inputs.iter_mut().for_each(&work);
        let elapsed = started.elapsed();
        elapsed.as_nanos() as f64 / count as f64
    };
    let rough = once(1).max(once(1));
    let count = ((Duration::from_micros(200).as_nanos() as f64 / rough) as usize).clamp(1, 1000);
    let started = Instant::now();
    let mut times = Vec::new();
    while times.len() < 30 || (started.elapsed() < Duration::from_secs(1) && times.len() < 2000) {
        times.push(once(count));
    }
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Timing { nanoseconds: at(0.5), spread: (at(0.75) - at(0.25)) / at(0.5) }
}

fn written(nanoseconds: f64) -> String {
    match nanoseconds {
        small if small < 10_000.0 => format!("{small:.0} ns"),
        medium if medium < 10_000_000.0 => format!("{:.1} µs", medium / 1e3),
        large => format!("{:.2} ms", large / 1e6),
    }
}

fn read(folder: &Path, file: &str) -> Vec<u8> {
    std::fs::read(folder.join(file)).expect("the payload was there a moment ago")
}

/// The folder of payloads: the shared ones if they are there, else our own of the same shape.
fn payloads(root: &Path) -> PathBuf {
    let folders = [root.join("../shared/cast-bench"), root.join(".cache/cast-bench")];
    if let Some(folder) = folders.iter().find(|folder| folder.join("large.dirty.json").is_file()) {
        println!("payloads: {}", folder.strip_prefix(root).unwrap_or(folder).display());
        return folder.clone();
    }
    println!("payloads: made up here, because the shared ones are missing");
    let folder = folders[1].clone();
    std::fs::create_dir_all(&folder).expect("the cache can be written");
    for (size, count) in SIZES.into_iter().zip([1, 30, 1500]) {
        let write = |kind: &str, value: &Value| {
            std::fs::write(folder.join(format!("{size}.{kind}.json")), value.to_string())
                .expect("the cache can be written");
        };
        write("schema", &generated_schema());
        write("valid", &generated(count, false));
        write("dirty", &generated(count, true));
    }
    folder
}

fn generated_schema() -> Value {
    json!({
        "$defs": {"User": {"type": "object", "required": ["login", "id", "admin"], "properties": {
            "login": {"type": "string"}, "id": {"type": "integer"},
            "admin": {"type": "boolean", "default": false}}}},
        "type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {
            "type": "object",
            "required": ["number", "title", "state", "user", "assignee", "event"],
            "properties": {
                "number": {"type": "integer", "minimum": 1},
                "title": {"type": "string", "minLength": 1},
                "state": {"enum": ["open", "closed"]},
                "body": {"type": ["string", "null"]},
                "user": {"$ref": "#/$defs/User"},
                "assignee": {"anyOf": [{"$ref": "#/$defs/User"}, {"type": "null"}]},
                "labels": {"type": "array", "items": {"type": "string"}},
                "event": {"anyOf": [
                    {"type": "object", "required": ["kind", "by"], "properties": {
                        "kind": {"const": "closed"}, "by": {"type": "string"}}},
                    {"type": "object", "required": ["kind"], "properties": {
                        "kind": {"const": "opened"}}}]}}}}}
    })
}

/// `count` issues; the dirty ones have texts for numbers, gaps and extras here and there.
fn generated(count: usize, dirty: bool) -> Value {
    let items: Vec<Value> = (1..=count)
        .map(|number| {
            let user = json!({"login": format!("user{number}"), "id": number, "admin": false});
            let mut issue = json!({
                "number": number, "title": format!("issue {number} does not close"),
                "state": if number % 2 == 0 { "open" } else { "closed" },
                "body": "parsing the response returns an error after the upgrade ".repeat(6),
                "user": user, "assignee": if number % 3 == 0 { Value::Null } else { user },
                "labels": ["bug", "release", "parser"],
                "event": {"kind": "closed", "by": "somebody"}
            });
            if dirty && number % 4 == 1 {
                issue["number"] = Value::from(number.to_string());
                issue["etag"] = Value::from("W/\"x\"");
                issue["user"] = json!({"login": "u", "id": number, "node": 1});
                issue["assignee"] = json!({"login": "u", "id": "7", "url": ""});
            }
            issue
        })
        .collect();
    json!({ "items": items })
}

/// TypeBox on the same bytes, by payload; empty, and loudly so, where it cannot run.
fn typebox(root: &Path, folder: &Path) -> HashMap<String, Timing> {
    let modules = root.join(".cache/typebox");
    if !modules.join("node_modules/@sinclair/typebox").is_dir() {
        eprintln!("!!! no TypeBox: npm install --prefix .cache/typebox @sinclair/typebox@0.34");
        return HashMap::new();
    }
    let script = root.join("benches/typebox.mjs");
    let run = Command::new("node").arg(script).arg(&modules).arg(folder).args(SIZES).output();
    match run {
        Ok(output) if output.status.success() => timings(&output.stdout),
        Ok(output) => {
            eprintln!("!!! TypeBox failed: {}", String::from_utf8_lossy(&output.stderr));
            HashMap::new()
        }
        Err(error) => {
            eprintln!("!!! no node, so no TypeBox: {error}");
            HashMap::new()
        }
    }
}

fn timings(lines: &[u8]) -> HashMap<String, Timing> {
    let lines = serde_json::Deserializer::from_slice(lines).into_iter::<Value>().flatten();
    lines
        .filter_map(|line| {
            let timing = Timing {
                nanoseconds: line["nanoseconds"].as_f64()?,
                spread: line["spread"].as_f64()?,
            };
            Some((line["file"].as_str()?.to_owned(), timing))
        })
        .collect()
}
