//! `approvals`, `approve` and `reject` against a gateway in its own process.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use super::process::{OutputLines, Process, TIMEOUT, output_of, wait_for, wait_until};
use super::{TempFolder, command, json, stderr, stdout, toolpost};

/// A gateway that requires approval for `demo.note`; killed on drop.
struct Gateway {
    process: Process,
    log: OutputLines,
    url: String,
    data: PathBuf,
}

impl Gateway {
    fn start(folder: &TempFolder) -> Self {
        Self::start_with(folder, &[])
    }

    fn start_with(folder: &TempFolder, options: &[&str]) -> Self {
        let file = folder.path().join("toolpost.toml");
        std::fs::write(&file, "[approval]\noperations = [\"demo.note\"]\n").unwrap();
        let data = folder.path().join("data");
        let listen = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let mut command = command(&listen);
        command.args(options).current_dir(folder.path());
        let (mut process, address, _) = Process::serve(command.stderr(Stdio::piped()));
        let log = OutputLines::of(process.stderr.take().unwrap());
        Self { process, log, url: format!("ws://{address}"), data }
    }

    /// Runs a command as the operator.
    fn run_as_operator(&self, message: &[&str]) -> Output {
        let data = self.data.to_str().unwrap();
        toolpost(&[message, &["--data", data]].concat())
    }

