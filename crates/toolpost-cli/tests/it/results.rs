//! Results and errors of every kind of source, through every endpoint.

mod output_policy;

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::TempFolder;
use super::journal::fixture::Gateway;
use super::process::Process;
use super::sdk_client::call_tool;
use super::upstream::Upstream;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/results_server.py");

/// Returns an OpenAPI document with one POST operation per path, and the statuses that it declares.
fn document(server: &str, paths: &[(&str, &[&str])]) -> Value {
    let operations = paths.iter().map(|(path, statuses)| {
        let responses = statuses.iter().map(|status| {
            let content = json!({"application/json": {"schema": {}}});
            ((*status).to_owned(), json!({"description": "A response.", "content": content}))
        });
        let responses: Value = responses.collect::<serde_json::Map<_, _>>().into();
        let operation = json!({"operationId": path, "responses": responses});
        (format!("/{path}"), json!({"post": operation}))
    });
    let operations: Value = operations.collect::<serde_json::Map<_, _>>().into();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Results", "version": "1"},
        "servers": [{"url": server}],
        "paths": operations,
    })
}

impl Gateway {
    /// Calls a tool at the MCP endpoint with these query parameters.
    fn call_tool(&self, query: &str, operation: &str, arguments: &Value) -> Value {
        let name = operation.replacen('.', "__", 1);
        let params = json!({"name": name, "arguments": arguments});
        self.mcp_request(query, "tools/call", &params)
    }

