//! Spokes in separate processes: the examples are started, called and killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Message;
use toolpost::{CallRequest, ProgressSender};

use super::{
    TIMEOUT, call_data, caller, collect_values, final_error_code, gateway_with_tokens,
    operation_status, wait_until, with_timeout,
};

/// A child process that is killed when the test ends, also if it fails.
struct SpokeProcess(Child);

impl SpokeProcess {
    fn start(command: &mut Command, url: &str) -> Self {
        Self(command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Sends `SIGKILL`, so that the process cannot close its connection.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for SpokeProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn repository_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Returns the path of the example binary and builds it if it is outdated. A workspace run has
/// built it already; a run of this crate alone has not.
fn example_binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test.ancestors().nth(2).unwrap().join("examples").join("spoke");
    let written = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    if written(&example) < written(&repository_root().join("examples/spoke.rs")) {
        let mut cargo = Command::new(env!("CARGO"));
        // Another value of this variable would build every dependency again.
        cargo.current_dir(repository_root()).env_remove("RUSTC_BOOTSTRAP");
        cargo.args(["build", "--quiet", "--jobs", "1"]);
        cargo.args(["--package", "toolpost", "--features", "ws", "--example", "spoke"]);
        assert!(cargo.status().unwrap().success(), "the example does not build");
    }
    example
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_spoke_fails_its_calls_and_reconnects() {
    let (gateway, [token]) = gateway_with_tokens(["boxer"]).await;
    let start = || {
        let mut command = Command::new(example_binary());
        SpokeProcess::start(command.env("TOOLPOST_TOKEN", token.reveal()), &gateway.hub_url())
    };
    let process = start();
    wait_until("the example registers", || gateway.gateway.hub().stats().online_spokes == 1).await;

    let client = caller(&gateway, Some(&token)).await;
    assert_eq!(call_data(&client, "box.math.add", json!({"a": 2, "b": 3})).await, Ok(json!(5)));
    assert_eq!(call_data(&client, "box.counter.increment", json!(3)).await, Ok(json!(3)));
    assert_eq!(collect_values(&client, "box.clock.ticks", json!(3)).await, [1, 2, 3]);

    let mut ticks = client.subscribe(CallRequest::new("box.clock.ticks", json!(1_000_000)));
    ticks.next().await.unwrap().unwrap();
    let reported = Arc::new(Notify::new());
    let notify = Arc::clone(&reported);
    let progress = ProgressSender::from_fn(move |_| notify.notify_one());
    let nap = CallRequest::new("box.work.nap", json!(3_000)).progress(progress);
    let nap = tokio::spawn(client.call(nap));
    with_timeout("the call starts", reported.notified()).await;

    let killed = Instant::now();
    process.kill();
    let error = with_timeout("the call ends", nap).await.unwrap().unwrap_err();
    eprintln!("UNAVAILABLE {:?} after kill -9", killed.elapsed());
    assert_eq!(error.code().as_str(), "UNAVAILABLE", "{error}");
    assert_eq!(final_error_code(ticks).await.as_deref(), Some("UNAVAILABLE"));
    assert_eq!(operation_status(&client, "box.math.add").await, "offline");
    let rejected = call_data(&client, "box.math.add", json!({"a": 2, "b": 3})).await;
    assert_eq!(rejected, Err("UNAVAILABLE".to_owned()));

    let _process = start();
    wait_until("the example is back", || gateway.gateway.hub().stats().online_spokes == 1).await;
    assert_eq!(call_data(&client, "box.math.add", json!({"a": 2, "b": 3})).await, Ok(json!(5)));
    assert_eq!(
        call_data(&client, "box.counter.increment", json!(1)).await,
        Ok(json!(1)),
        "a new one"
    );
    assert_eq!(operation_status(&client, "box.math.add").await, "online");
    assert_eq!(client.pending_count(), 0);
    gateway.stop().await;
}

const SCRIPT: &str = "examples/spoke.mjs";

/// Returns the `node` command, with the option that Node 20 needs for WebSocket.
fn node() -> Command {
    let version = Command::new("node").arg("--version").output().expect("Node is installed");
    let version = String::from_utf8(version.stdout).unwrap();
    let major = version.trim_start_matches('v').split('.').next().unwrap();
    let major: u32 = major.parse().unwrap();
    assert!(major >= 20, "Node 20 or later is needed, found {version}");
    let mut node = Command::new("node");
    if major < 22 {
        node.arg("--experimental-websocket");
    }
    node.arg(repository_root().join(SCRIPT));
    node
}

#[test]
fn example_script_is_short() {
    let lines = std::fs::read_to_string(repository_root().join(SCRIPT)).unwrap().lines().count();
    assert!(lines < 40, "{SCRIPT} has {lines} lines");
}

#[tokio::test(flavor = "multi_thread")]
async fn script_responds_streams_and_calls_back() {
    let mut node = node();
    let (gateway, [token]) = gateway_with_tokens(["scripter"]).await;
    node.env("TOOLPOST_TOKEN", token.reveal());
    let process = SpokeProcess::start(&mut node, &gateway.hub_url());
    wait_until("the script registers", || gateway.gateway.hub().stats().online_spokes == 1).await;

    let client = caller(&gateway, Some(&token)).await;
    assert_eq!(call_data(&client, "js.math.double", json!(21)).await, Ok(json!(42)));
    let failed = call_data(&client, "js.math.double", json!("a word")).await;
    assert_eq!(failed, Err("EXECUTION_ERROR".to_owned()), "the called operation rejected the call");
    assert_eq!(collect_values(&client, "js.clock.ticks", json!(3)).await, [1, 2, 3]);

    let ticks = client.subscribe(CallRequest::new("js.clock.ticks", json!(1_000_000)));
    assert_eq!(ticks.take(2).count().await, 2);
    wait_until("the hub has no pending requests", || gateway.gateway.hub().stats().pending == 0)
        .await;
    process.kill();
    wait_until("the script is gone", || gateway.gateway.hub().stats().online_spokes == 0).await;
    assert_eq!(call_data(&client, "js.math.double", json!(1)).await, Err("UNAVAILABLE".to_owned()));
    gateway.stop().await;
}

/// The test acts as the hub, so that it sees what the script sends after `call.aborted`.
#[tokio::test(flavor = "multi_thread")]
async fn script_stops_on_call_aborted() {
    let mut node = node();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let _process = SpokeProcess::start(node.env_remove("TOOLPOST_TOKEN"), &url);
    let (stream, _) = with_timeout("the script connects", listener.accept()).await.unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    let ticks = |id: &str, count: u64| {
        let payload = json!({"requestId": id, "operationId": "clock.ticks", "input": count});
        Message::text(json!({"type": "call.requested", "id": id, "payload": payload}).to_string())
    };
    socket.send(ticks("long", 1_000_000)).await.unwrap();
    let mut seen = Vec::new();
    let reading = async {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let event: Value = serde_json::from_str(&text).unwrap();
            let name = format!("{} {}", event["type"].as_str().unwrap(), event["id"]);
            if name == "call.responded \"long\"" && !seen.contains(&name) {
                let payload = json!({"requestId": "long", "reason": "enough"});
                let abort = json!({"type": "call.aborted", "id": "long", "payload": payload});
                socket.send(Message::text(abort.to_string())).await.unwrap();
                socket.send(ticks("short", 5)).await.unwrap();
            }
            seen.push(name);
            if event["type"] == "call.completed" {
                break;
            }
        }
    };
    tokio::time::timeout(TIMEOUT, reading).await.unwrap();
    assert_eq!(seen.last().unwrap(), "call.completed \"short\"", "{seen:?}");
    let after = seen.iter().skip_while(|name| !name.contains("short"));
    assert!(after.clone().all(|name| !name.contains("long")), "the handler continued: {seen:?}");
    assert_eq!(after.count(), 6, "{seen:?}");
}
