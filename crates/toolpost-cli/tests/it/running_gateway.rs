//! Commands that find the running gateway by the Unix socket in its data folder.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::journal::fixture::{self, Gateway};
use super::process::run;
use super::terminal::Terminal;
use super::{TempFolder, command, json as parsed, stderr, stdout};

const ADD: [&str; 5] = ["call", "demo.add", "--a", "2", "--b"];

/// Calls `demo.add` with `b` and more arguments.
fn add(gateway: &Gateway, b: &str, options: &[&str]) -> Output {
    run(&mut gateway.command(&[&ADD[..], &[b], options].concat()))
}

/// Returns `b` and the identity of the recorded calls of `demo.add`.
fn recorded(gateway: &Gateway) -> Vec<(Value, Value)> {
    let calls = stdout(&gateway.log(&["--op", "demo.add"]));
    let calls = calls.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    calls.map(|call| (call["input"]["b"].clone(), call["identity"].clone())).collect()
}

/// Each row: options of the call, the folder of the command, and whether the gateway is used.
#[test]
fn call_uses_running_gateway_with_same_configuration() {
    let folder = TempFolder::new("running-same");
    folder.write("toolpost.toml", "# same\n");
    folder.write("other.toml", "");
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
    let gateway = Gateway::start(&folder);
    let data = fixture::data(&folder);
    let data = data.to_str().unwrap();
    let empty = folder.path().join("elsewhere");
    let mut expected = Vec::new();
    let rows: [(&[&str], &str, bool); 9] = [
        (&[], "", true),
        (&["--local"], "", false),
        (&["--config", "other.toml"], "", false),
        (&["--config", "toolpost.toml"], "", true),
        (&["--config", "../toolpost.toml"], "elsewhere", true),
        (&[], "link", true),
        (&[], "elsewhere", false),
        (&["--data", data], "", true),
        (&["--data", empty.to_str().unwrap()], "", false),
    ];
    for (b, (options, place, uses_gateway)) in rows.into_iter().enumerate() {
        let b = b.to_string();
        let mut call = gateway.command(&[&ADD[..], &[&b], options].concat());
        let output = run(call.current_dir(folder.path().join(place)));
        assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "nothing is said without a terminal");
        if uses_gateway {
            expected.push((json!(b.parse::<u64>().unwrap()), json!("local")));
        }
    }
    gateway.wait_for_calls("demo.add", expected.len());
    assert_eq!(recorded(&gateway), expected);
    for arguments in [&["list"][..], &["search", "register"], &["schema", "hub.register"]] {
        let output = run(&mut gateway.command(arguments));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        // Only a gateway has this operation.
        let found = stdout(&output).contains("Registers the operations of the calling connection");
        assert!(found, "{arguments:?}: {}", stdout(&output));
    }
    let ticks = ["subscribe", "demo.clock", "--count", "2", "--every-ms", "1"];
    assert_eq!(stdout(&run(&mut gateway.command(&ticks))).lines().count(), 2);
    gateway.wait_for_calls("demo.clock", 1);
}

/// A command that uses the gateway is itself a recorded call. Each row: the folder of the command,
/// and the number of these calls after it.
#[test]
fn log_uses_running_gateway_with_same_configuration() {
    let folder = TempFolder::new("running-log");
    folder.write("toolpost.toml", "# same\n");
    std::fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let gateway = Gateway::start(&folder);
    assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    for (place, recorded) in [("elsewhere", 0), ("", 1), ("elsewhere", 1), ("", 2)] {
        let mut log = gateway.command(&["log", "--op", "demo.add"]);
        let output = run(log.current_dir(folder.path().join(place)));
        assert!(stdout(&output).contains("demo.add"), "{place}: {}", stderr(&output));
        let own = fixture::offline(&folder, &["log", "--op", "gateway.journal"]);
        assert_eq!(stdout(&own).lines().count(), recorded, "{place}: {}", stdout(&own));
    }
}

