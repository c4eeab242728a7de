//! `--url` and `--token`: commands against a running gateway.

use std::process::{Command, Stdio};

use serde_json::json;

use super::process::{OutputLines, Process, output_of, run};
use super::{TempFolder, command, json as parsed, stderr, stdout, toolpost};

/// A gateway process, killed on drop.
struct Gateway {
    child: Process,
    url: String,
}

impl Gateway {
    fn start(folder: &TempFolder) -> Self {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
        command.current_dir(folder.path()).env("TOOLPOST_LOG", "info,toolpost_gateway=debug");
        let (child, address, _) = Process::serve(command.stderr(Stdio::piped()));
        Self { child, url: format!("ws://{address}") }
    }

    fn toolpost(&self, arguments: &[&str]) -> std::process::Output {
        let mut all = arguments.to_vec();
        all.extend(["--url", &self.url]);
        toolpost(&all)
    }
}

/// Each row: the value of `TOOLPOST_URL`, the arguments, the exit code and whether a gateway
/// responds, which is detected by `hub.register`.
#[test]
fn url_variable_selects_gateway_unless_overridden() {
    let folder = TempFolder::new("remote-variable");
    folder.write("toolpost.toml", "");
    let gateway = Gateway::start(&folder);
    for (url, typed, code, is_gateway) in [
        (gateway.url.as_str(), &[][..], 0, true),
        ("", &[], 0, false),
        (&gateway.url, &["--config", "toolpost.toml"], 0, false),
        ("ws://127.0.0.1:9", &[], 3, false),
        ("ws://127.0.0.1:9", &["--url", &gateway.url], 0, true),
        ("", &["--token", "tpt_x"], 2, false),
    ] {
        let mut list = command(&[&["list"], typed].concat());
        let result = run(list.env("TOOLPOST_URL", url).current_dir(folder.path()));
        assert_eq!(result.status.code(), Some(code), "{url} {typed:?}: {}", stderr(&result));
        assert_eq!(stdout(&result).contains("hub.register"), is_gateway, "{url} {typed:?}");
    }
}

/// Each row: the options, the value of `TOOLPOST_TOKEN`, the exit code, and the expected message.
#[test]
fn operator_auth_failure_prints_hint() {
    let folder = TempFolder::new("remote-operator");
    let token = stdout(&folder.toolpost(&["token", "new", "ci"])).trim().to_owned();
    let gateway = Gateway::start(&folder);
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let data = folder.path().join("data");
    let missing = folder.path().join("typo");
    let [data, empty, missing] = [&data, &empty, &missing].map(|path| path.to_str().unwrap());
    let url = gateway.url.as_str();
    let check = |typed: &[&str], variable: &str, code: i32, message: &str| {
        for subcommand in ["sources", "approvals"] {
            let mut process = command(&[&[subcommand], typed].concat());
            let result = run(process.env("TOOLPOST_TOKEN", variable));
            let text = stderr(&result);
            assert_eq!(result.status.code(), Some(code), "{subcommand} {typed:?}: {text}");
            assert!(text.contains(message), "{subcommand} {typed:?}: {text}");
            assert!(!text.contains("tpt_"), "{text}");
        }
    };
    for (typed, variable, code, message) in [
        (&["--url", url][..], "", 1, "pass the operator's token with --token"),
        (&["--url", url], &*token, 1, "ACCESS_DENIED: `ci` "),
        (&["--url", url, "--token", &token], "", 1, "ACCESS_DENIED: `ci` "),
        (&["--url", url, "--data", data], "", 2, "cannot be used with"),
        (&["--data", data], "", 0, ""),
        (&["--data", data], &token, 1, "TOOLPOST_TOKEN was used"),
        (&["--data", data, "--token", &token], "", 1, "ACCESS_DENIED: `ci` "),
        (&["--data", empty], "", 3, "no gateway is running with the data folder"),
        (&["--data", missing], "", 2, "does not exist"),
    ] {
        check(typed, variable, code, message);
    }
    assert!(!folder.path().join("typo").exists(), "reading creates nothing");
    folder.write("data/operator.token", &format!("tpt_{}\n", "A".repeat(43)));
    check(&["--data", data], "", 1, "data/operator.token is not that of the running gateway");
}

/// Each row: the value of `TOOLPOST_TOKEN` and the exit code of a call to a gateway without
/// authentication.
#[test]
fn empty_token_variable_is_ignored() {
    let folder = TempFolder::new("remote-empty");
    let gateway = Gateway::start(&folder);
    for (token, code) in [("", 0), (" ", 0), ("tpt_other", 1)] {
        let mut call =
            command(&["call", "demo.add", "--a", "2", "--b", "3", "--url", &gateway.url]);
        let result = run(call.env("TOOLPOST_TOKEN", token));
        assert_eq!(result.status.code(), Some(code), "{token:?}: {}", stderr(&result));
    }
}

