//! Calls with an idempotency key while the gateway is killed. A checker of the history decides.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::journal::fixture::{Gateway, offline, post, random_in};
use super::process::wait_until;
use super::{TempFolder, stderr, stdout};

const MODES: [&str; 2] = ["batch", "sync"];

/// Number of concurrent callers when the process is killed.
const CALLERS: u64 = 16;

/// An HTTP service that counts its effects by the number in the request.
struct Bank {
    port: u16,
    effects: Arc<Mutex<HashMap<u64, u64>>>,
}

impl Bank {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let effects = Arc::new(Mutex::new(HashMap::new()));
        let counts = Arc::clone(&effects);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || respond(&stream, &counts));
            }
        });
        Self { port, effects }
    }

    fn effects(&self, number: u64) -> u64 {
        self.effects.lock().unwrap().get(&number).copied().unwrap_or(0)
    }

    /// Returns an OpenAPI document with a mutation, `transfer`, and a query, `balance`.
    fn document(&self) -> Value {
        let response = json!({"200": {"description": "Done.",
            "content": {"application/json": {"schema": {"type": "object"}}}}});
        let schema = json!({"type": "object", "required": ["n"],
            "properties": {"n": {"type": "integer"}}});
        json!({
            "openapi": "3.1.0",
            "info": {"title": "bank", "version": "1"},
            "servers": [{"url": format!("http://127.0.0.1:{}", self.port)}],
            "paths": {
                "/transfer": {"post": {"operationId": "transfer", "responses": response,
                    "requestBody": {"required": true,
                        "content": {"application/json": {"schema": schema}}}}},
                "/balance": {"get": {"operationId": "balance", "responses": response,
                    "parameters": [{"name": "n", "in": "query", "required": true,
                        "schema": {"type": "integer"}}]}},
            },
        })
    }
}

/// Reads one request, counts its effect, and responds with the number of effects so far.
fn respond(stream: &TcpStream, effects: &Mutex<HashMap<u64, u64>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let number = match first.split_once("?n=") {
        Some((_, rest)) => rest.split(' ').next()?.parse().ok()?,
        None => serde_json::from_slice::<Value>(&body).ok()?["n"].as_u64()?,
    };
    let count = {
        let mut effects = effects.lock().unwrap();
        let count = effects.entry(number).or_default();
        *count += 1;
        *count
    };
    // The process is killed before, while and after the call has its effect.
    std::thread::sleep(Duration::from_micros(random_in(0..3_000) as u64));
    let response = json!({"n": number, "count": count}).to_string();
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{response}",
        response.len()
    )
    .ok()
}

/// The response to one attempt.
#[derive(Debug, Clone, PartialEq)]
enum Attempt {
    /// There was no response; the gateway was killed.
    Lost,
    Succeeded(Value),
    /// The gateway was killed while the first call ran.
    Interrupted,
    Unexpected(u16, String),
}

/// The attempts of each call, in order. The key of a call is its number, and even numbers are
/// mutations.
#[derive(Default)]
struct History(Mutex<HashMap<u64, Vec<Attempt>>>);

impl History {
    fn add(&self, number: u64, attempt: Attempt) {
        self.0.lock().unwrap().entry(number).or_default().push(attempt);
    }

    /// Returns the calls without a response, and some of those with one.
    fn numbers_to_repeat(&self) -> Vec<u64> {
        let history = self.0.lock().unwrap();
        let repeats = |(number, attempts): (&u64, &Vec<Attempt>)| {
            let is_lost = attempts.last() == Some(&Attempt::Lost);
            (is_lost || attempts.len() == 1 && number % 10 < 4).then_some(*number)
        };
        history.iter().filter_map(repeats).collect()
    }

    /// Checks every call against what the service has seen. Returns the number of calls and of
    /// interrupted ones.
    fn check(&self, bank: &Bank) -> (usize, usize) {
        let history = self.0.lock().unwrap();
        let mut interrupted = 0;
        for (number, attempts) in history.iter() {
            let effects = bank.effects(*number);
            let is_mutation = number % 2 == 0;
            let mut definite: Option<&Attempt> = None;
            for attempt in attempts.iter().filter(|attempt| **attempt != Attempt::Lost) {
                if let Attempt::Unexpected(status, body) = attempt {
                    panic!("call {number}: {status} {body}; {attempts:?}");
                }
                let first = *definite.get_or_insert(attempt);
                assert_eq!(first, attempt, "call {number} changed its outcome: {attempts:?}");
            }
            assert!(definite.is_some(), "call {number} has no outcome: {attempts:?}");
            if is_mutation {
                assert!(effects <= 1, "call {number} ran {effects} times: {attempts:?}");
            }
            match definite {
                Some(Attempt::Succeeded(_)) => assert!(effects >= 1, "call {number} did not run"),
                Some(Attempt::Interrupted) => {
                    assert!(is_mutation, "query {number} is interrupted: {attempts:?}");
                    interrupted += 1;
                }
                other => panic!("call {number}: {other:?}"),
            }
        }
        (history.len(), interrupted)
    }
}

