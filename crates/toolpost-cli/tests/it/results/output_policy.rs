//! Results that do not match their output schema: the same verdict at every endpoint.
//!
//! The sources are an HTTP service and an MCP server whose mutations succeed and return data that
//! violates the declared schema in two places.

use serde_json::{Value, json};

use super::{Gateway, SERVER};
use crate::process::run;
use crate::sdk_client::call_tool;
use crate::terminal::Terminal;
use crate::upstream::Upstream;
use crate::{TempFolder, stderr};

const OPERATIONS: [&str; 2] = ["shop.order", "tools.order"];
const DIALECTS: [&str; 4] = ["data", "envelope", "ok", "tool-envelope-v1"];

/// Returns the data of every order.
fn order() -> Value {
    json!({"id": "A-7"})
}

/// A gateway with both sources.
struct Fixture {
    gateway: Gateway,
    _service: Upstream,
    folder: TempFolder,
}

impl Fixture {
    /// Starts the gateway with this output policy.
    fn start(name: &str, output: &str) -> Self {
        let service = Upstream::start(|target| match target {
            "POST /order" => ("201 Created\r\ncontent-type: application/json", r#"{"id": "A-7"}"#),
            _ => (
                "200 OK\r\ncontent-type: text/event-stream",
                "data: {\"id\": 1, \"total\": 2}\n\ndata: {\"id\": \"A-7\"}\n\ndata: {\"id\": \"A-8\", \"total\": 1}\n\n",
            ),
        });
        let folder = TempFolder::new(name);
        folder.write("shop.json", &document(&service.url()).to_string());
        let server = format!("{{ command = \"python3\", args = [{SERVER:?}, \"stdio\"] }}");
        folder.write(
            "toolpost.toml",
            &format!(
                "[source.shop]\nopenapi = \"shop.json\"\naccess = \"open\"\noutput = \"{output}\"\n\
                 [source.tools]\nmcp = {server}\naccess = \"open\"\noutput = \"{output}\"\n"
            ),
        );
        let gateway = Gateway::start(&folder);
        OPERATIONS.iter().for_each(|operation| gateway.wait_for(operation));
        Self { gateway, _service: service, folder }
    }

    /// Returns the metric with this name and these labels.
    fn metric(&self, sample: &str) -> Option<u64> {
        let (_, text) = self.gateway.get_with("/metrics", &[]);
        let value = text.lines().find_map(|line| line.strip_prefix(sample))?;
        value.trim().parse().ok()
    }

    /// Returns the journal entries of an operation.
    fn calls(&self, operation: &str) -> Vec<Value> {
        let log = crate::stdout(&self.gateway.log(&["--op", operation, "--limit", "100"]));
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn published_schema(&self, operation: &str, dialect: &str) -> Option<Value> {
        let query = format!("?tools=all&dialect={dialect}");
        let tools = self.gateway.mcp_request(&query, "tools/list", &json!({}));
        let name = operation.replacen('.', "__", 1);
        let mut tools = tools["tools"].as_array().unwrap().iter();
        tools.find(|tool| tool["name"] == *name).unwrap().get("outputSchema").cloned()
    }
}

/// Returns the document of the service.
fn document(server: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"id": {"type": "integer"}, "total": {"type": "number"}},
        "required": ["id", "total"],
    });
    let created =
        json!({"description": "The order.", "content": {"application/json": {"schema": schema}}});
    let events =
        json!({"description": "Orders.", "content": {"text/event-stream": {"itemSchema": schema}}});
    json!({
        "openapi": "3.2.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": server}],
        "paths": {
            "/order": {"post": {"operationId": "order", "responses": {"201": created}}},
            "/orders": {"get": {"operationId": "orders", "responses": {"200": events}}},
        },
    })
}

fn path_of(operation: &str) -> String {
    format!("/api/{}", operation.replacen('.', "/", 1))
}

fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Returns the value of the header with the number of warnings.
fn warnings_header(head: &str) -> Option<&str> {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(name, _)| *name == "toolpost-warnings").map(|(_, value)| value)
}

fn warning_paths(warnings: &Value) -> Vec<&str> {
    let warnings = warnings.as_array().unwrap_or_else(|| panic!("{warnings}"));
    let mut paths: Vec<_> = warnings.iter().map(|one| one["path"].as_str().unwrap()).collect();
    paths.sort_unstable();
    paths
}

