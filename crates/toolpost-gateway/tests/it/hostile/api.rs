//! Hostile API requests, each as raw bytes, beside a regular client that must not be affected.

use std::time::Duration;

use toolpost_gateway::GatewaySettings;

use super::super::spokes::with_timeout;
use super::{BackgroundClient, RawClient, TestGateway, add_request};

fn json(body: &str) -> String {
    let length = body.len();
    add_request(&format!("content-type: application/json\r\ncontent-length: {length}\r\n"), body)
}

fn typed(content_type: &str, body: &str) -> String {
    let length = body.len();
    add_request(&format!("content-type: {content_type}\r\ncontent-length: {length}\r\n"), body)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// Each row: a description, the raw request, the expected status, and part of the body.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_api_requests_return_expected_status() {
    let gateway = TestGateway::start().await;
    let healthy_client = BackgroundClient::start(&gateway);
    let deep = |open: &str, close: &str, levels: usize| {
        format!("{{\"a\":{}1{},\"b\":1}}", open.repeat(levels), close.repeat(levels))
    };
    let good = r#"{"a":1,"b":2}"#;
    let query = |parameters: usize| {
        let many: Vec<_> = (0..parameters).map(|n| format!("p{n}=1")).collect();
        get(&format!("/api/demo/add?{}", many.join("&")))
    };
    let rows: Vec<(&str, Vec<u8>, u16, &str)> = vec![
        ("valid call", json(good).into(), 200, "{\"sum\":3}"),
        // Bodies.
        ("duplicate key", json(r#"{"a":1,"b":2,"a":3}"#).into(), 400, "duplicate key `a`"),
        ("duplicate key with an escape", json(r#"{"a":1,"\u0061":3}"#).into(), 400, "`a`"),
        ("nested arrays", json(&deep("[", "]", 2_000)).into(), 400, "128 levels"),
        ("a million nested arrays", json(&deep("[", "]", 1_000_000)).into(), 400, "128 levels"),
        ("nested objects", json(&deep("{\"a\":", "}", 100_000)).into(), 400, "128 levels"),
        ("unclosed arrays", json(&"[".repeat(1_000_000)).into(), 400, "128 levels"),
        ("number out of range", json(r#"{"a":1e999,"b":1}"#).into(), 400, "out of range"),
        (
            "number with many digits",
            json(&format!("{{\"a\":{}}}", "9".repeat(100_000))).into(),
            400,
            "out of range",
        ),
        ("NaN", json(r#"{"a":NaN,"b":1}"#).into(), 400, "not JSON"),
        ("truncated document", json("{\"a\":1").into(), 400, "not JSON"),
        ("two documents", json("{}{}").into(), 400, "not JSON"),
        ("byte order mark", json("\u{feff}{}").into(), 400, "not JSON"),
        ("lone surrogate", json(r#"{"a":"\ud800"}"#).into(), 400, "not JSON"),
        ("unescaped NUL", json("{\"a\":\"\0\"}").into(), 400, "not JSON"),
        (
            "invalid UTF-8",
            [json("").replace("length: 0", "length: 3").into_bytes(), b"\"\xff\"".to_vec()]
                .concat(),
            400,
            "not JSON",
        ),
        (
            "overlong UTF-8",
            [json("").replace("length: 0", "length: 4").into_bytes(), b"\"\xc0\xaf\"".to_vec()]
                .concat(),
            400,
            "not JSON",
        ),
        ("UTF-16", typed("application/json; charset=utf-16", good).into(), 415, "UTF-8"),
        // Types.
        (
            "URL-encoded form",
            typed("application/x-www-form-urlencoded", "a=1&b=2").into(),
            415,
            "x-www-form",
        ),
        (
            "multipart form",
            typed("multipart/form-data; boundary=x", "--x--").into(),
            415,
            "multipart",
        ),
        ("plain text", typed("text/plain", good).into(), 415, "text/plain"),
        ("empty content type", typed("", good).into(), 415, "application/json"),
        ("uppercase content type", typed("APPLICATION/JSON; CHARSET=UTF-8", good).into(), 200, "3"),
        ("content type with +json", typed("application/problem+json", good).into(), 200, "3"),
        ("unknown content type", typed("application/jsonx", good).into(), 415, "jsonx"),
        (
            "gzip body",
            add_request("content-encoding: gzip\r\ncontent-length: 2\r\n", "{}").into(),
            415,
            "Content-Encoding",
        ),
        (
            "gzip applied twice",
            add_request("content-encoding: gzip, gzip\r\ncontent-length: 2\r\n", "{}").into(),
            415,
            "Content-Encoding",
        ),
        // Sizes.
        (
            "content-length above the limit",
            add_request("content-length: 4194305\r\n", "").into(),
            413,
            "4194304 bytes",
        ),
        // Paths.
        ("dot segments", get("/api/demo/../../health").into(), 404, "no such path"),
        ("encoded dot segments", get("/api/demo/%2e%2e%2fhealth").into(), 404, "not found"),
        ("name of two dots", get("/api/demo/..").into(), 404, "not found"),
        ("two slashes", get("/api//demo/add").into(), 404, "no such path"),
        ("trailing slash", get("/api/demo/add/").into(), 404, "no such path"),
        ("NUL in the name", get("/api/demo/add%00").into(), 404, "not found"),
        ("a line break in the name", get("/api/demo/a%0d%0ab").into(), 404, "not found"),
        ("invalid UTF-8 in the name", get("/api/demo/%ff").into(), 400, "UTF-8"),
        ("doubly encoded name", get("/api/demo/%2561dd").into(), 404, "not found"),
        ("encoded name", get("/api/demo/%61dd?a=1&b=2").into(), 200, "3"),
        ("a dot in the namespace", get("/api/demo.a/dd?a=1&b=2").into(), 404, "contain a dot"),
        ("an encoded dot in the namespace", get("/api/demo%2ea/dd").into(), 404, "contain a dot"),
        (
            "a long name",
            get(&format!("/api/demo/{}", "x".repeat(10_000))).into(),
            404,
            "at most 200",
        ),
        ("lone percent sign", get("/api/demo/%").into(), 400, "percent"),
        // Queries.
        ("invalid UTF-8 in the query", get("/api/demo/add?a=%ff&b=1").into(), 400, "UTF-8"),
        ("incomplete percent encoding", get("/api/demo/add?a=%4&b=1").into(), 400, "percent"),
        (
            "duplicate parameter",
            get("/api/demo/add?a=1&a=2&b=1").into(),
            422,
            "duplicate parameter",
        ),
        (
            "an unknown parameter",
            get("/api/demo/add?a=1&b=1&__proto__=1").into(),
            422,
            "/__proto__",
        ),
        ("an unknown parameter in brackets", get("/api/demo/add?a[]=1&b=1").into(), 422, "/a[]"),
        ("thousands of parameters", query(7_000).into(), 422, "unknown parameter"),
        (
            "query parameter with a body",
            json(good).replace("/add", "/add?a=5").into(),
            400,
            "parameter `a`",
        ),
        (
            "duplicate option",
            json(good).replace("/add", "/add?envelope=true&envelope=false").into(),
            400,
            "duplicate",
        ),
        // Headers.
        (
            "invalid timeout",
            add_request("request-timeout: soon\r\n", "").into(),
            400,
            "Request-Timeout",
        ),
        (
            "two timeouts",
            add_request("request-timeout: 1\r\nrequest-timeout: 2\r\n", "").into(),
            400,
            "Request-Timeout",
        ),
        ("unsupported Accept", add_request("accept: image/png\r\n", "").into(), 406, "Accept"),
        ("malformed Accept", add_request("accept: ;;;,,,q=\r\n", "").into(), 406, "Accept"),
        (
            "a long Accept",
            json(good)
                .replace("host:", &format!("accept: {}*/*\r\nhost:", "a/b;q=0.1,".repeat(5_000)))
                .into(),
            200,
            "3",
        ),
    ];
    for (what, bytes, status, message) in rows {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(&bytes).await;
        let response = raw.recv_response().await.unwrap_or_else(|| panic!("{what}: no response"));
        assert_eq!(response.status, status, "{what}: {}", response.body);
        assert!(response.body.contains(message), "{what}: {}", response.body);
        assert!(response.body.len() < 20_000, "{what}: {} bytes", response.body.len());
    }
    eprintln!("{} calls beside odd requests to the API", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}

/// Slowloris: a client that sends single bytes times out and does not delay others.
#[tokio::test(flavor = "multi_thread")]
async fn slowloris_request_times_out() {
    let mut settings = GatewaySettings::default();
    settings.header_timeout = Duration::from_millis(300);
    settings.body_timeout = Duration::from_millis(300);
    let gateway = TestGateway::start_with([], settings).await;
    let healthy_client = BackgroundClient::start(&gateway);
    let slowly = async |at_once: usize, text: String| {
        let mut raw = RawClient::connect(gateway.address).await;
        let (first, rest) = text.split_at(at_once);
        raw.send(first).await;
        for byte in rest.bytes() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let written = tokio::io::AsyncWriteExt::write_all(&mut raw.0, &[byte]).await;
            if written.is_err() {
                break;
            }
        }
        raw.recv_response().await.map(|response| response.status)
    };
    let body = format!("{{\"a\":1,{}\"b\":2}}", " ".repeat(200));
    let request = json(&body);
    let head = request.len() - body.len();
    let (in_head, in_body) = with_timeout("slow clients", async {
        tokio::join!(slowly(0, request.clone()), slowly(head, request.clone()))
    })
    .await;
    assert_eq!(in_head, None, "a slow request head gets no response");
    assert_eq!(in_body, Some(408));
    eprintln!("{} calls beside slow clients", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}
