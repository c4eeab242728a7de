//! `POST /api/{namespace}/{name}`: responses, their forms, and the status of every error.

mod cancellation;
mod content_negotiation;
mod methods;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use toolpost::{
    ContentBlock, Envelope, Handler, HandlerOutput, McpMeta, Operation, OperationKind,
    OperationSpec, Payload,
};
use toolpost_gateway::GatewaySettings;

use super::{TestGateway, client};

#[tokio::test]
async fn response_is_data_or_envelope() {
    let gateway = TestGateway::start().await;
    let input = json!({"a": 2, "b": 3});
    let url = gateway.url("/api/demo/add");
    let data = client().post(&url).json(&input).send().await.unwrap();
    assert_eq!(data.headers()["content-type"], "application/json");
    assert!(data.headers().contains_key("x-request-id"));
    assert_eq!(data.text().await.unwrap(), r#"{"sum":5}"#);

    let requests = [
        client().post(format!("{url}?envelope=true")),
        client().post(&url).header("accept", "application/vnd.toolpost.envelope+json"),
    ];
    for request in requests {
        let response = request.json(&input).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/vnd.toolpost.envelope+json");
        let envelope: Envelope = response.json().await.unwrap();
        assert_eq!(envelope.data, json!({"sum": 5}));
        assert_eq!(envelope.meta.source(), "local");
    }
    assert!(gateway.stop().await.in_time);
}

#[tokio::test]
async fn envelope_contains_warnings() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/api/demo/messy?envelope=true");
    let body: Value = client().post(url).send().await.unwrap().json().await.unwrap();
    let paths: Vec<_> = body["warnings"].as_array().unwrap().iter().map(|w| &w["path"]).collect();
    assert!(paths.contains(&&json!("/score")), "{body}");
    gateway.stop().await;
}