fn call(address: &str, number: u64) -> Attempt {
    let (path, input) = match number % 2 {
        0 => ("/api/bank/transfer", json!({"body": {"n": number}})),
        _ => ("/api/bank/balance", json!({"n": number})),
    };
    let key = format!("idempotency-key: call-{number}");
    match post(address, path, &input, &[&key]) {
        None => Attempt::Lost,
        Some((200, body)) => Attempt::Succeeded(serde_json::from_str(&body).unwrap()),
        Some((status, body)) => {
            let problem: Value = serde_json::from_str(&body).unwrap_or_default();
            let error = &problem["error"];
            let is_interrupted = (status, &error["code"], &error["details"]["mayHaveRun"])
                == (500, &json!("INTERRUPTED"), &json!(true));
            match is_interrupted {
                true => Attempt::Interrupted,
                false => Attempt::Unexpected(status, body),
            }
        }
    }
}

#[test]
fn keyed_mutation_runs_once_across_sigkill() {
    let rounds: u64 =
        std::env::var("TOOLPOST_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let (bank, history) = (Bank::start(), History::default());
    let folder = TempFolder::new("durable-crash");
    folder.write("bank.json", &bank.document().to_string());
    for round in 0..rounds {
        let mode = MODES[usize::try_from(round).unwrap() % MODES.len()];
        let config = format!(
            "journal = \"{mode}\"\n[source.bank]\nopenapi = \"bank.json\"\naccess = \"open\"\n"
        );
        folder.write("toolpost.toml", &config);
        kill_under_load(&folder, round, &history);
        let report = offline(&folder, &["log", "verify", "--json"]);
        assert_eq!(report.status.code(), Some(0), "{}{}", stdout(&report), stderr(&report));
    }
    let mut gateway = Gateway::start(&folder);
    gateway.wait_for("bank.transfer");
    for number in history.numbers_to_repeat() {
        history.add(number, call(&gateway.address, number));
    }
    gateway.stop();
    let (calls, interrupted) = history.check(&bank);
    assert!(calls as u64 > rounds * CALLERS);
    eprintln!("{rounds} crashes: {calls} calls, {interrupted} interrupted");
}

/// Repeats the calls of earlier rounds and makes new ones, until the gateway is killed.
fn kill_under_load(folder: &TempFolder, round: u64, history: &History) {
    let mut gateway = Gateway::start(folder);
    gateway.wait_for("bank.transfer");
    let address = gateway.address.clone();
    let repeats = Mutex::new(history.numbers_to_repeat());
    let (is_over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (address, repeats, is_over, ended) = (&address, &repeats, &is_over, &ended);
            scope.spawn(move || {
                for n in 0.. {
                    let repeated = repeats.lock().unwrap().pop();
                    let number = repeated.unwrap_or((round * CALLERS + caller) * 1_000_000 + n);
                    let attempt = call(address, number);
                    let is_lost = attempt == Attempt::Lost;
                    history.add(number, attempt);
                    ended.fetch_add(1, Ordering::Relaxed);
                    if is_lost {
                        assert!(is_over.load(Ordering::Relaxed), "call {number} has no response");
                        return;
                    }
                }
            });
        }
        let enough = random_in(100..400) as u64;
        wait_until("calls end", || ended.load(Ordering::Relaxed) >= enough);
        is_over.store(true, Ordering::Relaxed);
        gateway.kill();
    });
}

/// The command line sends the key, and marks a replayed outcome in the envelope.
#[test]
fn call_with_idempotency_key_is_replayed() {
    let folder = TempFolder::new("durable-cli");
    let gateway = Gateway::start(&folder);
    let note = |key: &str| -> Value {
        let arguments = ["demo.note", "{\"text\": \"x\"}", "--idempotency-key", key];
        let output = gateway.toolpost(&["call"], &arguments);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    let (first, second, other) = (note("k"), note("k"), note("l"));
    assert_eq!((first.get("replayed"), &second["replayed"]), (None, &json!(true)));
    assert_eq!(first["data"], second["data"]);
    assert_ne!(first["data"], other["data"]);
    let local = folder.toolpost(&[
        "call",
        "demo.note",
        "{\"text\": \"x\"}",
        "--local",
        "--idempotency-key",
        "k",
    ]);
    assert_eq!(local.status.code(), Some(1));
    assert!(stderr(&local).contains("call through a gateway"), "{}", stderr(&local));
}