    /// Sends an MCP request and returns its result.
    fn mcp_request(&self, query: &str, method: &str, params: &Value) -> Value {
        let mut params = params.clone();
        let mut headers = vec!["accept: application/json, text/event-stream"];
        if method == "server/discover" {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
            headers.extend(["mcp-protocol-version: 2026-07-28", "mcp-method: server/discover"]);
        }
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, body) = self.post_with(&format!("/mcp{query}"), &request, &headers);
        let response: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
        assert!(response["result"].is_object(), "{response}");
        response["result"].clone()
    }

    /// Calls an operation over HTTP and returns its envelope.
    fn envelope(&self, operation: &str, input: &Value) -> Value {
        let path = format!("/api/{}?envelope=true", operation.replacen('.', "/", 1));
        let (status, body) = self.post(&path, input);
        assert_eq!(status, 200, "{operation}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Calls an operation over the hub.
    fn call_over_hub(&self, operation: &str, input: &Value) -> Value {
        let arguments = ["call", operation, &input.to_string(), "--json", "--url", &self.url()];
        super::json(&super::toolpost(&arguments))
    }
}

/// Returns the configuration of the source `tools`, with more settings.
fn tools_source(more: &str) -> String {
    let server = format!("{{ command = \"python3\", args = [{SERVER:?}, \"stdio\"] }}");
    format!("[source.tools]\nmcp = {server}\naccess = \"open\"\n{more}\n")
}

/// Starts a gateway with the source `tools`.
fn gateway_with_tools(name: &str, more: &str) -> (Gateway, TempFolder) {
    let folder = TempFolder::new(name);
    folder.write("toolpost.toml", &tools_source(more));
    let gateway = Gateway::start(&folder);
    gateway.wait_for("tools.plain");
    (gateway, folder)
}

/// Each row: an operation of a rate-limited service, and the status of the response over HTTP.
#[test]
fn upstream_retry_after_reaches_the_caller() {
    let service = Upstream::start(|target| match target {
        "POST /closed" => ("503 Service Unavailable\r\nretry-after: 7", ""),
        "POST /ended" => ("503 Gone\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT", ""),
        _ => ("429 Too Many Requests\r\nretry-after: 7", ""),
    });
    let mut server = Command::new("python3");
    let mut server = Process::spawn(server.args([SERVER, "http"]).stdout(Stdio::piped()));
    let port = server.stdout_lines().next().unwrap();
    let folder = TempFolder::new("retry-after");
    let paths: [(&str, &[&str]); 4] = [
        ("busy", &["200"]),
        ("declared", &["200", "429"]),
        ("closed", &["200"]),
        ("ended", &["200"]),
    ];
    folder.write("jobs.json", &document(&service.url(), &paths).to_string());
    folder.write(
        "toolpost.toml",
        &format!(
            "[source.jobs]\nopenapi = \"jobs.json\"\naccess = \"open\"\n\
             [source.tools]\nmcp = {{ url = \"http://127.0.0.1:{port}/\" }}\naccess = \"open\"\n"
        ),
    );
    let gateway = Gateway::start(&folder);
    gateway.wait_for("jobs.busy");
    gateway.wait_for("tools.limited");
    for (operation, status, seconds) in [
        ("jobs.busy", 502, 7),
        ("jobs.declared", 429, 7),
        ("jobs.closed", 502, 7),
        ("jobs.ended", 502, 0),
        ("tools.limited", 429, 7),
    ] {
        let path = format!("/api/{}", operation.replacen('.', "/", 1));
        let (head, problem) = gateway.exchange(&path, &json!({}));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{operation}: {head}");
        let header = format!("\r\nretry-after: {}\r\n", seconds.max(1));
        assert!(format!("{head}\r\n").contains(&header), "{operation}: {head}");
        let problem: Value = serde_json::from_str(&problem).unwrap();
        let tool_result = gateway.call_tool("", operation, &json!({}));
        for error in [
            &problem["error"],
            &tool_result["_meta"]["toolpost/error"],
            &gateway.call_over_hub(operation, &json!({}))["error"],
        ] {
            assert_eq!(error["details"]["retryAfterMs"], seconds * 1_000, "{operation}: {error}");
        }
    }
}

#[test]
fn meta_of_every_source_has_operation_id_and_timestamp() {
    let service = Upstream::start(|_| ("200 OK\r\ncontent-type: application/json", "{}"));
    let folder = TempFolder::new("result-meta");
    folder.write("jobs.json", &document(&service.url(), &[("busy", &["200"])]).to_string());
    let jobs = "[source.jobs]\nopenapi = \"jobs.json\"\naccess = \"open\"\n";
    folder.write("toolpost.toml", &format!("{jobs}{}", tools_source("")));
    let gateway = Gateway::start(&folder);
    gateway.wait_for("jobs.busy");
    gateway.wait_for("tools.plain");
    for (operation, input, source) in [
        ("demo.add", json!({"a": 1, "b": 2}), "local"),
        ("jobs.busy", json!({}), "http"),
        ("tools.plain", json!({}), "mcp"),
        ("tools.claims", json!({}), "mcp"),
    ] {
        let nested = json!({"id": operation, "input": input});
        for envelope in [
            gateway.envelope(operation, &input),
            gateway.envelope("hub.call", &nested),
            gateway.call_over_hub(operation, &input),
            gateway.call_tool("?dialect=envelope", operation, &input)["structuredContent"].clone(),
        ] {
            let meta = &envelope["meta"];
            assert_eq!(
                (&meta["source"], &meta["operationId"]),
                (&json!(source), &json!(operation))
            );
            assert!(meta["timestamp"].as_i64().unwrap() > 1_000_000_000_000, "{meta}");
        }
    }
    // The values of a subscription, as server-sent events and over the hub.
    let input = json!({"count": 2, "everyMs": 1});
    let (_, events) = gateway.post("/api/demo/clock?envelope=true", &input);
    let events = events.lines().filter_map(|line| line.strip_prefix("data: "));
    let url = gateway.url();
    let input = input.to_string();
    let values = ["subscribe", "demo.clock", &input, "--json", "--url", &url];
    let values = super::stdout(&super::toolpost(&values));
    let values: Vec<Value> = events
        .chain(values.lines())
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|value: &Value| value.get("meta").is_some())
        .collect();
    assert_eq!(values.len(), 4, "{values:?}");
    for value in values {
        assert_eq!(value["meta"]["operationId"], "demo.clock", "{value}");
        assert!(value["meta"]["timestamp"].as_i64().unwrap() > 1_000_000_000_000, "{value}");
    }
    let claims = gateway.call_tool("", "tools.claims", &json!({}));
    for (name, value) in [("operationId", json!("demo.add")), ("timestamp", json!(1))] {
        assert_eq!(claims[name], value, "the result of the server is relayed: {claims}");
    }
    let meta = gateway.call_tool("", "tools.plain", &json!({}));
    assert_eq!(meta, json!({"content": [{"type": "text", "text": "\"plain\""}]}));
}

