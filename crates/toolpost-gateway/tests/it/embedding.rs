//! Embedding: `examples/embed.rs`, and a gateway nested in the router of another server.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use toolpost_gateway::{Gateway, builtin};

use super::client;

/// Time for the example to start its sources on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A process that is killed when the test ends.
struct RunningExample(Child);

impl Drop for RunningExample {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn example_serves_functions_documents_and_mcp_servers() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("embed-example");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let address = free_address();
    let _example = start_example(&folder, &address);
    let client = client();
    let deadline = tokio::time::Instant::now() + START_TIMEOUT;
    let health = format!("http://{address}/health");
    while client.get(&health).send().await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the example does not listen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (path, input, expected) in [
        ("hello/greet", json!("Ada"), json!("Hello, Ada!")),
        (
            "everything/echo",
            json!({"message": "hi"}),
            json!([{"type": "text", "text": "Echo: hi"}]),
        ),
    ] {
        let url = format!("http://{address}/api/{path}");
        let response = client.post(url).json(&input).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let data: Value = response.json().await.unwrap();
        assert_eq!(data, expected, "{path}");
    }
    let document: Value = get_json(&format!("http://{address}/openapi.json")).await;
    assert!(document["paths"]["/api/pets/listPets"].is_object(), "{document}");
    assert!(folder.join("data").exists(), "the journal is in the data folder");
}

#[tokio::test]
async fn nested_gateway_serves_calls_and_names_prefix_in_document() {
    let gateway = Gateway::builder(builtin::registry()).build().unwrap();
    let router = Router::new().nest("/tools", gateway.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async { axum::serve(listener, router).await.unwrap() });

    let document = get_json(&format!("{origin}/tools/openapi.json")).await;
    let server_url = document["servers"][0]["url"].as_str().unwrap();
    let base = reqwest::Url::parse(&format!("{origin}/tools/openapi.json")).unwrap();
    let target = base.join(&format!("{}/api/demo/add", server_url.trim_end_matches('/'))).unwrap();
    assert_eq!(target.path(), "/tools/api/demo/add", "{server_url}");

    let client = client();
    let input = json!({"a": 2, "b": 3});
    let called = client.post(target).json(&input).send().await.unwrap();
    assert_eq!(called.json::<Value>().await.unwrap(), json!({"sum": 5}));

    let params = json!({"name": "demo__add", "arguments": input});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let tool = client.post(format!("{origin}/tools/mcp")).json(&request).send().await.unwrap();
    let result: Value = tool.json().await.unwrap();
    assert_eq!(result["result"]["structuredContent"], json!({"sum": 5}), "{result}");
    server.abort();
}

async fn get_json(url: &str) -> Value {
    let response = client().get(url).send().await.unwrap();
    assert_eq!(response.status(), 200, "{url}");
    response.json().await.unwrap()
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Starts the example in the root of the repository, with an `npx` that uses the cached packages.
fn start_example(folder: &Path, address: &str) -> RunningExample {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let modules = root.join(".cache/npm/node_modules").canonicalize().unwrap();
    let script = format!("#!/bin/sh\nexec {0}/.bin/node {0}/$2/dist/index.js\n", modules.display());
    let npx = folder.join("npx");
    std::fs::write(&npx, script).unwrap();
    std::fs::set_permissions(&npx, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(example_binary());
    command.arg(address).arg(folder.join("data")).env("PATH", path).current_dir(root);
    RunningExample(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Path of the compiled example, which `cargo test` builds together with this test.
fn example_binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples/embed");
    assert!(binary.exists(), "the example is not built; run `cargo build --examples` first");
    binary
}