    /// Starts a call that requires approval.
    fn call(&self, token: Option<&str>) -> Child {
        let mut call = command(&["call", "demo.note", "--text", "hello", "--url", &self.url]);
        if let Some(token) = token {
            call.env("TOOLPOST_TOKEN", token);
        }
        call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the pending call and returns it.
    fn wait_for_pending(&self) -> Value {
        wait_for("a call is pending", || {
            let listed = json(&self.run_as_operator(&["approvals"]));
            match &listed.as_array().unwrap()[..] {
                [one] => Some(one.clone()),
                _ => None,
            }
        })
    }
}

#[test]
fn call_is_pending_until_operator_decides() {
    let folder = TempFolder::new("approval");
    let gateway = Gateway::start(&folder);
    assert_eq!(stdout(&gateway.run_as_operator(&["approvals"])).trim(), "[]");

    let call = gateway.call(None);
    let waiting = gateway.wait_for_pending();
    assert_eq!((&waiting["operation"], &waiting["caller"]), (&"demo.note".into(), &"local".into()));
    assert_eq!(waiting["input"]["text"], "hello");
    let id = waiting["id"].as_str().unwrap();
    let approved = gateway.run_as_operator(&["approve", id]);
    assert_eq!(json(&approved)["status"], "approved");
    let response = output_of(call);
    assert_eq!(response.status.code(), Some(0), "{}", stderr(&response));
    assert_eq!(json(&response)["data"]["text"], "hello");
    let again = gateway.run_as_operator(&["approve", id]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("approved by `operator`"), "{}", stderr(&again));

    // The journal records the approver.
    let recorded = wait_for("the call is recorded", || {
        // Reads the files.
        let listed = gateway.run_as_operator(&["log", "--op", "demo.note"]);
        serde_json::from_str::<Value>(&stdout(&listed)).ok()?.get("approval").cloned()
    });
    assert_eq!(recorded, serde_json::json!({"id": id, "by": "operator"}));

    let call = gateway.call(None);
    let id = gateway.wait_for_pending()["id"].as_str().unwrap().to_owned();
    let rejected = gateway.run_as_operator(&["reject", &id, "--reason", "not today"]);
    assert_eq!(json(&rejected)["status"], "rejected");
    let response = output_of(call);
    assert_eq!(response.status.code(), Some(1));
    let message = stderr(&response);
    assert!(message.contains("ACCESS_DENIED") && message.contains("not today"), "{message}");
}

#[test]
fn approve_requires_token_and_other_identity() {
    let folder = TempFolder::new("approval-own");
    let gateway = Gateway::start(&folder);
    let token = std::fs::read_to_string(gateway.data.join("operator.token")).unwrap();
    let mut call = gateway.call(Some(token.trim()));
    let id = gateway.wait_for_pending()["id"].as_str().unwrap().to_owned();
    let own = gateway.run_as_operator(&["approve", &id]);
    assert_eq!(own.status.code(), Some(1));
    assert!(stderr(&own).contains("callers cannot approve their own calls"), "{}", stderr(&own));
    // Without the operator's token the caller is `local`, which may call but not approve.
    let local = toolpost(&["approve", &id, "--url", &gateway.url]);
    assert_eq!(local.status.code(), Some(1));
    assert!(
        stderr(&local).contains("`local` lacks the scope `toolpost:approve`"),
        "{}",
        stderr(&local)
    );
    call.kill().unwrap();
    call.wait().unwrap();
}

/// Calls pending approval fail at once when the gateway stops, and do not delay the drain.
#[test]
fn pending_calls_fail_when_gateway_stops() {
    let folder = TempFolder::new("approval-stop");
    let mut gateway = Gateway::start_with(&folder, &["--drain", "60s"]);
    let over_hub = gateway.call(None);
    gateway.wait_for_pending();
    let mut over_http = TcpStream::connect(gateway.url.trim_start_matches("ws://")).unwrap();
    let body = r#"{"text":"hello"}"#;
    write!(
        over_http,
        "POST /api/demo/note HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    over_http.set_read_timeout(Some(TIMEOUT)).unwrap();
    wait_until("two calls are pending", || {
        json(&gateway.run_as_operator(&["approvals"])).as_array().unwrap().len() == 2
    });
    gateway.process.signal("-TERM");
    let mut response = String::new();
    over_http.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    for message in ["UNAVAILABLE", "the gateway is stopping", "\"retryable\":true"] {
        assert!(response.contains(message), "{response}");
    }
    let response = output_of(over_hub);
    assert!(stderr(&response).contains("the gateway is stopping"), "{}", stderr(&response));
    assert_eq!(gateway.process.exit_status().code(), Some(0));
    let log = gateway.log.by_ref().collect::<Vec<_>>().join("\n");
    assert!(log.contains("drained") && !log.contains("has been cut"), "{log}");
}

/// A local command has no approver: it rejects the call and names the alternative.
#[test]
fn local_command_rejects_calls_requiring_approval() {
    let folder = TempFolder::new("approval-alone");
    let exe = env!("CARGO_BIN_EXE_toolpost");
    let config = format!(
        "[source.inner]\nmcp = {{ command = {exe:?}, args = [\"mcp\", \"--config\", \"none.toml\"] }}\n\
         approval = [\"demo__note\"]\n"
    );
    std::fs::write(folder.path().join("toolpost.toml"), config).unwrap();
    std::fs::write(folder.path().join("none.toml"), "").unwrap();
    let call = |message: &[&str]| folder.toolpost(message);
    let waits = call(&["call", "inner.demo__note", "--text", "x"]);
    assert_eq!(waits.status.code(), Some(1));
    assert!(
        stderr(&waits).contains("requires approval; call it through a running gateway"),
        "{}",
        stderr(&waits)
    );
    let sum = call(&["call", "inner.demo__add", "--a", "2", "--b", "3"]);
    assert_eq!(sum.status.code(), Some(0), "{}", stderr(&sum));
    // Approval also applies to built-in operations, called directly or through `hub.call`.
    folder.write("toolpost.toml", "[approval]\noperations = [\"demo.n*\"]\n");
    folder.write("other.toml", "[approval]\noperations = [\"demo.a*\"]\n");
    let by_hub = r#"{"id": "demo.note", "input": {"text": "x"}}"#;
    let add = ["call", "demo.add", "--a", "2", "--b", "3"];
    let rows: [(&[&str], i32); 4] = [
        (&["call", "demo.note", "--text", "x"], 1),
        (&["call", "hub.call", by_hub], 1),
        (&add, 0),
        (&[&add[..], &["--config", "other.toml"]].concat(), 1),
    ];
    for (message, code) in rows {
        let response = call(message);
        let stderr_text = stderr(&response);
        assert_eq!(response.status.code(), Some(code), "{message:?}: {stderr_text}");
        assert_eq!(
            stderr_text.contains("requires approval"),
            code == 1,
            "{message:?}: {stderr_text}"
        );
    }
}