/// Each row: the tool, the data, and the number of repairs and warnings.
#[test]
fn json_text_that_fits_after_normalization_becomes_data() {
    let (gateway, _folder) = gateway_with_tools("json-text", "");
    let as_text = |value: &str| json!([{"type": "text", "text": value}]);
    let data = json!({"n": 5, "note": "x"});
    for (tool, expected, repairs, warnings) in [
        ("fits", data.clone(), 1, 0),
        ("converted", data.clone(), 3, 0),
        ("differs", as_text("{\"n\": \"many\"}"), 0, 1),
        ("not_json", as_text("n is 5"), 0, 1),
    ] {
        let operation = format!("tools.{tool}");
        let (status, body) = gateway.post(&format!("/api/tools/{tool}"), &json!({}));
        let envelope = gateway.envelope(&operation, &json!({}));
        assert_eq!(envelope["data"], expected, "{tool}: {envelope}");
        for (name, count) in [("repairs", repairs), ("warnings", warnings)] {
            assert_eq!(envelope[name].as_array().map_or(0, Vec::len), count, "{tool}: {envelope}");
        }
        assert_eq!(gateway.call_over_hub(&operation, &json!({}))["data"], expected, "{tool}");
        if expected == data {
            assert_eq!(
                (status, serde_json::from_str(&body).ok()),
                (200, Some(data.clone())),
                "{tool}"
            );
            let url = format!("http://{}/mcp", gateway.address);
            let result = call_tool(&url, &format!("tools__{tool}"), &json!({}));
            assert_eq!(result["structuredContent"], data, "{result}");
        }
    }
}

/// The npm client validates the structured content of results that are no errors, so the result is
/// also compared with the published schema here.
#[test]
fn ok_dialect_failure_of_output_validation_is_structured() {
    let (gateway, _folder) = gateway_with_tools("ok-output", "output = \"enforce\"");
    let url = format!("http://{}/mcp?dialect=ok", gateway.address);
    let result = call_tool(&url, "tools__mismatch", &json!({}));
    let structured = &result["structuredContent"];
    assert_eq!((&result["isError"], &structured["ok"]), (&json!(true), &json!(false)), "{result}");
    assert_eq!(structured["error"]["code"], "OUTPUT_VALIDATION_FAILED", "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), *structured);
    let tools = gateway.mcp_request("?dialect=ok", "tools/list", &json!({}));
    let mut tools = tools["tools"].as_array().unwrap().iter();
    let tool = tools.find(|tool| tool["name"] == "tools__mismatch").unwrap();
    let schema = toolpost::Schema::new(tool["outputSchema"].clone()).unwrap();
    assert_eq!(schema.validate(structured).unwrap(), []);
}

#[test]
fn members_under_an_open_schema_survive() {
    let (gateway, _folder) = gateway_with_tools("open-schema", "");
    let data = json!({"n": 5, "more": {"a": [1]}});
    for tool in
        ["open", "open_schema", "open_unevaluated", "open_pattern", "open_nested", "open_parts"]
    {
        let operation = format!("tools.{tool}");
        let (_, body) = gateway.post(&format!("/api/tools/{tool}"), &json!({}));
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), data, "{tool}");
        assert_eq!(gateway.call_over_hub(&operation, &json!({}))["data"], data, "{tool}");
        let result = call_tool(
            &format!("http://{}/mcp", gateway.address),
            &format!("tools__{tool}"),
            &json!({}),
        );
        assert_eq!(result["structuredContent"], data, "{tool}: {result}");
    }
    // A schema that names no property converts nothing.
    let (_, body) = gateway.post("/api/tools/free", &json!({}));
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap(),
        json!({"n": "5", "more": {"a": [1]}})
    );
}

