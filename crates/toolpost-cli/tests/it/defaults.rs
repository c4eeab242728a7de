//! Defaults in schemas: which are filled in, and what upstream servers receive.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use super::journal::fixture::{Gateway, post};
use super::mcp::everything;
use super::process::{OutputLines, Process, wait_until};
use super::sdk_client::call_tool;
use super::upstream::Upstream;
use super::{TempFolder, command, stdout};

/// Defaults that break the value: of another type, not in the list, without a required member, and
/// one that excludes another property. An OpenAPI import omits the first two.
#[test]
fn invalid_default_is_left_out_and_logged_once() {
    let upstream =
        Upstream::start(|_| ("200 OK\r\ncontent-type: application/json", r#"{"id":1,"left":2}"#));
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "owner": {"type": "object", "properties": {"name": {"type": "string"}},
                "required": ["name"], "default": {}},
            "left": {"type": "integer"},
            "right": {"type": "integer", "default": 1},
        },
        "oneOf": [{"required": ["left"]}, {"required": ["right"]}],
    });
    let document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Jobs", "version": "1"},
        "servers": [{"url": upstream.url()}],
        "paths": {"/job": {"get": {"operationId": "job", "responses": {"200": {
            "description": "A job.", "content": {"application/json": {"schema": schema}}}}}}},
    });
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("../../.cache/py/bin/python");
    let server = root.join("tests/servers/defaults_server.py");
    let folder = TempFolder::new("bad-defaults");
    folder.write("jobs.json", &document.to_string());
    let config = format!(
        "[source.http]\nopenapi = \"jobs.json\"\naccess = \"open\"\n\
         [source.tools]\nmcp = {{ command = {python:?}, args = [{server:?}] }}\naccess = \"open\"\n"
    );
    folder.write("toolpost.toml", &config);
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    serve.current_dir(folder.path()).stderr(Stdio::piped());
    let (mut process, address, _lines) = Process::serve(&mut serve);
    let log = OutputLines::of(process.stderr.take().unwrap());
    for source in ["http", "tools"] {
        let call = || {
            let accept = "accept: application/vnd.toolpost.envelope+json";
            post(&address, &format!("/api/{source}/job"), &json!({}), &[accept]).unwrap()
        };
        wait_until("the source is ready", || call().0 == 200);
        for _ in 0..3 {
            let envelope: Value = serde_json::from_str(&call().1).unwrap();
            assert_eq!(envelope["data"], json!({"id": 1, "left": 2}), "{envelope}");
            assert_eq!((&envelope["repairs"], &envelope["warnings"]), (&Value::Null, &Value::Null));
        }
    }
    process.signal("-TERM");
    let warnings: Vec<String> = log.filter(|line| line.contains("WARN")).collect();
    for (source, names) in
        [("http.job", &["owner", "right"][..]), ("tools", &["state", "mode", "owner", "right"])]
    {
        for name in names {
            let is_logged = |line: &&String| {
                line.contains(source) && line.contains(&format!("/properties/{name}"))
            };
            assert_eq!(warnings.iter().filter(is_logged).count(), 1, "{name}: {warnings:#?}");
        }
    }
}

/// An operation with required properties that have defaults, in the query and in the body.
fn search_document(server: &str) -> Value {
    let body = json!({"type": "object", "required": ["limit", "sort"], "properties": {
        "limit": {"type": "integer", "default": 10},
        "sort": {"enum": ["new", "old"], "default": "new"},
        "state": {"type": "string", "default": null},
    }});
    let page = json!({"name": "page", "in": "query", "required": true,
        "schema": {"type": "integer", "default": 1}});
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Search", "version": "1"},
        "servers": [{"url": server}],
        "paths": {"/search": {"post": {
            "operationId": "find",
            "parameters": [page],
            "requestBody": {"required": true, "content": {"application/json": {"schema": body}}},
            "responses": {"200": {"description": "found"}},
        }}},
    })
}

/// Each row: the input, and the request that the upstream server receives.
#[test]
fn defaulted_input_is_sent_upstream_and_recorded() {
    let upstream = Upstream::start(|_| ("200 OK\r\ncontent-type: application/json", "{}"));
    let folder = TempFolder::new("defaults");
    folder.write("search.json", &search_document(&upstream.url()).to_string());
    let config = "[source.search]\nopenapi = \"search.json\"\naccess = \"open\"\n";
    folder.write("toolpost.toml", &format!("{config}[journal]\nmode = \"sync\"\n"));
    let gateway = Gateway::start(&folder);
    gateway.wait_for("search.find");
    let filled = json!({"limit": 10, "sort": "new"});
    for (input, line, body) in [
        (json!({"body": {}}), "POST /search?page=1", filled.clone()),
        (json!({"page": 2, "body": filled}), "POST /search?page=2", filled.clone()),
        (
            json!({"body": {"sort": "old", "more": ["5"]}}),
            "POST /search?page=1",
            json!({"sort": "old", "more": ["5"], "limit": 10}),
        ),
    ] {
        assert_eq!(gateway.post("/api/search/find", &input).0, 200, "{input}");
        let (received_line, received) = upstream.last_request();
        let received: Value = serde_json::from_str(&received).unwrap();
        assert_eq!((&*received_line, &received), (line, &body), "{input}");
        let logged = stdout(&gateway.log(&["--op", "search.find", "--limit", "1"]));
        let logged: Value = serde_json::from_str(&logged).unwrap();
        assert_eq!(logged["input"]["body"], body, "{logged}");
    }
    // An input is not converted.
    let (status, problem) = gateway.post("/api/search/find", &json!({"body": {"limit": "5"}}));
    assert!(status == 422 && problem.contains("/body/limit"), "{status} {problem}");

    let url = format!("http://{}/mcp", gateway.address);
    let result = call_tool(&url, "search__find", &json!({"body": {}, "page": 3}));
    assert_eq!(result["isError"], Value::Null, "{result}");
    let (line, received) = upstream.last_request();
    let received: Value = serde_json::from_str(&received).unwrap();
    assert_eq!((&*line, received), ("POST /search?page=3", filled));
}

/// Uses Playwright's MCP server, whose `browser_console_messages` requires `level`, with a default.
#[test]
fn browser_server_required_default_can_be_omitted() {
    let [node, _] = everything();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let server = root.join(".cache/playwright/node_modules/@playwright/mcp/cli.js");
    assert!(server.exists(), "no .cache/playwright: run scripts/fetch-test-data");
    let folder = TempFolder::new("browser-server");
    let flags = "'--headless', '--no-sandbox', '--isolated', '--executable-path', \
                 '/usr/bin/chromium', '--output-dir', 'output'";
    let config = format!(
        "[source.web]\naccess = \"open\"\nmcp = {{ command = {node:?}, args = [{server:?}, {flags}] }}\n"
    );
    folder.write("toolpost.toml", &config);
    let gateway = Gateway::start(&folder);
    gateway.wait_for("web.browser_console_messages");
    let (status, data) = gateway.post("/api/web/browser_console_messages", &json!({}));
    assert!(status == 200 && data.contains("Total messages"), "{status} {data}");

    let url = format!("http://{}/mcp", gateway.address);
    let result = call_tool(&url, "web__browser_console_messages", &json!({}));
    assert_eq!(result["isError"], Value::Null, "{result}");
    assert!(result.to_string().contains("Total messages"), "{result}");
}