#[test]
fn output_mismatch_is_a_success_at_every_endpoint() {
    let fixture = Fixture::start("output-advisory", "normalize");
    let gateway = &fixture.gateway;
    let paths = ["/id", "/total"];
    for operation in OPERATIONS {
        let nested = json!({"id": operation, "input": {}});
        for (path, input) in
            [(path_of(operation), json!({})), (path_of("hub.call"), nested.clone())]
        {
            let (head, body) = gateway.exchange(&path, &input);
            assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}{body}");
            assert_eq!((warnings_header(&head), parse(&body)), (Some("2"), order()), "{path}");
            let (head, body) = gateway.exchange(&format!("{path}?envelope=true"), &input);
            let envelope = parse(&body);
            assert_eq!((warnings_header(&head), &envelope["data"]), (None, &order()), "{path}");
            assert_eq!(warning_paths(&envelope["warnings"]), paths, "{path}");
        }
        for (called, input) in [(operation, &json!({})), ("hub.call", &nested)] {
            let outcome = gateway.call_over_hub(called, input);
            assert_eq!(outcome["data"], order(), "{called}");
            assert_eq!(warning_paths(&outcome["warnings"]), paths, "{called}");
        }
        let arguments = ["call", operation, "{}", "--output", "data", "--url", &gateway.url()];
        let printed = run(&mut gateway.command(&arguments));
        assert_eq!((printed.status.code(), crate::json(&printed)), (Some(0), order()));
        let warning = stderr(&printed);
        assert_eq!(warning.matches("does not match its schema").count(), 1, "{warning}");
        assert!(warning.contains("(and 1 more"), "{warning}");
        for (dialect, called, input) in DIALECTS.iter().flat_map(|dialect| {
            [(dialect, operation, json!({})), (dialect, "hub.call", nested.clone())]
        }) {
            let query = format!("?tools=all&dialect={dialect}");
            let result = gateway.call_tool(&query, called, &input);
            let row = format!("{called} {dialect}: {result}");
            assert_eq!(result.get("isError"), None, "{row}");
            assert_eq!(warning_paths(&result["_meta"]["toolpost/warnings"]), paths, "{row}");
            assert!(result["content"].to_string().contains("Warning: /"), "{row}");
            let structured = &result["structuredContent"];
            let is_wrapped = result["_meta"]["toolpost/wrapped"] == true;
            match (*dialect, called) {
                ("data", "hub.call") => assert_eq!(*structured, order(), "{row}"),
                ("data", _) => {
                    assert_eq!(
                        (structured, is_wrapped),
                        (&json!({"result": order()}), true),
                        "{row}"
                    );
                }
                ("tool-envelope-v1", _) => {
                    let decoded = crate::run_with_stdin(&["decode"], &result.to_string());
                    assert_eq!(crate::json(&decoded)["payload"], order(), "{row}");
                }
                _ => assert_eq!((&structured["data"], is_wrapped), (&order(), false), "{row}"),
            }
        }
        // Four over HTTP, two over the hub, one of the command line, eight over MCP.
        let calls = fixture.calls(operation);
        assert_eq!(calls.len(), 15, "{calls:?}");
        for call in &calls {
            assert_eq!(call["outcome"], "ok", "{call}");
            assert_eq!(call["warnings"].as_array().map(Vec::len), Some(2), "{call}");
        }
        let source = operation.split('.').next().unwrap();
        let labels = format!("{{source=\"{source}\",kind=\"mutation\"");
        let counted = fixture.metric(&format!("toolpost_calls_total{labels},outcome=\"ok\"}} "));
        assert_eq!(counted, Some(15));
        let warned = fixture.metric(&format!("toolpost_call_warnings_total{labels}}} "));
        assert_eq!(warned, Some(30));
    }
    let table = Terminal::open(&fixture.folder).run("toolpost log --op shop.order");
    assert!(table.contains("ok (2 warnings)"), "{table}");
}

#[test]
fn enforced_output_mismatch_fails_with_the_data() {
    let fixture = Fixture::start("output-enforced", "enforce");
    let gateway = &fixture.gateway;
    for operation in OPERATIONS {
        let nested = json!({"id": operation, "input": {}});
        let mut errors = Vec::new();
        for (path, input) in
            [(path_of(operation), json!({})), (path_of("hub.call"), nested.clone())]
        {
            for query in ["", "?envelope=true"] {
                let (status, body) = gateway.post(&format!("{path}{query}"), &input);
                assert_eq!(status, 502, "{path}{query}: {body}");
                errors.push(parse(&body)["error"].clone());
            }
        }
        errors.push(gateway.call_over_hub(operation, &json!({}))["error"].clone());
        for dialect in DIALECTS {
            let query = format!("?tools=all&dialect={dialect}");
            let result = gateway.call_tool(&query, operation, &json!({}));
            assert_eq!(result["isError"], true, "{dialect}: {result}");
            let text = result["content"].to_string();
            assert!(text.contains("OUTPUT_VALIDATION_FAILED") && text.contains("A-7"), "{text}");
            match dialect {
                "ok" => {
                    let structured = &result["structuredContent"];
                    assert_eq!(structured["ok"], false, "{result}");
                    errors.push(structured["error"].clone());
                }
                "tool-envelope-v1" => assert_eq!(result.get("structuredContent"), None),
                _ => {
                    assert_eq!(result.get("structuredContent"), None, "{dialect}: {result}");
                    errors.push(result["_meta"]["toolpost/error"].clone());
                }
            }
        }
        for error in &errors {
            assert_eq!(error["code"], "OUTPUT_VALIDATION_FAILED", "{error}");
            let details = &error["details"];
            assert_eq!(
                (&details["data"], &details["mayHaveRun"]),
                (&order(), &json!(true)),
                "{error}"
            );
            assert_eq!(warning_paths(&details["issues"]), ["/id", "/total"], "{error}");
        }
        for call in fixture.calls(operation) {
            assert_eq!(
                (&call["outcome"], &call["code"]),
                (&json!("error"), &json!("OUTPUT_VALIDATION_FAILED"))
            );
        }
        let published = fixture.published_schema(operation, "data").unwrap();
        assert_eq!(published["required"], json!(["id", "total"]), "{published}");
    }
}

