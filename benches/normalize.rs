//! `Schema::normalize` compared with parsing the same bytes, the `jsonschema` crate, and TypeBox
//! under Node.
//!
//! The speed of a machine varies, so the candidates are measured in rounds: a batch of ours, one of
//! the parser, one of the crate, one of TypeBox, which stays warm in a separate process on the same
//! core. Times are medians over the rounds. A ratio is the median of the ratios of single rounds,
//! with half the distance between their quartiles as its noise. Run it with
//! `cargo bench -p toolpost --bench normalize`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its results")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolpost::{Extras, Schema};

/// The allocator of the binary; the parser uses it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: [&str; 3] = ["small", "medium", "large"];

/// Time for the rounds of one payload, and their minimum and maximum number.
const ROUND_BUDGET: Duration = Duration::from_secs(4);
const ROUNDS: std::ops::Range<usize> = 15..1500;

fn main() {
    if rerun_pinned() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = payloads(&root);
    let mut typebox = TypeBox::start(&root, &folder);
    println!(
        "{:<14}{:>12}{:>12}{:>14}{:>12}{:>12}{:>16}{:>7}",
        "payload", "normalize", "parse", "of it", "crate", "TypeBox", "faster", "rounds"
    );
    for size in SIZES {
        let schema = read(&folder, &format!("{size}.schema.json"));
        for state in ["valid", "dirty"] {
            let bytes = read(&folder, &format!("{size}.{state}.json"));
            report(&format!("{size}.{state}"), &schema, &bytes, &mut typebox);
        }
    }
    println!(
        "of it, faster: the median of the ratios of single rounds ± half their quartile distance"
    );
}

/// Runs this program again pinned to one core, together with TypeBox, and returns whether that
/// succeeded. Cores differ in speed, and the difference varies.
fn rerun_pinned() -> bool {
    const PINNED: &str = "TOOLPOST_BENCH_PINNED";
    if std::env::var_os(PINNED).is_some() {
        return false;
    }
    let this = std::env::current_exe().expect("this program is a file");
    let status = Command::new("taskset")
        .args(["-c", "0"])
        .arg(this)
        .args(std::env::args().skip(1))
        .env(PINNED, "1")
        .status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("!!! not pinned to one core: taskset is missing or failed");
    }
    status.is_ok_and(|status| status.success())
}

/// The durations of one round, in nanoseconds.
struct Round {
    ours: f64,
    parse: f64,
    validator: f64,
    typebox: Option<f64>,
}

fn report(name: &str, schema: &[u8], bytes: &[u8], typebox: &mut Option<TypeBox>) {
    let rounds = run_rounds(name, schema, bytes, typebox);
    let median = |part: fn(&Round) -> Option<f64>| {
        Summary::of(rounds.iter().filter_map(part))
            .map_or("-".to_owned(), |all| format_nanos(all.median))
    };
    let share = Summary::of(rounds.iter().map(|round| round.ours / round.parse));
    let faster = Summary::of(rounds.iter().filter_map(|round| Some(round.typebox? / round.ours)));
    println!(
        "{name:<14}{:>12}{:>12}{:>14}{:>12}{:>12}{:>16}{:>7}",
        median(|round| Some(round.ours)),
        median(|round| Some(round.parse)),
        share.map_or("-".to_owned(), |all| format!("{:.2} ± {:.2}", all.median, all.noise)),
        median(|round| Some(round.validator)),
        median(|round| round.typebox),
        faster.map_or("-".to_owned(), |all| format!("{:.1}x ± {:.1}", all.median, all.noise)),
        rounds.len(),
    );
}

fn run_rounds(
    name: &str,
    schema: &[u8],
    bytes: &[u8],
    typebox: &mut Option<TypeBox>,
) -> Vec<Round> {
    let json: Value = serde_json::from_slice(schema).expect("the schema is JSON");
    let value: Value = serde_json::from_slice(bytes).expect("the payload is JSON");
    let validator = jsonschema::validator_for(&json).expect("the schema compiles");
    let schema = Schema::new(json).expect("the document is a schema");
    schema.compile().expect("the schema compiles");
    // Results are dropped outside the timed section, here and for the parser.
    let ours = Batch::new(
        || (value.clone(), None),
        |(value, done)| *done = schema.normalize(black_box(value), Extras::Strip).ok(),
    );
    let parse = Batch::new(
        || None,
        |parsed| *parsed = black_box(serde_json::from_slice::<Value>(black_box(bytes)).ok()),
    );
    let validator =
        Batch::new(|| false, |fits| *fits = black_box(validator.is_valid(black_box(&value))));
    // The first batch takes longer, because it includes the warm-up.
    typebox.as_mut().map(|typebox| typebox.batch(name));
    let started = Instant::now();
    let mut rounds = Vec::new();
    while rounds.len() < ROUNDS.start
        || (started.elapsed() < ROUND_BUDGET && rounds.len() < ROUNDS.end)
    {
        rounds.push(Round {
            ours: ours.run(),
            parse: parse.run(),
            validator: validator.run(),
            typebox: typebox.as_mut().map(|typebox| typebox.batch(name)),
        });
    }
    rounds
}