/// Each row: the arguments of `call`, and the number of recorded calls of `hub.schema` after it.
#[test]
fn call_requests_schema_only_for_key_value_pairs() {
    let folder = TempFolder::new("running-schema");
    folder.write("toolpost.toml", "# same\n");
    let gateway = Gateway::start(&folder);
    for (arguments, recorded) in [
        (&["demo.add", r#"{"a": 2, "b": 3}"#][..], 0),
        (&["demo.clock"], 0),
        (&["demo.add", r#"{"a": 2}"#, "--b", "3"], 1),
    ] {
        let output = run(&mut gateway.command(&[&["call"], arguments].concat()));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        let found = fixture::offline(&folder, &["log", "--op", "hub.schema"]);
        assert_eq!(stdout(&found).lines().count(), recorded, "{arguments:?}: {}", stdout(&found));
    }
}

/// As in the library, a call of a subscription returns its first value.
#[test]
fn call_of_subscription_prints_first_value() {
    let folder = TempFolder::new("running-first");
    folder.write("toolpost.toml", "# same\n");
    let gateway = Gateway::start(&folder);
    for arguments in [&[][..], &["--every-ms", "1"], &["--local"], &["--every-ms", "1", "--local"]]
    {
        let call = [&["call", "demo.clock", "--output", "data"], arguments].concat();
        let output = run(&mut gateway.command(&call));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert_eq!(parsed(&output)["tick"], 1, "{arguments:?}: {}", stdout(&output));
    }
}

#[test]
fn socket_caller_is_operator_where_tokens_are_required() {
    let folder = TempFolder::new("running-tokens");
    let token = stdout(&folder.toolpost(&["token", "new", "ci"])).trim().to_owned();
    let gateway = Gateway::start(&folder);
    assert_eq!(add(&gateway, "1", &[]).status.code(), Some(0));
    assert_eq!(add(&gateway, "2", &["--token", &token]).status.code(), Some(0));
    let by_variable =
        run(gateway.command(&[&ADD[..], &["3"]].concat()).env("TOOLPOST_TOKEN", &token));
    assert_eq!(by_variable.status.code(), Some(0), "{}", stderr(&by_variable));
    let rejected = add(&gateway, "4", &["--token", "tpt_unknown"]);
    assert_eq!(rejected.status.code(), Some(1), "{}", stderr(&rejected));
    gateway.wait_for_calls("demo.add", 3);
    let expected = [(1, "operator"), (2, "ci"), (3, "ci")];
    assert_eq!(recorded(&gateway), expected.map(|(b, identity)| (json!(b), json!(identity))));
    // Over TCP, a token is required.
    let output = add(&gateway, "5", &["--url", &gateway.url()]);
    assert!(stderr(&output).contains("the gateway requires a token"), "{}", stderr(&output));
}

#[test]
fn socket_is_private_and_replaced_after_crash() {
    let folder = TempFolder::new("running-socket");
    let socket = fixture::data(&folder).join("gateway.sock");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut gateway = Gateway::start(&folder);
    assert_eq!((mode(&socket), mode(&fixture::data(&folder))), (0o600, 0o700));
    // A second gateway with the same folder leaves the socket to the first.
    let mut second = Gateway::start(&folder);
    assert_eq!(add(&gateway, "1", &[]).status.code(), Some(0));
    second.stop();
    assert_eq!(add(&gateway, "2", &[]).status.code(), Some(0));
    gateway.wait_for_calls("demo.add", 2);
    gateway.kill();
    assert!(socket.exists(), "a killed process leaves its socket");
    let here = add(&gateway, "3", &[]);
    assert_eq!(here.status.code(), Some(0), "{}", stderr(&here));
    let unreachable = gateway.toolpost(&["approvals"], &[]);
    assert_eq!(unreachable.status.code(), Some(3), "{}", stderr(&unreachable));
    assert!(stderr(&unreachable).contains("no gateway is running"), "{}", stderr(&unreachable));
    let mut gateway = Gateway::start(&folder);
    assert_eq!(add(&gateway, "4", &[]).status.code(), Some(0));
    gateway.wait_for_calls("demo.add", 3);
    let b: Vec<Value> = recorded(&gateway).into_iter().map(|(b, _)| b).collect();
    assert_eq!(b, [1, 2, 4]);
    gateway.stop();
    assert!(!socket.exists());
}

/// `TOOLPOST_URL` names the running gateway, which would verify its own journal.
#[test]
fn journal_commands_with_data_read_only_that_folder() {
    let folder = TempFolder::new("running-copy");
    let gateway = Gateway::start(&folder);
    assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    gateway.wait_for_calls("demo.add", 1);
    let copy = folder.path().join("copy");
    let copied = std::process::Command::new("cp")
        .args(["-r", fixture::data(&folder).to_str().unwrap(), copy.to_str().unwrap()])
        .status();
    assert!(copied.unwrap().success());
    let with_data = |arguments: &[&str], data: &Path| {
        let mut command =
            gateway.command(&[arguments, &["--data", data.to_str().unwrap()]].concat());
        run(command.env("TOOLPOST_URL", gateway.url()))
    };
    let intact = with_data(&["log", "verify"], &copy);
    assert_eq!(intact.status.code(), Some(0), "{}", stderr(&intact));
    let segment = fixture::segments_in(&copy).remove(0);
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("\"a\":1", "\"a\":7", 1)).unwrap();
    let tampered = with_data(&["log", "verify"], &copy);
    assert_eq!(tampered.status.code(), Some(1), "{}", stdout(&tampered));
    assert!(stderr(&tampered).contains("edited"), "{}", stderr(&tampered));
    for arguments in [&["log", "--op", "demo.add"][..], &["log", "export", "--op", "demo.add"]] {
        assert!(stdout(&with_data(arguments, &copy)).contains("\"a\":7"), "{arguments:?}");
    }
    assert_eq!(gateway.log(&["verify"]).status.code(), Some(0));
    let followed = with_data(&["log", "--follow"], &copy);
    assert_eq!(followed.status.code(), Some(2), "{}", stderr(&followed));

    // A folder without a journal is an error, not an empty journal.
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for arguments in [&["log"][..], &["log", "export"], &["log", "show", "1"], &["log", "verify"]] {
        let output = with_data(arguments, &empty);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stdout(&output));
        let message = format!("no journal in {}", empty.display());
        assert!(stderr(&output).contains(&message), "{arguments:?}: {}", stderr(&output));
    }
}

/// The files do not contain the operations of the sources, so that only a gateway can repeat a call.
#[test]
fn replay_with_data_names_unavailable_operation() {
    let folder = TempFolder::new("running-replay");
    let operation = json!({"operationId": "ping", "responses": {"200": {"description": "pong"}}});
    let document = json!({"openapi": "3.1.0", "info": {"title": "Echo", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}], "paths": {"/ping": {"post": operation}}});
    folder.write("echo.json", &document.to_string());
    folder.write("toolpost.toml", "[source.echo]\nopenapi = \"echo.json\"\naccess = \"open\"\n");
    let gateway = Gateway::start(&folder);
    gateway.wait_for("echo.ping");
    assert_eq!(gateway.post("/api/echo/ping", &json!({})).0, 503);
    gateway.wait_for_calls("echo.ping", 1);
    let call: Value = serde_json::from_str(&stdout(&gateway.log(&["--op", "echo.ping"]))).unwrap();
    let id = call["callId"].as_str().unwrap();
    assert_eq!(parsed(&gateway.replay(&[id])).get("problems"), None, "the gateway has it");
    let data = fixture::data(&folder);
    let replayed = gateway.replay(&[id, "--data", data.to_str().unwrap()]);
    assert_eq!(replayed.status.code(), Some(1), "{}", stderr(&replayed));
    let message =
        "operation echo.ping is not available here; replay the call at a gateway that has it";
    assert_eq!(parsed(&replayed)["problems"], json!([message]), "{}", stdout(&replayed));
}

/// Both gateways record to the same folder, so the first record of each has the same number.
#[test]
fn ambiguous_call_id_lists_candidates() {
    let folder = TempFolder::new("running-ids");
    let gateways = [0, 1].map(|_| Gateway::start(&folder));
    for gateway in &gateways {
        assert_eq!(gateway.post("/api/demo/add", &json!({"a": 1, "b": 1})).0, 200);
    }
    for n in 0..2 {
        let header = ["x-request-id: repeated"];
        let sent =
            gateways[0].post_with("/api/demo/note", &json!({"text": n.to_string()}), &header);
        assert_eq!(sent.0, 200);
    }
    let gateway = &gateways[0];
    super::process::wait_until("both calls are recorded", || {
        stdout(&gateway.log(&["--op", "demo.add"])).matches("\"endSeq\"").count() == 2
    });
    gateway.wait_for_calls("demo.note", 2);
    let calls = stdout(&gateway.log(&["--op", "demo.add"]));
    let ids: Vec<String> = calls
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["callId"].as_str().unwrap().into())
        .collect();
    let (chain, seq) = ids[0].split_once(':').unwrap();
    assert_eq!((chain.len(), seq), (16, "1"), "{ids:?}");
    for ask in [&["log", "show"][..], &["replay"]] {
        let ambiguous = gateway.toolpost(ask, &["1"]);
        assert_eq!(ambiguous.status.code(), Some(1), "{ask:?}");
        let text = stderr(&ambiguous);
        assert!(text.contains("several calls have the id `1`"), "{ask:?}: {text}");
        assert!(ids.iter().all(|id| text.contains(id.as_str())), "{ask:?}: {text}");
        let repeated = gateway.toolpost(ask, &["repeated"]);
        assert_eq!(repeated.status.code(), Some(1), "{ask:?}: {}", stdout(&repeated));
        assert_eq!(stderr(&repeated).matches("demo.note").count(), 2, "{}", stderr(&repeated));
        let unknown = gateway.toolpost(ask, &[&format!("{chain}:999")]);
        assert!(stderr(&unknown).contains("the journal has no call"), "{}", stderr(&unknown));
        for id in [&*ids[0], &ids[0][..10], &format!("{}:1", &chain[..8])] {
            let found = gateway.toolpost(ask, &[id]);
            let is_prefix = !id.contains(':');
            assert_eq!(found.status.code(), Some(i32::from(is_prefix)), "{id}: {}", stderr(&found));
        }
    }
    let shown = parsed(&gateway.toolpost(&["log", "show"], &[&ids[1]]));
    assert_eq!((&shown["callId"], &shown["output"]["data"]), (&json!(ids[1]), &json!({"sum": 2})));
}