/// The source `modern` is built with the Python SDK, which adds the server info to every result.
#[test]
fn transport_meta_of_servers_is_not_forwarded() {
    let folder = TempFolder::new("transport-meta");
    folder.write("toolpost.toml", &format!("{}{}", tools_source(""), modern_source()));
    let gateway = Gateway::start(&folder);
    gateway.wait_for("tools.plain");
    gateway.wait_for("modern.shout");
    let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "1"}, "a.b/c": 1});
    let note = json!({"uri": "note://one"});
    for (operation, input, meta) in [
        ("tools.transport_meta", json!({}), related),
        ("modern.shout", json!({"text": "a"}), Value::Null),
        ("modern.resources/read", note.clone(), Value::Null),
    ] {
        let path = operation.replacen('/', "%2F", 1);
        let envelope = gateway.envelope(&path, &input);
        assert_eq!(envelope["meta"]["_meta"], meta, "{envelope}");
        assert!(!envelope.to_string().contains("serverInfo"), "{envelope}");
        if !operation.contains('/') {
            let result = gateway.call_tool("", operation, &input);
            assert_eq!(result["_meta"], meta, "{result}");
        }
    }
    let read = gateway.mcp_request("?source=modern", "resources/read", &note);
    assert!(!read.to_string().contains("serverInfo"), "{read}");
    assert_eq!(read["contents"][0]["text"], "a note about one", "{read}");
}

#[test]
fn instructions_of_servers_reach_clients() {
    let folder = TempFolder::new("instructions");
    let long = "Use n. ".repeat(400);
    let server = |text: &str| {
        let env = format!("{{ INSTRUCTIONS = {text:?} }}");
        format!("{{ command = \"python3\", args = [{SERVER:?}, \"stdio\"], env = {env} }}")
    };
    let config = format!(
        "{}{}[source.long]\nmcp = {}\naccess = \"open\"\n\
         [source.closed]\nmcp = {}\naccess = {{ scopes = [\"files\"] }}\n",
        tools_source(""),
        modern_source(),
        server(&long),
        server("Use the secret.")
    );
    folder.write("toolpost.toml", &config);
    let gateway = Gateway::start(&folder);
    for operation in ["tools.plain", "modern.shout", "long.plain"] {
        gateway.wait_for(operation);
    }
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}});
    let instructions = |query: &str| {
        let legacy = gateway.mcp_request(query, "initialize", &hello)["instructions"].clone();
        let modern = gateway.mcp_request(query, "server/discover", &json!({}));
        assert_eq!(modern["instructions"], legacy, "{query}");
        legacy
    };
    assert_eq!(instructions("?source=modern"), "Sums and words.");
    assert_eq!(instructions("?source=long"), long.as_str());
    assert_eq!(instructions("?source=tools"), Value::Null);
    let all = instructions("");
    let all = all.as_str().unwrap();
    let bounded = format!("Instructions of the source `long`:\n{}…", &long[..2_000]);
    for part in ["hub__search", "Instructions of the source `modern`:\nSums and words.", &bounded] {
        assert!(all.contains(part), "{part}: {all}");
    }
    for part in ["`tools`", "`closed`", "the secret"] {
        assert!(!all.contains(part), "{part}: {all}");
    }
}

/// Returns the configuration of the source `modern`: a server of 2026-07-28 with the Python SDK.
fn modern_source() -> String {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/py2/bin/python");
    let server = super::mcp::server("python_sdk_server.py");
    let command = format!("{{ command = {python:?}, args = [{server:?}, \"stdio\"] }}");
    format!("[source.modern]\nmcp = {command}\naccess = \"open\"\n")
}

