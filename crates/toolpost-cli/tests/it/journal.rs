//! The journal of the real gateway: its contents, crash recovery and tamper detection.

mod endpoints;
pub(super) mod fixture;

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::wait_until;
use super::{TempFolder, json as parsed, stderr, stdout};
use fixture::Gateway;

/// Journal modes of the rounds.
const MODES: [&str; 2] = ["batch", "sync"];

/// Number of rounds after which the records are compared and a new data folder begins.
const ROUNDS_PER_FOLDER: u64 = 10;

/// Number of concurrent callers when the process is killed.
const CALLERS: u64 = 64;

/// The process is killed in every mode, while many callers wait for responses.
#[test]
fn acknowledged_calls_survive_sigkill() {
    let rounds =
        std::env::var("TOOLPOST_CRASH_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let mut totals = (0, 0);
    for first in (0..rounds).step_by(ROUNDS_PER_FOLDER as usize) {
        let (acknowledged, recorded) =
            kill_and_compare(first..rounds.min(first + ROUNDS_PER_FOLDER));
        totals = (totals.0 + acknowledged, totals.1 + recorded);
    }
    eprintln!("{rounds} crashes: {} acknowledged, {} recorded", totals.0, totals.1);
}

/// Kills the gateway of one data folder once per round. Returns the number of acknowledged calls and
/// of recorded ones.
fn kill_and_compare(rounds: Range<u64>) -> (usize, usize) {
    let folder = TempFolder::new("journal-crash");
    let acknowledged = Mutex::new(HashSet::new());
    let count = rounds.end - rounds.start;
    for round in rounds {
        let mode = MODES[usize::try_from(round).unwrap() % MODES.len()];
        // Segments are an eighth of this size, so that the crashes span several; nothing is removed.
        let config =
            format!("[journal]\nmode = \"{mode}\"\nretain_size = \"{}KiB\"\n", 768 * count);
        folder.write("toolpost.toml", &config);
        kill_under_load(&folder, round, &acknowledged);
        let report = fixture::offline(&folder, &["log", "verify", "--json"]);
        assert_eq!(report.status.code(), Some(0), "{}{}", stdout(&report), stderr(&report));
        assert_eq!(parsed(&report)["journals"].as_array().unwrap().len(), 1);
    }
    assert!(count < 3 || fixture::segments(&folder).len() > 1);
    let gateway = Gateway::start(&folder);
    let report = gateway.log(&["verify"]);
    assert_eq!(report.status.code(), Some(0), "{}{}", stdout(&report), stderr(&report));
    assert_eq!(parsed(&report)["journals"].as_array().unwrap().len(), 1);
    let exported = stdout(&gateway.log(&["export", "--op", "demo.add"]));
    let calls = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recorded: HashSet<u64> = calls
        .filter(|call| {
            call["output"]["data"]["sum"] == json!(call["input"]["a"].as_u64().unwrap() + 1)
        })
        .map(|call| call["input"]["a"].as_u64().unwrap())
        .collect();
    let acknowledged = acknowledged.into_inner().unwrap();
    let lost: Vec<_> = acknowledged.difference(&recorded).collect();
    assert!(lost.is_empty(), "{} of {} were lost", lost.len(), acknowledged.len());
    (acknowledged.len(), recorded.len())
}

/// Kills a gateway that is called concurrently. Adds the numbers of the calls with a response.
fn kill_under_load(folder: &TempFolder, round: u64, acknowledged: &Mutex<HashSet<u64>>) {
    let mut gateway = Gateway::start(folder);
    let address = gateway.address.clone();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (gateway, is_over) = (&address, &is_over);
            scope.spawn(move || {
                for n in 0.. {
                    let number = (round * CALLERS + caller) * 1_000_000 + n;
                    let body = json!({"a": number, "b": 1});
                    match fixture::post(gateway, "/api/demo/add", &body, &[]) {
                        Some((200, _)) => drop(acknowledged.lock().unwrap().insert(number)),
                        _ if is_over.load(Ordering::Relaxed) => return,
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        let enough = acknowledged.lock().unwrap().len() + fixture::random_in(200..400);
        while acknowledged.lock().unwrap().len() < enough {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
        gateway.kill();
    });
}

/// More calls than fit on one page, in two journals with the same sequence numbers.
#[test]
fn log_and_export_cover_every_chain_once() {
    const CALLS: u64 = 520;
    let folder = TempFolder::new("journal-export");
    let mut gateways = [0, 1].map(|_| Gateway::start(&folder));
    for (gateway, offset) in gateways.iter().zip([0, CALLS]) {
        for n in 0..CALLS {
            assert_eq!(gateway.post("/api/demo/add", &json!({"a": offset + n, "b": 1})).0, 200);
        }
    }
    gateways.iter().for_each(|gateway| gateway.wait_for_calls("demo.add", 50));
    let ids = gateways.each_ref().map(|gateway| gateway.health()["journal"]["gatewayId"].clone());
    let second = ids[1].as_str().unwrap().to_owned();
    let check = |ask: &dyn Fn(&[&str]) -> Output, state: &str| {
        let numbers = |arguments: &[&str]| -> Vec<u64> {
            let output = stdout(&ask(&[arguments, &["--op", "demo.add"]].concat()));
            let calls = output.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            calls.map(|call| call["input"]["a"].as_u64().unwrap()).collect()
        };
        let mut all = numbers(&["export"]);
        all.sort_unstable();
        assert_eq!(all, (0..2 * CALLS).collect::<Vec<_>>(), "{state}");
        assert_eq!(numbers(&["export", "--gateway", &second]).len() as u64, CALLS, "{state}");
        let newest: Vec<u64> = (2 * CALLS - 3..2 * CALLS).collect();
        assert_eq!(numbers(&["--limit", "3"]), newest, "{state}");
        assert_eq!(numbers(&["--limit", "3", "--gateway", &second]), newest, "{state}");
        assert_eq!(numbers(&["--limit", "600"]).len(), 600, "{state}");
        let unknown = stderr(&ask(&["--gateway", "unknown"]));
        assert!(unknown.contains("has no journal `unknown`"), "{state}: {unknown}");
    };
    check(&|arguments| gateways[0].log(arguments), "it runs");
    gateways.iter_mut().for_each(Gateway::stop);
    check(
        &|arguments| fixture::offline(&folder, &[&["log"], arguments].concat()),
        "it does not run",
    );
}

/// Verification without a journal fails, and an explicit `--url` never falls back to the files.
#[test]
fn verify_without_journal_fails() {
    let folder = TempFolder::new("journal-none");
    folder.write("toolpost.toml", "journal = \"off\"\n");
    let mut gateway = Gateway::start(&folder);
    let report = gateway.log(&["verify"]);
    assert_eq!((report.status.code(), &parsed(&report)["ok"]), (Some(1), &json!(false)));
    assert!(stderr(&report).contains("no journal in"), "{}", stderr(&report));
    let listed = gateway.log(&[]);
    assert_eq!(listed.status.code(), Some(0));
    assert!(stderr(&listed).contains("is off"), "{}", stderr(&listed));
    gateway.stop();
    let report = fixture::offline(&folder, &["log", "verify"]);
    assert_eq!(report.status.code(), Some(1));
    assert!(stderr(&report).contains("no journal in"), "{}", stderr(&report));
    for arguments in [&["log"][..], &["log", "verify"], &["log", "export"]] {
        let typed = folder.toolpost(&[arguments, &["--url", "ws://127.0.0.1:9"]].concat());
        assert_eq!(typed.status.code(), Some(3), "{arguments:?}: {}", stderr(&typed));
    }
}

/// `log` finds the records without the gateway's configuration, even if the local one is invalid.
#[test]
fn log_finds_records_in_configured_path() {
    let folder = TempFolder::new("journal-elsewhere");
    folder.write("toolpost.toml", "[journal]\npath = \"elsewhere\"\n");
    let mut gateway = Gateway::start(&folder);
    assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    gateway.stop();
    assert!(folder.path().join("elsewhere").is_dir());
    for config in ["", "this is [no configuration", "[journal]\npath = \"nowhere\"\n"] {
        folder.write("toolpost.toml", config);
        let calls = fixture::offline(&folder, &["log", "--op", "demo.add"]);
        assert_eq!(stdout(&calls).lines().count(), 1, "{config}: {}", stderr(&calls));
        assert_eq!(stderr(&calls).contains("warning"), config.contains("no conf"), "{config}");
        let report = fixture::offline(&folder, &["log", "verify"]);
        assert_eq!(report.status.code(), Some(0), "{config}: {}", stderr(&report));
    }
}

/// A call running when the process is killed has no exit record and is reported as interrupted.
#[test]
fn running_calls_are_interrupted_after_crash() {
    let folder = TempFolder::new("journal-lost");
    folder.write("toolpost.toml", "[approval]\noperations = [\"demo.note\"]\n");
    let mut gateway = Gateway::start(&folder);
    let address = gateway.address.clone();
    let waits = move || fixture::post(&address, "/api/demo/note", &json!({"text": "never"}), &[]);
    let caller = std::thread::spawn(waits);
    gateway.wait_for_enter("demo.note");
    let lost = |gateway: &Gateway| {
        let calls = stdout(&gateway.log(&["--op", "demo.note"]));
        serde_json::from_str::<Value>(&calls).unwrap().get("outcome").cloned()
    };
    assert_eq!(lost(&gateway), None);
    gateway.kill();
    assert_eq!(caller.join().unwrap(), None);
    assert_eq!(lost(&Gateway::start(&folder)), Some(json!("interrupted")));
}

/// A start reads only the end of the last segment, after a clean stop and after a crash.
#[cfg(target_os = "linux")]
#[test]
fn start_reads_only_end_of_last_segment() {
    const CALLS: u64 = 600;
    const TEXT_BYTES: usize = 9_000;
    let folder = TempFolder::new("journal-start");
    let mut gateway = Gateway::start(&folder);
    let before = gateway.bytes_read();
    let body = json!({"text": "x".repeat(TEXT_BYTES)});
    for _ in 0..CALLS {
        assert_eq!(gateway.post("/api/demo/note", &body).0, 200);
    }
    gateway.stop();
    let size = std::fs::metadata(fixture::segment(&folder)).unwrap().len();
    assert!(size > CALLS * TEXT_BYTES as u64, "{size}");
    for state in ["stopped", "crashed"] {
        let mut gateway = Gateway::start(&folder);
        let read = gateway.bytes_read().saturating_sub(before);
        assert!(read < size / 2, "{state}: {read} of {size} bytes");
        assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
        gateway.kill();
    }
    let report = fixture::offline(&folder, &["log", "verify"]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
}

/// A copy without the key verifies up to the last signature. Records after it are reported, forged or
/// not.
#[test]
fn copy_without_key_verifies_signed_records() {
    let folder = TempFolder::new("journal-copy");
    let mut gateway = Gateway::start(&folder);
    assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    gateway.stop();
    let verify = || {
        let output = fixture::offline(&folder, &["log", "verify", "--json"]);
        (output.status.code(), parsed(&output)["journals"][0].clone())
    };
    let (code, report) = verify();
    let expected = json!({"ok": true, "hasKey": true, "unsigned": 0, "closed": true});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!((code, &report[name]), (Some(0), value), "{name}: {report}");
    }
    let file = fixture::segment(&folder);
    let original = std::fs::read_to_string(&file).unwrap();
    let key = file.parent().unwrap().with_extension("key");
    let forged = fixture::forge_record(original.lines().last().unwrap());
    let gateway_id = report["gatewayId"].clone();
    // Each row: whether the key is there, the records, and the exit code, problem and unsigned records.
    for (has_key, text, expected) in [
        (true, format!("{original}{forged}\n"), (Some(1), json!("forged"), json!(0))),
        (false, original.clone(), (Some(0), Value::Null, json!(0))),
        (false, format!("{original}{forged}\n"), (Some(0), Value::Null, json!(1))),
        (false, original.replacen("\"a\":1", "\"a\":2", 1), (Some(1), json!("edited"), json!(0))),
    ] {
        if !has_key {
            let _ = std::fs::remove_file(&key);
        }
        std::fs::write(&file, &text).unwrap();
        let (code, report) = verify();
        let found = (code, report["problem"]["kind"].clone(), report["unsigned"].clone());
        assert_eq!(found, expected, "{report}");
        assert_eq!((&report["hasKey"], &report["gatewayId"]), (&json!(has_key), &gateway_id));
    }
}

/// The records of a version without authentication codes are not read.
#[test]
fn journal_of_earlier_version_is_reported_by_file() {
    let folder = TempFolder::new("journal-old");
    let mut gateway = Gateway::start(&folder);
    assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    let old_id = gateway.health()["journal"]["gatewayId"].clone();
    gateway.stop();
    let file = fixture::segment(&folder);
    let text = std::fs::read_to_string(&file).unwrap();
    let old_lines = text.lines().map(|line| format!("{}{}\n", &line[..65], &line[98..]));
    std::fs::write(&file, old_lines.collect::<String>()).unwrap();
    let output = fixture::offline(&folder, &["log", "verify"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    let place = format!("{}:1: format: ", file.display());
    assert!(message.contains(&place) && message.contains("another folder"), "{message}");
    // The gateway begins a new chain and does not report damage.
    let gateway = Gateway::start(&folder);
    let health = gateway.health()["journal"].clone();
    assert!(health["gatewayId"] != old_id && health.get("damaged").is_none(), "{health}");
}

#[test]
fn log_verify_locates_tampering() {
    type Tamper = fn(&mut Vec<String>);
    let rows: [(&str, Tamper, &str); 5] = [
        ("edit", |lines| lines[2] = lines[2].replace("\"time\":1", "\"time\":2"), ":3: edited"),
        ("delete", |lines| drop(lines.remove(2)), ":3: missing: record 3 is missing"),
        ("reorder", |lines| lines.swap(2, 3), ":3: order: record 3 comes after"),
        ("truncate", |lines| lines.truncate(4), "record 5: cut: the last record is 4"),
        ("nothing", |_| (), ""),
    ];
    let folder = TempFolder::new("journal-tamper");
    let mut gateway = Gateway::start(&folder);
    for a in 0..4 {
        assert_eq!(gateway.post("/api/demo/add", &json!({"a": a, "b": 1})).0, 200);
    }
    gateway.stop();
    let file = fixture::segment(&folder);
    let original = std::fs::read_to_string(&file).unwrap();
    for (name, tamper, message) in rows {
        let mut lines: Vec<String> = original.lines().map(String::from).collect();
        tamper(&mut lines);
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        let output = fixture::offline(&folder, &["log", "verify"]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(i32::from(!message.is_empty())), "{name}: {text}");
        assert!(text.contains(message), "{name}: {text}");
    }
    // An anchor stored elsewhere also detects the removal of the whole journal.
    let head = std::fs::read_dir(fixture::data(&folder).join("journal"))
        .unwrap()
        .map(|f| f.unwrap().path());
    let head = head.into_iter().find(|path| path.extension().is_some_and(|e| e == "head")).unwrap();
    std::fs::copy(&head, folder.path().join("anchor.json")).unwrap();
    let anchor = folder.path().join("anchor.json");
    let anchored = ["log", "verify", "--head", anchor.to_str().unwrap()];
    assert_eq!(fixture::offline(&folder, &anchored).status.code(), Some(0));
    std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
    let output = fixture::offline(&folder, &["log", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("record 1: cut"), "{}", stderr(&output));
    std::fs::remove_dir_all(fixture::data(&folder).join("journal")).unwrap();
    let output = fixture::offline(&folder, &anchored);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not in the data folder"), "{}", stderr(&output));
}

/// Each row: a file that is not a head, and the reason, in the terms of JSON.
#[test]
fn verify_with_invalid_head_describes_it() {
    let folder = TempFolder::new("journal-head");
    let gateway = Gateway::start(&folder);
    for (head, reason) in [
        ("5", "invalid type: integer `5`, expected an object"),
        ("[]", "invalid length 0, expected an object"),
        ("{}", "missing field"),
    ] {
        folder.write("head.json", head);
        let message = format!("invalid journal head: {reason}");
        let verify = ["log", "verify", "--head", "head.json"];
        let output = fixture::offline(&folder, &verify);
        assert_eq!(output.status.code(), Some(1), "{head}: {}", stdout(&output));
        assert!(stderr(&output).contains(&message), "{head}: {}", stderr(&output));
        let output = gateway.toolpost(&verify, &[]);
        assert!(stderr(&output).contains(&message), "{head}: {}", stderr(&output));
    }
}

#[test]
fn secrets_are_masked_and_masked_calls_not_replayed() {
    let folder = TempFolder::new("journal-mask");
    let secret = json!({"type": "object", "properties": {
        "name": {"type": "string"},
        "password": {"type": "string", "format": "password"},
        "pin": {"type": "integer", "writeOnly": true},
    }});
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Login", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {"/login": {"post": {
            "operationId": "login",
            "requestBody": {"required": true, "content": {"application/json": {"schema": secret}}},
            "responses": {"200": {"description": "in"}},
        }}},
    });
    folder.write("login.json", &document.to_string());
    let source = "[source.site]\nopenapi = \"login.json\"\naccess = \"open\"\n";
    folder.write(
        "toolpost.toml",
        &format!("{source}[journal]\nmode = \"sync\"\nbody_limit = \"2KiB\"\n"),
    );
    let mut gateway = Gateway::start(&folder);
    gateway.wait_for("site.login");
    let login = json!({"body": {"name": "ada", "password": "hunter2", "pin": 987_654}});
    assert_ne!(gateway.post("/api/site/login", &login).0, 200);
    // Secrets are also masked in calls through `hub.call` and in invalid input.
    let nested = json!({"id": "site.login", "input": login});
    assert_ne!(gateway.post("/api/hub/call", &nested).0, 200);
    assert_ne!(gateway.post("/api/hub/call", &json!({"id": "hub.call", "input": nested})).0, 200);
    // The input of an unknown operation is masked completely.
    assert_eq!(gateway.post("/api/gone/login", &login).0, 404);
    let unknown_call = json!({"id": "gone.login", "input": login});
    assert_ne!(gateway.post("/api/hub/call", &unknown_call).0, 200);
    let wrong = json!({"body": {"name": "ada", "password": "hunter2", "pin": "987654"}});
    assert_eq!(gateway.post("/api/site/login", &wrong).0, 422);
    let token = format!("tpt_{}", "A".repeat(43));
    assert_eq!(gateway.post("/api/demo/note", &json!({"text": token})).0, 200);
    assert_eq!(gateway.post("/api/demo/note", &json!({"text": "x".repeat(3_000)})).0, 200);

    for (op, message) in [("site.login", "secret"), ("demo.note", "too large")] {
        let calls = stdout(&gateway.log(&["--op", op, "--limit", "1"]));
        let call: Value = serde_json::from_str(&calls).unwrap();
        let output = gateway.replay(&[call["id"].as_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{op}");
        assert!(stderr(&output).contains(message), "{op}: {}", stderr(&output));
    }
    let calls = stdout(&gateway.log(&["--op", "site.login"]));
    assert!(calls.contains(r#""name":"ada","password":"***""#), "{calls}");
    gateway.stop();
    let text = std::fs::read_to_string(fixture::segment(&folder)).unwrap();
    for secret in ["hunter2", "987654", &token] {
        assert!(!text.contains(secret), "{secret} is in the journal");
    }
    assert!(text.contains("\"inputCut\":{\"sha256\":"), "{text}");
}

#[test]
fn replay_previews_and_compares_results() {
    let folder = TempFolder::new("journal-replay");
    let gateway = Gateway::start(&folder);
    let number = |op: &str| {
        let calls = stdout(&gateway.log(&["--op", op, "--limit", "1"]));
        serde_json::from_str::<Value>(&calls).unwrap()["seq"].to_string()
    };
    gateway.post("/api/demo/add", &json!({"a": 2, "b": 3}));
    gateway.post("/api/demo/note", &json!({"text": "once"}));
    gateway.wait_for_calls("demo.note", 1);
    let (add, note) = (number("demo.add"), number("demo.note"));
    let rows: [(&[&str], i32, &[(&str, Value)]); 4] = [
        (&[&add], 0, &[("/ran", json!(false)), ("/recorded/output/data/sum", json!(5))]),
        (&[&add, "--run"], 0, &[("/ran", json!(true)), ("/same", json!(true))]),
        (&[&note], 0, &[("/ran", json!(false))]),
        (
            &[&note, "--run"],
            1,
            &[
                ("/same", json!(false)),
                ("/differences/0/path", json!("/output/data/id")),
                ("/differences/0/then", json!(1)),
                ("/differences/0/now", json!(2)),
            ],
        ),
    ];
    for (arguments, code, expected) in rows {
        let output = gateway.replay(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        let response = parsed(&output);
        for (path, value) in expected {
            assert_eq!(response.pointer(path), Some(value), "{arguments:?}: {response}");
        }
    }
    let unknown = gateway.replay(&["unknown"]);
    assert!(stderr(&unknown).contains("the journal has no call `unknown`"), "{}", stderr(&unknown));
    // The replay is recorded as a call, and the replayed call is nested in it.
    gateway.wait_for_calls("demo.note", 2);
    let calls = stdout(&gateway.log(&["--limit", "200"]));
    let calls: Vec<Value> = calls.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |op: &str| calls.iter().rfind(|call| call["operation"] == op).unwrap();
    assert_eq!(of("demo.note")["parent"], of("hub.call")["id"]);
    assert_eq!(of("demo.note")["identity"], "operator");
    let parents: Vec<&Value> =
        calls.iter().filter(|call| call["operation"] == "gateway.replay").collect();
    assert!(parents.iter().any(|call| call["id"] == of("hub.call")["parent"]));
}

/// A replay of a call that requires approval honors the timeout and can be interrupted.
#[test]
fn replay_reports_problems_and_honors_timeout() {
    let folder = TempFolder::new("journal-replay-refused");
    folder.write("toolpost.toml", "[approval]\noperations = [\"demo.note\"]\n");
    let gateway = Gateway::start(&folder);
    gateway.post("/api/demo/add", &json!({"a": 2, "b": 3}));
    gateway.post("/api/demo/note?timeout=50ms", &json!({"text": "once"}));
    gateway.wait_for_calls("demo.note", 1);
    let number = |op: &str| {
        let calls = stdout(&gateway.log(&["--op", op, "--limit", "1"]));
        serde_json::from_str::<Value>(&calls).unwrap()["seq"].to_string()
    };
    let timed_out = gateway.replay(&[&number("demo.note"), "--run", "--timeout", "300ms"]);
    assert_eq!(parsed(&timed_out)["error"]["code"], "TIMEOUT", "{}", stderr(&timed_out));
    let unknown = gateway.replay(&["unknown"]);
    assert_eq!(parsed(&unknown)["error"]["code"], "VALIDATION_ERROR");

    // An interrupt cancels the call pending approval.
    let mut child = gateway.spawn(&["replay", &number("demo.note"), "--run"]);
    wait_until("a call is pending", || {
        stdout(&gateway.toolpost(&["approvals"], &[])).contains("demo.note")
    });
    child.signal("-INT");
    assert_eq!(child.exit_status().code(), Some(1));
    wait_until("no call is pending", || {
        !stdout(&gateway.toolpost(&["approvals"], &[])).contains("demo.note")
    });
}

#[test]
fn log_filters_apply_to_list_and_follow() {
    let folder = TempFolder::new("journal-since");
    let gateway = Gateway::start(&folder);
    for a in 0..3 {
        gateway.post("/api/demo/add", &json!({"a": a, "b": 1}));
    }
    gateway.wait_for_calls("demo.add", 3);
    for (typed, count) in [
        (&["--since", "1h"][..], 3),
        (&["--since", "2999-01-01T00:00:00Z"], 0),
        (&["--identity", "local"], 3),
        (&["--identity", "unknown"], 0),
        (&["--since", "1h", "--limit", "2"], 2),
    ] {
        let found = gateway.log(&[&["--op", "demo.add"], typed].concat());
        assert_eq!(stdout(&found).lines().count(), count, "{typed:?}: {}", stderr(&found));
    }
    let exported = gateway.toolpost(&["log", "export", "--op", "demo.add"], &[]);
    assert_eq!(stdout(&exported).lines().count(), 3, "{}", stderr(&exported));
    let wrong = gateway.log(&["--since", "2026-99-99"]);
    assert_eq!(parsed(&wrong)["error"]["code"], "VALIDATION_ERROR", "{}", stderr(&wrong));

    let mut following = gateway.follow(&["--op", "demo.*", "--since", "1h", "--limit", "2"]);
    let before = [following.next(), following.next()].map(|call| call["input"]["a"].clone());
    assert_eq!(before, [json!(1), json!(2)], "earlier calls first, then new calls");
    let next = following.next_after(|| {
        gateway.post("/api/demo/fail", &json!({}));
    });
    assert_eq!(next["operation"], "demo.fail", "no call is shown twice");
}

/// Without a gateway, reading the journal does not create the data folder.
#[test]
fn log_with_missing_data_folder_fails() {
    let folder = TempFolder::new("journal-typo");
    let output = fixture::offline(&folder, &["log"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("does not exist"), "{}", stderr(&output));
    assert!(!folder.path().join("data").exists());
}

/// Simulates a full disk with a file size limit.
#[cfg(target_os = "linux")]
#[test]
fn journal_write_failure_is_reported_in_every_mode() {
    for (mode, after, lost) in [("sync", 503, false), ("batch", 200, false)] {
        let folder = TempFolder::new(&format!("journal-full-{mode}"));
        folder.write("toolpost.toml", &format!("[journal]\nmode = \"{mode}\"\n"));
        let gateway = Gateway::start_with_file_limit(&folder, 64);
        let text = "x".repeat(8_000);
        let deadline = Instant::now() + Duration::from_secs(60);
        let journal = loop {
            gateway.post("/api/demo/note", &json!({"text": text}));
            let health = gateway.health();
            if health["journal"]["status"] == "failing" {
                break health["journal"].clone();
            }
            assert!(Instant::now() < deadline, "{health}");
        };
        assert!(journal["reason"].as_str().unwrap().contains("arge"), "{journal}");
        let (status, message) = gateway.post("/api/demo/note", &json!({"text": "more"}));
        assert_eq!(status, after, "{mode}: {message}");
        assert_eq!(journal["lost"] != json!(0), lost, "{mode}: {journal}");
        // The records already written still verify.
        let report = gateway.log(&["verify"]);
        if mode == "batch" {
            assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
        }
        drop(gateway);
        let report = fixture::offline(&folder, &["log", "verify"]);
        assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    }
}

/// Each row: the mode, what happens to the file, and the statuses of a call and of `/ready`.
#[test]
fn removed_or_truncated_journal_file_is_noticed() {
    let remove: fn(&Path) = |file| std::fs::remove_file(file).unwrap();
    let truncate: fn(&Path) =
        |file| std::fs::File::options().write(true).open(file).unwrap().set_len(10).unwrap();
    for (mode, change, reason, call, ready) in [
        ("sync", remove, "removed", 503, 503),
        ("sync", truncate, "truncated", 503, 503),
        ("batch", remove, "removed", 200, 200),
        ("batch", truncate, "truncated", 200, 200),
    ] {
        let folder = TempFolder::new(&format!("journal-{reason}-{mode}"));
        folder.write("toolpost.toml", &format!("[journal]\nmode = \"{mode}\"\n"));
        let gateway = Gateway::start(&folder);
        let add = || gateway.post("/api/demo/add", &json!({"a": 1, "b": 2}));
        assert_eq!(add().0, 200);
        wait_until("the gateway is ready", || gateway.get_with("/ready", &[]).0 == 200);
        change(&fixture::segment(&folder));
        wait_until("the journal fails", || {
            add();
            gateway.health()["journal"]["status"] == "failing"
        });
        let health = gateway.health();
        let message = health["journal"]["reason"].as_str().unwrap();
        assert!(message.contains(reason), "{health}");
        assert_eq!((add().0, gateway.get_with("/ready", &[]).0), (call, ready), "{mode} {reason}");
    }
}

#[test]
fn log_requires_scope_and_follow_streams_calls() {
    let folder = TempFolder::new("journal-follow");
    let gateway = Gateway::start(&folder);
    for op in ["journal", "verify", "replay"] {
        let (status, message) = gateway.post(&format!("/api/gateway/{op}"), &json!({"id": "1"}));
        assert_eq!(status, 403, "{op}: {message}");
    }
    let mut following = gateway.follow(&["--op", "demo.*", "--errors"]);
    let call = following.next_after(|| {
        gateway.post("/api/demo/add", &json!({"a": 1, "b": 1}));
        gateway.post("/api/demo/fail", &json!({}));
    });
    assert_eq!((&call["operation"], &call["code"]), (&json!("demo.fail"), &json!("DEMO_FAILURE")));
    assert_eq!(call["endpoint"], "http");
    let rejected = stdout(&gateway.log(&["--errors", "--op", "gateway.*"]));
    assert_eq!(rejected.lines().count(), 3, "{rejected}");
}