/// Commands at a terminal say that they use the gateway, and print ids that `log show` accepts.
#[test]
fn terminal_shows_use_of_gateway_and_short_ids() {
    let folder = TempFolder::new("running-terminal");
    let gateway = Gateway::start(&folder);
    let mut terminal = Terminal::open(&folder);
    let used = "Using the running gateway.";
    let data = terminal.run("toolpost call demo.add --a 2 --b 3 --output data");
    assert!(data.starts_with(used) && data.contains("\"sum\": 5"), "{data}");
    let local = terminal.run("toolpost call demo.add --a 2 --b 3 --local --output data");
    assert!(!local.contains(used) && local.contains("\"sum\": 5"), "{local}");
    assert!(terminal.run("toolpost approvals").starts_with(used));
    gateway.wait_for_calls("demo.add", 1);
    let table = terminal.run("toolpost log --op demo.add");
    let mut lines = table.lines();
    assert_eq!(lines.next(), Some(used));
    assert_eq!(lines.next().unwrap().split_whitespace().next(), Some("ID"), "{table}");
    let id = lines.next().unwrap().split_whitespace().next().unwrap().to_owned();
    let shown = terminal.run(&format!("toolpost log show {id}"));
    assert!(shown.contains("\"operation\": \"demo.add\""), "{shown}");
}