/// Each row: an operation, its input, and the category, `recoverable`, `suggestedAction` and
/// `nextTool` of its error.
#[test]
fn tool_envelope_errors_say_how_to_recover() {
    let service = Upstream::start(|target| match target {
        "POST /unauthorized" => ("401 Unauthorized", ""),
        "POST /forbidden" => ("403 Forbidden", ""),
        "POST /missing" => ("404 Not Found", ""),
        "POST /slow" => ("408 Request Timeout", ""),
        "POST /invalid" => ("422 Unprocessable Content", ""),
        "POST /busy" => ("429 Too Many Requests\r\nretry-after: 7", ""),
        "POST /late" => ("504 Gateway Timeout", ""),
        "POST /declared" => ("429 Too Many Requests", "{}"),
        "POST /bad" => ("400 Bad Request", ""),
        _ => ("500 Internal Server Error", ""),
    });
    let folder = TempFolder::new("envelope-errors");
    let paths = [
        "unauthorized",
        "forbidden",
        "missing",
        "slow",
        "invalid",
        "busy",
        "late",
        "bad",
        "broken",
    ];
    let mut paths: Vec<(&str, &[&str])> = paths.iter().map(|path| (*path, &["200"][..])).collect();
    paths.push(("declared", &["200", "429"]));
    folder.write("jobs.json", &document(&service.url(), &paths).to_string());
    let jobs = "[source.jobs]\nopenapi = \"jobs.json\"\naccess = \"open\"\n";
    let approval = "[approval]\noperations = [\"demo.note\"]\nexpires = \"1s\"\n";
    folder.write("toolpost.toml", &format!("{jobs}{approval}"));
    let gateway = Gateway::start(&folder);
    gateway.wait_for("jobs.busy");
    let none = Value::Null;
    let correct = json!("Correct the input and call again.");
    for (operation, input, category, recoverable, action, next) in [
        ("demo.add", json!({}), "validation", true, json!("Add `/a`, `/b` and call again."), &none),
        (
            "demo.add",
            json!({"a": "x", "b": 1}),
            "validation",
            true,
            json!("Correct `/a` and call again."),
            &none,
        ),
        (
            "demo.add",
            json!({"a": "x"}),
            "validation",
            true,
            json!("Add `/b`, correct `/a` and call again."),
            &none,
        ),
        ("jobs.unauthorized", json!({}), "authorization", false, none.clone(), &none),
        ("jobs.forbidden", json!({}), "authorization", false, none.clone(), &none),
        ("jobs.missing", json!({}), "not_found", false, none.clone(), &none),
        ("jobs.slow", json!({}), "timeout", false, none.clone(), &none),
        ("jobs.invalid", json!({}), "validation", true, correct, &none),
        ("jobs.busy", json!({}), "rate_limit", true, json!("Call again in 7 s."), &none),
        ("jobs.declared", json!({}), "rate_limit", true, json!("Call again."), &none),
        ("jobs.late", json!({}), "timeout", false, none.clone(), &none),
        ("jobs.bad", json!({}), "execution", false, none.clone(), &none),
        ("jobs.broken", json!({}), "network", false, none.clone(), &none),
        ("demo.fail", json!({}), "execution", false, none.clone(), &none),
        (
            "hub.call",
            json!({"id": "demo.ad"}),
            "not_found",
            false,
            json!("Call `demo.add` instead."),
            &json!("demo__add"),
        ),
        (
            "hub.schema",
            json!({"id": "jobs.buzy"}),
            "not_found",
            false,
            json!("Call `jobs.busy` instead."),
            &json!("jobs__busy"),
        ),
        ("hub.call", json!({"id": "weather.now"}), "not_found", false, none.clone(), &none),
        (
            "demo.note",
            json!({"text": "hi"}),
            "timeout",
            true,
            json!("Call again to request approval."),
            &json!("demo__note"),
        ),
    ] {
        let result = gateway.call_tool("?dialect=tool-envelope-v1", operation, &input);
        assert_eq!(result["isError"], true, "{operation} {result}");
        let decoded = super::run_with_stdin(&["decode"], &result.to_string());
        let decoded = super::json(&decoded);
        let payload = &decoded["payload"];
        assert_eq!(
            (
                &payload["category"],
                &payload["recoverable"],
                &payload["suggestedAction"],
                &payload["nextTool"]
            ),
            (&json!(category), &json!(recoverable), &action, next),
            "{operation} {input}: {decoded}"
        );
        let summary = decoded["summary"].as_str().unwrap();
        for (line, value) in [("\nSuggestion: ", &action), ("\nNext: call `", next)] {
            let written = value.as_str().map(|text| format!("{line}{text}"));
            assert_eq!(summary.contains(line), written.is_some(), "{summary}");
            assert!(summary.contains(&written.unwrap_or_default()), "{summary}");
        }
    }
}