#[test]
fn raw_output_publishes_no_schema_and_is_not_checked() {
    let fixture = Fixture::start("output-raw", "raw");
    let gateway = &fixture.gateway;
    for operation in OPERATIONS {
        for dialect in DIALECTS {
            assert_eq!(fixture.published_schema(operation, dialect), None, "{operation} {dialect}");
            let result =
                gateway.call_tool(&format!("?tools=all&dialect={dialect}"), operation, &json!({}));
            assert_eq!((result.get("_meta"), result.get("isError")), (None, None), "{result}");
        }
        let (head, body) = gateway.exchange(&path_of(operation), &json!({}));
        assert_eq!((warnings_header(&head), parse(&body)), (None, order()), "{head}");
        let envelope = gateway.envelope(operation, &json!({}));
        assert_eq!((envelope.get("warnings"), &envelope["data"]), (None, &order()), "{envelope}");
    }
}

/// The relaxed schema describes the data but requires nothing of it.
#[test]
fn advisory_output_publishes_relaxed_schema() {
    let fixture = Fixture::start("output-relaxed", "normalize");
    for operation in OPERATIONS {
        let published = fixture.published_schema(operation, "data").unwrap();
        assert_eq!(published["type"], "object", "{published}");
        assert_eq!(published["properties"]["id"]["type"], json!(["integer", "null"]));
        assert_eq!(published.get("required"), None, "{published}");
        let description = published["description"].as_str().unwrap();
        assert!(
            description.contains("Relaxed") && description.contains("hub.schema"),
            "{published}"
        );
        for (dialect, pointer) in
            [("envelope", "/properties/data"), ("ok", "/oneOf/0/properties/data")]
        {
            let published = fixture.published_schema(operation, dialect).unwrap();
            assert_eq!(published.pointer(&format!("{pointer}/anyOf/1")), Some(&json!({})));
        }
        let spec = fixture.gateway.call_over_hub("hub.schema", &json!({"id": operation}));
        assert_eq!(spec["data"]["outputSchema"]["required"], json!(["id", "total"]), "{spec}");
    }
    let (_, document) = fixture.gateway.get_with("/openapi.json", &[]);
    let created = &parse(&document)["paths"]["/api/shop/order"]["post"]["responses"]["200"];
    assert!(created["headers"]["Toolpost-Warnings"].is_object(), "{created}");
}

#[test]
fn subscription_reports_warning_count_in_last_event() {
    let fixture = Fixture::start("output-stream", "normalize");
    let gateway = &fixture.gateway;
    let (head, body) = gateway.exchange(&path_of("shop.orders"), &json!({}));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
    let data: Vec<Value> =
        body.lines().filter_map(|line| line.strip_prefix("data: ")).map(parse).collect();
    let values = [json!({"id": 1, "total": 2}), order(), json!({"id": "A-8", "total": 1})];
    let [sent @ .., last] = data.as_slice() else { panic!("{body}") };
    assert_eq!((sent, last), (&values[..], &json!({"warnings": 3})), "{body}");
    assert!(body.contains("event: complete\n"), "{body}");
    let url = format!("http://{}/mcp?tools=all", gateway.address);
    let result = call_tool(&url, "shop__orders", &json!({}));
    assert_eq!(result["structuredContent"], json!({"result": values}), "{result}");
    assert_eq!(
        warning_paths(&result["_meta"]["toolpost/warnings"]),
        ["/1/id", "/1/total", "/2/id"]
    );
    let arguments = ["subscribe", "shop.orders", "--url", &gateway.url()];
    let printed = run(&mut gateway.command(&arguments));
    let warning = stderr(&printed);
    assert_eq!(warning.matches("does not match its schema").count(), 1, "{warning}");
    gateway.wait_for_calls("shop.orders", 3);
    for call in fixture.calls("shop.orders") {
        assert_eq!(call["warningCount"], 3, "{call}");
    }
    let warned = "toolpost_call_warnings_total{source=\"shop\",kind=\"subscription\"} ";
    assert_eq!(fixture.metric(warned), Some(9));
}