/// The tool of another `toolpost mcp` fails: its error is text in a tool result.
#[test]
fn log_shows_message_of_failed_tool() {
    let folder = TempFolder::new("running-tool-error");
    let exe = env!("CARGO_BIN_EXE_toolpost");
    let arguments = r#"args = ["mcp", "--config", "none.toml"]"#;
    let config =
        format!("[source.inner]\naccess = \"open\"\nmcp = {{ command = {exe:?}, {arguments} }}\n");
    folder.write("toolpost.toml", &config);
    folder.write("none.toml", "[journal]\nmode = \"off\"\n");
    let gateway = Gateway::start(&folder);
    gateway.wait_for("inner.demo__fail");
    let failed = run(&mut gateway.command(&["call", "inner.demo__fail"]));
    assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
    gateway.wait_for_calls("inner.demo__fail", 1);
    let call: Value =
        serde_json::from_str(&stdout(&gateway.log(&["--op", "inner.demo__fail"]))).unwrap();
    assert_eq!(call["outcome"], "error", "{call}");
    let message = call["message"].as_str().unwrap_or_else(|| panic!("{call}")).to_owned();
    assert!(message.contains("this operation always fails"), "{call}");
    let mut table = gateway.command(&["log", "--op", "inner.demo__fail", "--output", "table"]);
    let table = stdout(&run(&mut table));
    assert!(table.contains("error: ") && table.contains("always fails"), "{table}");
    let replayed = gateway.replay(&[call["callId"].as_str().unwrap(), "--run"]);
    assert_eq!(parsed(&replayed)["same"], true, "{}", stdout(&replayed));
}