/// Work that is timed for half a millisecond at a time.
struct Batch<P, W> {
    prepare: P,
    work: W,
    /// Number of inputs prepared at once; inputs and results are dropped outside the timed
    /// section. It is small, so that the values stay in the cache, as after parsing.
    count: usize,
    /// Number of repetitions per measurement.
    rounds: usize,
}

impl<T, P: Fn() -> T, W: Fn(&mut T)> Batch<P, W> {
    fn new(prepare: P, work: W) -> Self {
        let mut batch = Self { prepare, work, count: 1, rounds: 3 };
        let rough = batch.run();
        batch.count = ((2e5 / rough) as usize).clamp(1, 16);
        batch.rounds = ((5e5 / (rough * batch.count as f64)) as usize).clamp(1, 500);
        batch.run();
        batch
    }

    /// The mean time of one piece of work, in nanoseconds.
    fn run(&self) -> f64 {
        let mut elapsed = Duration::ZERO;
        for _ in 0..self.rounds {
            let mut inputs: Vec<T> = (0..self.count).map(|_| (self.prepare)()).collect();
            let started = Instant::now();
            inputs.iter_mut().for_each(&self.work);
            elapsed += started.elapsed();
        }
        elapsed.as_nanos() as f64 / (self.rounds * self.count) as f64
    }
}

struct Summary {
    median: f64,
    /// Half the distance between the quartiles.
    noise: f64,
}

impl Summary {
    /// `None` if there are no values.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |part: f64| values[(last as f64 * part) as usize];
        Some(Self { median: at(0.5), noise: (at(0.75) - at(0.25)) / 2.0 })
    }
}

fn format_nanos(nanoseconds: f64) -> String {
    match nanoseconds {
        small if small < 10_000.0 => format!("{small:.0} ns"),
        medium if medium < 10_000_000.0 => format!("{:.1} µs", medium / 1e3),
        large => format!("{:.2} ms", large / 1e6),
    }
}

fn read(folder: &Path, file: &str) -> Vec<u8> {
    std::fs::read(folder.join(file)).expect("the payload file exists")
}

/// The folder of payloads: the shared ones if present, else generated ones of the same shape.
fn payloads(root: &Path) -> PathBuf {
    let folders = [root.join("../shared/cast-bench"), root.join(".cache/cast-bench")];
    if let Some(folder) = folders.iter().find(|folder| folder.join("large.dirty.json").is_file()) {
        println!("payloads: {}", folder.strip_prefix(root).unwrap_or(folder).display());
        return folder.clone();
    }
    println!("payloads: generated, because the shared ones are missing");
    let folder = folders[1].clone();
    std::fs::create_dir_all(&folder).expect("the cache can be written");
    for (size, count) in SIZES.into_iter().zip([1, 30, 1500]) {
        let write = |kind: &str, value: &Value| {
            std::fs::write(folder.join(format!("{size}.{kind}.json")), value.to_string())
                .expect("the cache can be written");
        };
        write("schema", &generated_schema());
        write("valid", &generated_issues(count, false));
        write("dirty", &generated_issues(count, true));
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

/// `count` issues; the dirty ones have some strings for numbers, missing and extra fields.
fn generated_issues(count: usize, dirty: bool) -> Value {
    let items: Vec<Value> = (1..=count)
        .map(|number| {
            let user = json!({"login": format!("user{number}"), "id": number, "admin": false});
            let mut issue = json!({
                "number": number, "title": format!("issue {number} does not close"),
                "state": if number % 2 == 0 { "open" } else { "closed" },
                "body": "parsing the response returns an error after the upgrade ".repeat(6),
                "user": user, "assignee": if number % 3 == 0 { Value::Null } else { user },
                "labels": ["bug", "release", "parser"],
                "event": {"kind": "closed", "by": "operator"}
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

/// TypeBox on the same bytes, in a long-lived process.
struct TypeBox {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl TypeBox {
    /// Returns `None` and prints a warning if it cannot run.
    fn start(root: &Path, folder: &Path) -> Option<Self> {
        let modules = root.join(".cache/typebox");
        if !modules.join("node_modules/@sinclair/typebox").is_dir() {
            eprintln!("!!! no TypeBox: npm install --prefix .cache/typebox @sinclair/typebox@0.34");
            return None;
        }
        let mut node = Command::new("node");
        node.arg(root.join("benches/typebox.mjs")).arg(&modules).arg(folder);
        let started = node.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            started.inspect_err(|error| eprintln!("!!! no node, so no TypeBox: {error}")).ok()?;
        let stdin = process.stdin.take().expect("stdin is a pipe");
        let stdout = BufReader::new(process.stdout.take().expect("stdout is a pipe"));
        Some(Self { process, stdin, stdout })
    }

    /// The mean duration of one repetition, in nanoseconds.
    fn batch(&mut self, name: &str) -> f64 {
        writeln!(self.stdin, "{name}").expect("TypeBox reads stdin");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("TypeBox writes a line");
        line.trim().parse().expect("TypeBox writes a number")
    }
}

impl Drop for TypeBox {
    fn drop(&mut self) {
        self.process.kill().expect("the TypeBox process can be stopped");
        self.process.wait().expect("TypeBox has stopped");
    }
}