/// Each row: method, path, content type, body, expected status, and part of the detail.
#[tokio::test]
async fn invalid_requests_return_problem_with_status() {
    let mut settings = GatewaySettings::default();
    settings.max_body_bytes = 1_000;
    let gateway = TestGateway::start_with([], settings).await;
    let json = Some("application/json");
    let large = format!("\"{}\"", "x".repeat(2_000));
    let deep = format!("{{\"a\":{}1{}, \"b\":1}}", "[".repeat(400), "]".repeat(400));
    let rows: [(Method, &str, Option<&str>, &[u8], u16, &str); 23] = [
        (Method::POST, "/api/demo/%FF", json, b"{}", 400, "UTF-8"),
        (Method::POST, "/api/demo.x/add", json, b"{}", 404, "contain a dot"),
        (Method::POST, "/health", json, b"{}", 405, "GET"),
        (Method::POST, "/api/demo/none", json, b"{}", 404, "Operation not found: demo.none"),
        (Method::POST, "/api/Demo/add", json, b"{}", 404, "Operation not found"),
        (Method::POST, "/api/demo", json, b"{}", 404, "no such path"),
        (Method::GET, "/nowhere", None, b"", 404, "no such path"),
        (Method::GET, "/api/demo/note", None, b"", 405, "POST, OPTIONS"),
        (Method::PUT, "/api/demo/none", json, b"{}", 404, "Operation not found: demo.none"),
        (Method::POST, "/api/demo/add", json, b"{\"a\":", 400, "not JSON"),
        (Method::POST, "/api/demo/add", json, b"\"\xff\"", 400, "not JSON"),
        (Method::POST, "/api/demo/add", json, b"{} {}", 400, "not JSON"),
        (Method::POST, "/api/demo/add", json, deep.as_bytes(), 400, "nested 128 levels or deeper"),
        (Method::POST, "/api/demo/add", json, b"{\"a\":1,\"a\":2}", 400, "duplicate key `a`"),
        (Method::POST, "/api/demo/add", json, b"1e999", 400, "out of range"),
        (Method::POST, "/api/demo/add", json, b"", 422, "invalid input for demo.add"),
        (Method::POST, "/api/demo/add", Some("text/plain"), b"{}", 415, "text/plain"),
        (Method::POST, "/api/demo/add", json, large.as_bytes(), 413, "limit of 1000 bytes"),
        (Method::POST, "/api/demo/add?a=1", json, b"{}", 400, "unknown query parameter `a`"),
        (
            Method::POST,
            "/api/demo/add",
            Some("application/json; charset=latin1"),
            b"{}",
            415,
            "UTF-8",
        ),
        (Method::POST, "/api/demo/add?envelope=perhaps", json, b"{}", 400, "envelope"),
        (Method::POST, "/api/demo/fail", json, b"{}", 409, "always fails"),
        // A call through `hub.call` returns the same error.
        (Method::POST, "/api/hub/call", json, b"{\"id\":\"demo.fail\"}", 409, "always fails"),
    ];
    for (method, path, content_type, body, status, message) in rows {
        let mut request = client().request(method.clone(), gateway.url(path)).body(body.to_vec());
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let response = request.send().await.unwrap();
        let row = format!("{method} {path} {}", String::from_utf8_lossy(body));
        assert_eq!(response.status().as_u16(), status, "{row}");
        assert_eq!(response.headers()["content-type"], "application/problem+json", "{row}");
        let id = response.headers().get("x-request-id").cloned();
        let problem: Value = response.json().await.unwrap();
        if path.starts_with("/api/") {
            assert_eq!(problem["requestId"], id.unwrap().to_str().unwrap(), "{row}");
        }
        assert_eq!(problem["status"], json!(status), "{row}");
        assert!(problem["detail"].as_str().unwrap().contains(message), "{row}: {problem}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn problem_contains_error_and_request_id() {
    let gateway = TestGateway::start().await;
    let request = client().post(gateway.url("/api/demo/add")).header("x-request-id", "mine-1");
    let response = request.json(&json!({"a": "x"})).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(response.headers()["x-request-id"], "mine-1");
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["requestId"], "mine-1");
    assert_eq!(problem["error"]["code"], "VALIDATION_ERROR");
    assert_eq!(problem["error"]["retryable"], false);
    let mut paths: Vec<_> = problem["error"]["details"]
        .as_array()
        .unwrap()
        .iter()
        .map(|issue| issue["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/a", "/b"]);
    gateway.stop().await;
}

#[tokio::test]
async fn cross_site_requests_are_rejected() {
    let gateway = TestGateway::start().await;
    let url = gateway.url("/api/demo/add");
    let own = format!("http://{}", gateway.address);
    for (name, value, status) in [
        ("host", "evil.example", 403),
        ("host", "localhost:7411", 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
        ("origin", &own, 200),
        ("origin", "http://localhost:3000", 403),
        ("origin", "http://127.0.0.1:3000", 403),
        ("sec-fetch-site", "same-site", 403),
        ("sec-fetch-site", "same-origin", 200),
    ] {
        let request = client().post(&url).header(name, value).json(&json!({"a": 1, "b": 1}));
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "{name}: {value}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn operation_name_is_one_encoded_segment() {
    let spec = OperationSpec::new(&"files.issues/list a.b".parse().unwrap(), OperationKind::Query);
    let echo = Operation::from_spec(spec)
        .handler(Handler::once_fn(async |_, input| Ok(HandlerOutput::Dynamic(input))))
        .build()
        .unwrap();
    let gateway = TestGateway::start_with([echo], GatewaySettings::default()).await;
    let url = gateway.url("/api/files/issues%2Flist%20a.b");
    // The body is not parsed, so it is returned byte for byte.
    let text = "{ \"a\" : [1.0 , 1e2] }";
    let response = client().post(url).header("content-type", "application/json").body(text);
    assert_eq!(response.send().await.unwrap().text().await.unwrap(), text);
    gateway.stop().await;
}

#[tokio::test]
async fn tool_failure_is_problem_or_error_envelope() {
    let spec = OperationSpec::new(&"t.tool".parse().unwrap(), OperationKind::Query);
    let failing = Handler::once_fn(async |_, _| {
        let mut meta = McpMeta::new(vec![ContentBlock::text("no such file")]);
        meta.is_error = true;
        Ok(HandlerOutput::Envelope(Envelope::mcp(Payload::from(json!([])), meta)))
    });
    let tool = Operation::from_spec(spec).handler(failing).build().unwrap();
    let gateway = TestGateway::start_with([tool], GatewaySettings::default()).await;
    let response = client().post(gateway.url("/api/t/tool")).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    let problem: Value = response.json().await.unwrap();
    assert_eq!(problem["error"]["details"]["content"][0]["text"], "no such file");
    let url = gateway.url("/api/t/tool?envelope=true");
    let envelope: Envelope = client().post(url).send().await.unwrap().json().await.unwrap();
    assert!(envelope.is_error());
    gateway.stop().await;
}

#[tokio::test]
async fn aborted_request_does_not_affect_others() {
    let mut settings = GatewaySettings::default();
    settings.header_timeout = std::time::Duration::from_millis(200);
    settings.body_timeout = std::time::Duration::from_millis(200);
    let gateway = TestGateway::start_with([], settings).await;
    let halves = [
        "POST /api/demo/add HT",
        "POST /api/demo/add HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{",
    ];
    let mut slow = Vec::new();
    for half in halves {
        let mut stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        slow.push(stream);
    }
    let request = client().post(gateway.url("/api/demo/add")).json(&json!({"a": 1, "b": 1}));
    assert_eq!(request.send().await.unwrap().status(), StatusCode::OK);
    for mut stream in slow {
        let mut response = Vec::new();
        stream.read_to_end(&mut response).await.unwrap();
        let response = String::from_utf8_lossy(&response);
        assert!(response.is_empty() || response.contains(" 408 "), "{response}");
    }
    assert!(gateway.stop().await.in_time);
}
