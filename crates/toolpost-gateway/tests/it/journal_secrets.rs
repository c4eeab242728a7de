//! Secrets of calls in the files of the journal.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use toolpost::{CallError, Change, HandlerError, Operation, Schema};
use toolpost_gateway::config::Config;
use toolpost_gateway::{Gateway, SourceState, builtin};

use super::spokes::with_timeout;
use super::{TestGateway, client};

/// Starts a service that returns each request in its response, and returns its address.
async fn start_echo_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(echo(stream));
        }
    });
    address
}

async fn echo(stream: TcpStream) {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request).await.unwrap_or_default() == 0 {
            return;
        }
    }
    let body = json!({"echo": request, "note": "harmless"}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let length = body.len();
    let response = format!("{head}content-length: {length}\r\n\r\n{body}");
    let _ = stream.write_all(response.as_bytes()).await;
}

fn document(address: &str) -> Value {
    let parameter = |name: &str, location: &str, schema: Value| json!({"name": name, "in": location, "schema": schema});
    let text = || json!({"type": "string"});
    json!({
        "openapi": "3.1.0", "info": {"title": "echo", "version": "1"},
        "servers": [{"url": address}],
        "security": [{"bearer": []}],
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "paths": {"/echo": {"get": {
            "operationId": "echo",
            "parameters": [
                parameter("X-Session-Token", "header", text()),
                parameter("sid", "cookie", text()),
                parameter("pin", "query", json!({"type": "string", "format": "password"})),
                parameter("word", "query", text()),
            ],
            "responses": {"200": {"description": "", "content": {"application/json": {}}}},
        }}},
    })
}

/// Repeats its secret input in errors and results.
fn login_operation() -> Operation {
    let login = async |input: Value| {
        let pin = input["pin"].as_str().unwrap_or_default().to_owned();
        match input["fails"] == true {
            true => Err(HandlerError::from(CallError::execution(format!("wrong pin {pin}")))),
            false => Ok(json!({"text": format!("harmless, {pin} was right"), "pins": [pin]})),
        }
    };
    let schema = json!({"type": "object", "required": ["pin"], "properties": {
        "pin": {"type": "string", "writeOnly": true}, "fails": {"type": "boolean"}}});
    Operation::mutation("bank.login", login)
        .schemas(Schema::new(schema).unwrap(), Schema::unknown())
        .build()
        .unwrap()
}

/// Returns the text of all files in a folder.
fn read_files(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => text.push_str(&read_files(&path)),
            false => text.push_str(&String::from_utf8_lossy(&std::fs::read(&path).unwrap())),
        }
    }
    text
}

#[tokio::test]
async fn secrets_in_results_and_errors_are_not_recorded() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("toolpost-secrets-{}", std::process::id()));
    let (data, api) = (folder.join("data"), folder.join("echo.json"));
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(&api, document(&start_echo_service().await).to_string()).unwrap();
    let text = format!(
        "[source.echo]\nopenapi = {}\nauth = {{ bearer = \"bearer-credential\" }}\naccess = \"open\"\n",
        json!(api)
    );
    let config = Config::parse("toolpost.toml".as_ref(), &text, &|_| None).unwrap();
    let registry = builtin::registry();
    registry.apply([Change::Register(login_operation())]).unwrap();
    let builder = Gateway::builder(registry).config(config).journal(&data);
    let running = TestGateway::serve(builder, "127.0.0.1:0").await;
    with_timeout("the source", async {
        while running.gateway.sources().await[0].state != SourceState::Ready {
            tokio::task::yield_now().await;
        }
    })
    .await;

    let sent = json!({"X-Session-Token": "header-credential", "sid": "cookie-credential",
        "pin": "query pin/4711", "word": "harmless"});
    for (path, input, status, is_repeated) in [
        ("/api/echo/echo", sent, 200, true),
        ("/api/bank/login", json!({"pin": "body-pin-4711"}), 200, true),
        ("/api/bank/login", json!({"pin": "body-pin-4711", "fails": true}), 502, true),
        ("/api/bank/login", json!("body-pin-4711"), 422, false),
        ("/api/bank/login", json!(["body-pin-4711"]), 422, false),
        ("/api/bank/login", json!({"pinn": "body-pin-4711"}), 422, false),
        ("/api/bank/login", json!({"pin": {"value": "body-pin-4711"}}), 422, false),
        (
            "/api/hub/call",
            json!({"id": "bank.login", "input": {"pin": "body-pin-4711", "fails": true}}),
            502,
            true,
        ),
    ] {
        let request = client().post(running.url(path)).json(&input);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), status, "{path} {input}");
        let text = response.text().await.unwrap();
        if is_repeated {
            let secrets = ["bearer-credential", "body-pin-4711"];
            assert!(secrets.iter().any(|secret| text.contains(secret)), "{path}: {text}");
        }
    }
    running.stop().await;
    let recorded = read_files(&data);
    for secret in [
        "bearer-credential",
        "header-credential",
        "cookie-credential",
        "query pin/4711",
        "query%20pin%2F4711",
        "query+pin%2F4711",
        "body-pin-4711",
    ] {
        let at = recorded.find(secret);
        let context =
            at.map(|at| &recorded[recorded.floor_char_boundary(at.saturating_sub(300))..at]);
        assert_eq!(context, None, "{secret} is recorded");
    }
    assert!(recorded.contains("harmless, *** was right"), "the rest is recorded");
    assert!(recorded.contains("wrong pin ***"), "the rest is recorded");
    let _ = std::fs::remove_dir_all(folder);
}
