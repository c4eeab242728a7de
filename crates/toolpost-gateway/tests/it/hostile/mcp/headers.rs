//! Invalid and forged headers, and headers that contradict the body.

use reqwest::Method;
use serde_json::{Value, json};
use toolpost::{Handler, HandlerOutput, Operation, OperationKind, OperationSpec, Schema};
use toolpost_gateway::GatewaySettings;

use super::super::{BackgroundClient, TestGateway};
use super::McpTester;

type Header = (&'static str, &'static [u8]);

const VERSION: Header = ("mcp-protocol-version", b"2026-07-28");
const CALL: Header = ("mcp-method", b"tools/call");
const NAME: Header = ("mcp-name", b"t__echo");
const REGION: Header = ("mcp-param-region", b"west");
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

/// An operation with an argument that is also sent as a header.
fn echo() -> Operation {
    let mut spec = OperationSpec::new(&"t.echo".parse().unwrap(), OperationKind::Query);
    let region = json!({"type": "string", "x-mcp-header": "Region"});
    spec.input_schema =
        Schema::new(json!({"type": "object", "properties": {"region": region}})).unwrap();
    let echo = Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input)));
    Operation::from_spec(spec).handler(echo).build().unwrap()
}

fn modern(arguments: &Value) -> String {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "t__echo", "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

/// Each row: the headers, the body, and the expected status, error code and text.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_mcp_headers_are_rejected_with_reason() {
    const JSON: Header = ("content-type", b"application/json");
    let modern = modern(&json!({"region": "west"}));
    let modern = modern.as_str();
    let good = (200, 0, r#""result""#);
    let twice = (400, -32_020, "must appear exactly once");
    let rows: Vec<(Vec<Header>, &str, (u16, i64, &str))> = vec![
        (vec![JSON, VERSION, CALL, NAME, REGION], modern, good),
        (vec![JSON], PING, good),
        // `Content-Type` and `Accept`.
        (
            vec![("content-type", b"text/plain")],
            PING,
            (415, 0, "must be application/json, not `text/plain`"),
        ),
        (
            vec![("content-type", b"application/x-www-form-urlencoded")],
            PING,
            (415, 0, "application/json"),
        ),
        (
            vec![("content-type", b"multipart/form-data; boundary=x")],
            PING,
            (415, 0, "application/json"),
        ),
        (vec![("content-type", b"\xff")], PING, (415, 0, "application/json")),
        (vec![JSON, ("accept", b"text/html")], PING, (406, 0, "must accept application/json")),
        (vec![JSON, ("accept", b"")], PING, (406, 0, "must accept application/json")),
        (vec![JSON, ("accept", b"\xff")], PING, (406, 0, "must accept application/json")),
        (vec![JSON, ("accept", b"text/event-stream")], PING, (200, 0, "data: {")),
        // Versions.
        (
            vec![JSON, ("mcp-protocol-version", b"1999-01-01")],
            PING,
            (400, -32_022, "`1999-01-01` is not supported"),
        ),
        (vec![JSON, ("mcp-protocol-version", b"")], PING, good),
        (vec![JSON, ("mcp-protocol-version", b"\xff")], PING, twice),
        (
            vec![
                JSON,
                ("mcp-protocol-version", b"2025-11-25"),
                ("mcp-protocol-version", b"2025-06-18"),
            ],
            PING,
            twice,
        ),
        (vec![JSON, VERSION], PING, (400, -32_602, "io.modelcontextprotocol/protocolVersion")),
        (vec![JSON, CALL, NAME, REGION], modern, (400, -32_020, "MCP-Protocol-Version is missing")),
        (
            vec![JSON, ("mcp-protocol-version", b"2025-11-25"), CALL, NAME, REGION],
            modern,
            (400, -32_020, "is `2025-11-25`, but the body has `2026-07-28`"),
        ),
        // `Mcp-Method` and `Mcp-Name`.
        (vec![JSON, VERSION, NAME, REGION], modern, (400, -32_020, "Mcp-Method is missing")),
        (
            vec![JSON, VERSION, ("mcp-method", b"tools/list"), NAME, REGION],
            modern,
            (400, -32_020, "Mcp-Method is `tools/list`"),
        ),
        (
            vec![JSON, VERSION, ("mcp-method", b"Tools/Call"), NAME, REGION],
            modern,
            (400, -32_020, "Mcp-Method is `Tools/Call`"),
        ),
        (vec![JSON, VERSION, CALL, CALL, NAME, REGION], modern, twice),
        (vec![JSON, VERSION, CALL, REGION], modern, (400, -32_020, "Mcp-Name is missing")),
        (
            vec![JSON, VERSION, CALL, ("mcp-name", b"t__other"), REGION],
            modern,
            (400, -32_020, "Mcp-Name is `t__other`"),
        ),
        (vec![JSON, VERSION, CALL, ("mcp-name", b"=?base64?dF9fZWNobw==?="), REGION], modern, good),
        (
            vec![JSON, VERSION, CALL, ("mcp-name", b"=?base64?dF9f!!?="), REGION],
            modern,
            (400, -32_020, "Mcp-Name cannot be decoded"),
        ),
        (
            vec![JSON, VERSION, CALL, ("mcp-name", b"=?base64?/w==?="), REGION],
            modern,
            (400, -32_020, "Mcp-Name cannot be decoded"),
        ),
        (vec![JSON, VERSION, CALL, ("mcp-name", b"\xff"), REGION], modern, twice),
        // Arguments.
        (vec![JSON, VERSION, CALL, NAME], modern, (400, -32_020, "Mcp-Param-Region")),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"east")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"West")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"=?base64?d2VzdA==?=")],
            modern,
            good,
        ),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"=?base64?d2VzdA=?=")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"=?BASE64?d2VzdA==?=")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (
            vec![JSON, VERSION, CALL, NAME, ("mcp-param-region", b"\xff")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (
            vec![JSON, VERSION, CALL, NAME, REGION, ("mcp-param-region", b"east")],
            modern,
            (400, -32_020, "Mcp-Param-Region"),
        ),
        (vec![JSON, VERSION, CALL, NAME, REGION, ("mcp-param-nobody", b"x")], modern, good),
        // `Host` and `Origin`.
        (
            vec![JSON, ("host", b"evil.example")],
            PING,
            (403, 0, "the Host header is not a loopback address"),
        ),
        (vec![JSON, ("host", b"localhost.evil.example")], PING, (403, 0, "Host")),
        (vec![JSON, ("host", b"2130706433")], PING, (403, 0, "Host")),
        (
            vec![JSON, ("origin", b"https://evil.example")],
            PING,
            (403, 0, "pages of other origins are not allowed"),
        ),
        (vec![JSON, ("origin", b"null")], PING, (403, 0, "other origins")),
        (
            vec![JSON, ("origin", b"http://localhost:80@evil.example")],
            PING,
            (403, 0, "other origins"),
        ),
        (vec![JSON, ("origin", b"http://127.0.0.1.evil.example")], PING, (403, 0, "other origins")),
        (
            vec![JSON, ("origin", b"http://localhost"), ("origin", b"https://evil.example")],
            PING,
            (403, 0, "other origins"),
        ),
        (vec![JSON, ("origin", b"http://localhost:3000")], PING, (403, 0, "other origins")),
    ];
    let gateway = TestGateway::start_with([echo()], GatewaySettings::default()).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let tester = McpTester::new(&gateway);
    let mut wrong = Vec::new();
    for (headers, body, expected) in rows {
        let escaped_headers: Vec<_> =
            headers.iter().map(|(name, value)| (name, value.escape_ascii().to_string())).collect();
        let verdict = tester.send(Method::POST, &headers, body.into()).await;
        verdict.check(&format!("{escaped_headers:?}"), expected, &mut wrong);
    }
    eprintln!("{} calls beside wrong headers", healthy_client.stop().await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(gateway.stop().await.in_time);
}

/// Each row: a method and the expected reply without a session.
#[tokio::test]
async fn http_method_without_session_is_rejected() {
    let gateway = TestGateway::start().await;
    let tester = McpTester::new(&gateway);
    let mut wrong = Vec::new();
    for (method, expected) in [
        (Method::GET, (405, -32_600, "use POST")),
        (Method::DELETE, (405, -32_600, "use POST")),
        (Method::PUT, (405, -32_600, "POST, GET, DELETE")),
        (Method::OPTIONS, (405, -32_600, "POST, GET, DELETE")),
    ] {
        let verdict = tester.send(method.clone(), &[], Vec::new()).await;
        verdict.check(method.as_str(), expected, &mut wrong);
    }
    let mut query = McpTester::new(&gateway);
    for (search, message) in [
        ("?tools=some", "`tools`"),
        ("?x=1", "expected `tools`"),
        ("?source=none", "unknown source `none`"),
    ] {
        query.1 = gateway.url(&format!("/mcp{search}"));
        query.post(&[], PING).await.check(search, (400, -32_602, message), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    gateway.stop().await;
}