#[test]
fn commands_behave_the_same_with_url() {
    let folder = TempFolder::new("remote");
    let gateway = Gateway::start(&folder);
    let listed = parsed(&gateway.toolpost(&["list"]));
    let ids: Vec<&str> =
        listed.as_array().unwrap().iter().map(|listed| listed["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"demo.add") && ids.contains(&"hub.register"), "{ids:?}");
    let found = parsed(&gateway.toolpost(&["search", "two", "numbers"]));
    assert_eq!(found[0]["id"], "demo.add");
    let spec = parsed(&gateway.toolpost(&["schema", "demo.add"]));
    assert_eq!(spec["inputSchema"]["required"], json!(["a", "b"]));

    let sum = gateway.toolpost(&["call", "demo.add", "--a", "2", "--b", "3", "--output", "data"]);
    assert_eq!((stdout(&sum).trim(), sum.status.code()), (r#"{"sum":5}"#, Some(0)));
    let messy = parsed(&gateway.toolpost(&["call", "demo.messy"]));
    assert_eq!(messy["repairs"], parsed(&toolpost(&["call", "demo.messy"]))["repairs"]);
    let ticks = ["subscribe", "demo.clock", "--count", "3", "--every-ms", "1", "--output", "data"];
    assert_eq!(stdout(&gateway.toolpost(&ticks)).lines().count(), 3);

    let failed = gateway.toolpost(&["call", "demo.fail"]);
    assert_eq!(failed.status.code(), Some(1));
    assert_eq!(parsed(&failed)["error"]["code"], "DEMO_FAILURE");
    let unknown = gateway.toolpost(&["call", "demo.ad"]);
    assert!(stderr(&unknown).contains("did you mean `demo.add`?"), "{}", stderr(&unknown));
    let timed_out = gateway.toolpost(&["call", "demo.slow", "--ms", "60000", "--timeout", "50ms"]);
    assert_eq!(parsed(&timed_out)["error"]["code"], "TIMEOUT");
}

#[test]
fn sigint_cancels_call_at_gateway() {
    let folder = TempFolder::new("remote-interrupt");
    let mut gateway = Gateway::start(&folder);
    let mut log = OutputLines::of(gateway.child.stderr.take().unwrap());
    let child = command(&["call", "demo.slow", "--ms", "60000", "--url", &gateway.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(log.any(|line| line.contains("demo.slow started")));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = output_of(child);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ABORTED"), "{}", stderr(&output));
    assert!(log.any(|line| line.contains("demo.slow was canceled and stopped")));
}

#[test]
fn token_is_required_and_never_printed() {
    let folder = TempFolder::new("remote-token");
    let token = stdout(&folder.toolpost(&["token", "new", "ci"])).trim().to_owned();
    let gateway = Gateway::start(&folder);
    let call = ["call", "demo.add", "--a", "1", "--b", "1", "--output", "data"];
    let with = |token: &str| {
        let mut all = call.to_vec();
        all.extend(["--token", token]);
        gateway.toolpost(&all)
    };
    assert_eq!(stdout(&with(&token)).trim(), r#"{"sum":2}"#);
    let by_variable = command(&call)
        .args(["--url", &gateway.url])
        .env("TOOLPOST_TOKEN", &token)
        .output()
        .unwrap();
    assert_eq!(stdout(&by_variable).trim(), r#"{"sum":2}"#);
    let wrong = "tpt_0000000000000000000000000000000000000000000";
    for (rejection, message) in [
        (with(wrong), "the gateway rejected the token: invalid token"),
        (gateway.toolpost(&call), "the gateway requires a token"),
    ] {
        assert_eq!(rejection.status.code(), Some(1), "{}", stderr(&rejection));
        assert!(
            stderr(&rejection).contains(&format!("ACCESS_DENIED: {message}")),
            "{}",
            stderr(&rejection)
        );
        let remedy =
            "pass a token with --token or TOOLPOST_TOKEN; `toolpost token new` creates one";
        assert!(stderr(&rejection).contains(remedy), "{}", stderr(&rejection));
        assert!(!stderr(&rejection).contains("tpt_"), "{}", stderr(&rejection));
    }
}

#[test]
fn unreachable_gateway_exits_with_code_3() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for command in [&["list"][..], &["call", "demo.add"], &["subscribe", "demo.clock"]] {
        let mut all = command.to_vec();
        let url = format!("ws://{free}");
        all.extend(["--url", &url]);
        let output = toolpost(&all);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("is `toolpost serve` running there?"));
        let message = crate::json(&output)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("is `toolpost serve` running there?"), "{message}");
    }
    for (url, text) in [("127.0.0.1:7411", "ws://127.0.0.1:7411"), ("ftp://x", "use ws://")] {
        let output = toolpost(&["list", "--url", url]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
}