/// Each row: options of `log` and the number of calls. The times are those of the recorded calls.
#[test]
fn log_until_excludes_later_calls() {
    let folder = TempFolder::new("running-until");
    let gateway = Gateway::start(&folder);
    for a in 0..3 {
        assert_eq!(gateway.post("/api/demo/add", &json!({"a": a, "b": 1})).0, 200);
        gateway.wait_for_calls("demo.add", a + 1);
    }
    let calls = stdout(&gateway.log(&["--op", "demo.add"]));
    let last: Value = serde_json::from_str(calls.lines().last().unwrap()).unwrap();
    let time = toolpost::timestamp(last["time"].as_i64().unwrap());
    for (typed, count) in [
        (&["--until", &*time][..], 2),
        (&["--since", &time], 1),
        (&["--since", &time, "--until", &time], 0),
        (&["--until", "2999-01-01"], 3),
        (&["--until", "1h"], 0),
    ] {
        for verb in [&[][..], &["export"]] {
            let found = gateway.log(&[verb, &["--op", "demo.add"], typed].concat());
            assert_eq!(stdout(&found).lines().count(), count, "{typed:?}: {}", stderr(&found));
        }
    }
}

/// `--output` and `--`, before and after the operation.
#[test]
fn output_format_selects_what_is_printed() {
    let rows: [(&[&str], &str); 6] = [
        (&["call", "demo.add", "--a", "2", "--b", "3", "--output", "data"], "{\"sum\":5}"),
        (&["--output", "data", "call", "demo.add", "--a", "2", "--b", "3"], "{\"sum\":5}"),
        (&["call", "demo.add", "--a", "2", "--b", "3", "--output=table"], " NAME  VALUE\n sum   5"),
        (
            &["call", "demo.add", "--a", "2", "--b", "3", "--output", "json"],
            "{\"data\":{\"sum\":5},",
        ),
        (
            &["call", "demo.add", "--a", "2", "--b", "3", "--output", "envelope"],
            "{\"data\":{\"sum\":5},",
        ),
        (&["search", "two", "numbers", "--output", "table"], " OPERATION"),
    ];
    for (arguments, expected) in rows {
        let output = super::toolpost(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).starts_with(expected), "{arguments:?}: {}", stdout(&output));
    }
    let note = [
        "call",
        "demo.note",
        "--output",
        "data",
        "--",
        "--text",
        "x",
        "--output",
        "y",
        "--data",
        "z",
    ];
    let output = super::toolpost(&note);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let warning = "demo.note has no input `output`, `data`";
    assert_eq!(stderr(&output).matches("warning").count(), 1, "{}", stderr(&output));
    assert!(stderr(&output).contains(warning), "{}", stderr(&output));
    let bare = command(&["call", "demo.note", "--text", "x", "--data"]).output().unwrap();
    assert_eq!(bare.status.code(), Some(2));
    assert!(stderr(&bare).contains("`--output data` prints only the data"), "{}", stderr(&bare));
}

/// A timeout of zero is not a deadline.
#[test]
fn zero_timeout_is_a_usage_error() {
    for arguments in [
        &["call", "demo.add", "--timeout", "0s"][..],
        &["call", "--timeout", "0ms", "demo.add"],
        &["subscribe", "demo.clock", "--timeout=0"],
        &["replay", "1", "--timeout", "0s"],
    ] {
        let output = super::toolpost(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stdout(&output));
        let message = "timeout must be greater than zero";
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
    }
}
