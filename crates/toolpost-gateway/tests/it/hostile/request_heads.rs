//! Request heads that are unusual, ambiguous or too large, and the response to each.

use serde_json::Value;
use toolpost_gateway::GatewaySettings;

use super::{BackgroundClient, HEALTH_REQUEST, RawClient, RawResponse, TestGateway, add_request};

const SUM: &str = r#"{"a":1,"b":2}"#;

/// State of the connection after the responses.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ConnectionState {
    Open,
    Closed,
}
use ConnectionState::{Closed, Open};

fn get(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\n{headers}\r\n")
}

/// Each row: a description, the raw request, the expected statuses, and the connection state.
#[tokio::test]
async fn odd_request_heads_return_expected_status() {
    let length = format!("content-length: {}\r\n", SUM.len());
    let chunked = "transfer-encoding: chunked\r\n";
    let chunks = format!("{:x}\r\n{SUM}\r\n0\r\n\r\n", SUM.len());
    let many = |count: usize| "x: y\r\n".repeat(count);
    let host = "host: localhost\r\n";
    let add_with = |headers: &str| add_request(headers, SUM);
    let add_chunked =
        |headers: &str, chunks: &str| add_request(&format!("{chunked}{headers}"), chunks);
    let long = |bytes: usize| "x".repeat(bytes);
    let rows: Vec<(&str, String, &[u16], ConnectionState)> = vec![
        ("valid call", add_with(&length), &[200], Open),
        ("three pipelined requests", HEALTH_REQUEST.repeat(3), &[200, 200, 200], Open),
        ("three pipelined calls", add_with(&length).repeat(3), &[200, 200, 200], Open),
        ("valid request and an incomplete one", format!("{HEALTH_REQUEST}GET /he"), &[200], Closed),
        ("leading line breaks", format!("\r\n\r\n{HEALTH_REQUEST}"), &[200], Open),
        // HTTP versions and forms of the request target.
        ("HTTP/1.0", "GET /health HTTP/1.0\r\n\r\n".to_owned(), &[200], Closed),
        (
            "HTTP/1.0 with keep-alive",
            format!("GET /health HTTP/1.0\r\n{host}connection: keep-alive\r\n\r\n"),
            &[200],
            Open,
        ),
        ("HTTP/0.9", "GET /health\r\n".to_owned(), &[400], Closed),
        ("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), &[], Closed),
        ("HTTP/3.9", get("/health", host).replace("1.1", "3.9"), &[400], Closed),
        ("absolute form", get("http://localhost/health", host), &[200], Open),
        ("absolute form of another host", get("http://evil.example/health", host), &[403], Open),
        (
            "absolute form with a different host header",
            get("http://localhost/health", "host: evil.example\r\n"),
            &[403],
            Open,
        ),
        (
            "two host headers",
            get("/health", &format!("{host}host: evil.example\r\n")),
            &[400],
            Open,
        ),
        ("duplicate host header", get("/health", &host.repeat(2)), &[400], Open),
        ("missing host header", get("/health", ""), &[400], Open),
        ("host only in the target", get("http://localhost/health", ""), &[400], Open),
        ("call without a host header", add_request("", SUM).replace(host, &length), &[400], Open),
        ("invalid host", get("/health", "host: a b\r\n"), &[403], Open),
        ("asterisk form", get("*", host), &[404], Open),
        (
            "authority form",
            "CONNECT localhost:22 HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            &[404],
            Open,
        ),
        ("non-ASCII target", get("/h\u{e9}alth", host), &[404], Open),
        ("unknown method", HEALTH_REQUEST.replace("GET", "BREW"), &[405], Open),
        ("lowercase method", HEALTH_REQUEST.replace("GET", "get"), &[405], Open),
        ("invalid method", HEALTH_REQUEST.replace("GET", "G(T"), &[400], Closed),
        ("TLS handshake", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\u{1}".to_owned(), &[400], Closed),
        // Lengths.
        ("duplicate content-length", add_with(&length.repeat(2)), &[200], Open),
        (
            "conflicting content-length",
            add_with(&format!("{length}content-length: 5\r\n")),
            &[400],
            Closed,
        ),
        ("content-length list", add_with("content-length: 13, 13\r\n"), &[400], Closed),
        ("content-length with a plus sign", add_with("content-length: +13\r\n"), &[400], Closed),
        ("negative content-length", add_with("content-length: -1\r\n"), &[400], Closed),
        ("hexadecimal content-length", add_with("content-length: 0xd\r\n"), &[400], Closed),
        ("empty content-length", add_with("content-length:\r\n"), &[400], Closed),
        (
            "content-length overflow",
            add_with("content-length: 99999999999999999999\r\n"),
            &[400],
            Closed,
        ),
        (
            "maximum content-length",
            add_with("content-length: 18446744073709551615\r\n"),
            &[431],
            Closed,
        ),
        (
            "content-length of one terabyte",
            add_with("content-length: 1099511627776\r\n"),
            &[413],
            Closed,
        ),
        // Ambiguous body lengths, as used for request smuggling.
        ("chunked body", add_chunked("", &chunks), &[200], Open),
        ("chunked, then content-length", add_chunked(&length, &chunks), &[200], Closed),
        (
            "content-length, then chunked",
            add_request(&format!("{length}{chunked}"), &chunks),
            &[200],
            Closed,
        ),
        (
            "chunked body with a smuggled request",
            add_chunked("content-length: 5\r\n", &format!("{chunks}{HEALTH_REQUEST}")),
            &[200],
            Closed,
        ),
        (
            "chunked and gzip in two headers",
            add_request(&format!("{chunked}transfer-encoding: gzip\r\n"), &chunks),
            &[400],
            Closed,
        ),
        (
            "chunked before gzip",
            add_request("transfer-encoding: chunked, gzip\r\n", &chunks),
            &[400],
            Closed,
        ),
        (
            "unknown transfer coding",
            add_request("transfer-encoding: xchunked\r\n", &chunks),
            &[400],
            Closed,
        ),
        (
            "transfer coding without chunked",
            add_request("transfer-encoding: identity\r\n", &chunks),
            &[400],
            Closed,
        ),
        (
            "chunked in HTTP/1.0",
            add_request(chunked, &chunks).replace("1.1", "1.0"),
            &[400],
            Closed,
        ),
        ("space before the colon", add_with("content-length : 13\r\n"), &[400], Closed),
        ("header without a colon", get("/health", "host\r\n"), &[400], Closed),
        ("folded header", get("/health", "host: localhost\r\nx: a\r\n b\r\n"), &[400], Closed),
        ("NUL in a header", get("/health", "host: localhost\r\nx: a\0b\r\n"), &[400], Closed),
        (
            "carriage return in a header",
            get("/health", "host: localhost\r\nx: a\rb: c\r\n"),
            &[400],
            Closed,
        ),
        ("chunk without a size", add_chunked("", "\r\n\r\n"), &[400], Closed),
        ("negative chunk size", add_chunked("", "-1\r\nx\r\n"), &[400], Closed),
        ("chunk size overflow", add_chunked("", "fffffffffffffffff\r\nx\r\n"), &[400], Closed),
        ("chunk longer than its size", add_chunked("", "1\r\nxx\r\n0\r\n\r\n"), &[400], Closed),
        (
            "long chunk extension",
            add_chunked("", &format!("1;{}\r\n", long(20_000))),
            &[400],
            Closed,
        ),
        (
            "long trailers",
            add_chunked("", &format!("0\r\nx: {}\r\n\r\n", long(70_000))),
            &[400],
            Closed,
        ),
        // `Expect: 100-continue`.
        (
            "expect 100-continue",
            add_with(&format!("expect: 100-continue\r\n{length}")),
            &[100, 200],
            Open,
        ),
        (
            "expect 100-continue, body too large",
            add_request("expect: 100-continue\r\ncontent-length: 5000000\r\n", ""),
            &[413],
            Closed,
        ),
        ("unknown expectation", add_with(&format!("expect: tea\r\n{length}")), &[200], Open),
        // Size limits.
        ("100 headers", get("/health", &format!("{host}{}", many(99))), &[200], Open),
        ("101 headers", get("/health", &format!("{host}{}", many(100))), &[431], Closed),
        (
            "header of 60 kB",
            get("/health", &format!("{host}x: {}\r\n", long(60_000))),
            &[200],
            Open,
        ),
        (
            "header of 70 kB",
            get("/health", &format!("{host}x: {}\r\n", long(70_000))),
            &[431],
            Closed,
        ),
        (
            "megabytes of headers",
            get("/health", &format!("{host}x: {}\r\n", long(8_000_000))),
            &[431],
            Closed,
        ),
        ("target of 70 kB", get(&format!("/{}", long(70_000)), host), &[431], Closed),
    ];
    let mut settings = GatewaySettings::default();
    settings.header_timeout = std::time::Duration::from_millis(300);
    let gateway = TestGateway::start_with([], settings).await;
    let healthy_client = BackgroundClient::start(&gateway);
    for (what, bytes, statuses, then) in rows {
        check(&gateway, what, bytes.as_bytes(), statuses, then).await;
    }
    eprintln!("{} calls beside odd requests", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}

async fn check(
    gateway: &TestGateway,
    what: &str,
    bytes: &[u8],
    statuses: &[u16],
    then: ConnectionState,
) {
    let mut raw = RawClient::connect(gateway.address).await;
    raw.send(bytes).await;
    let mut seen = Vec::new();
    while seen.len() < statuses.len() {
        match raw.recv_response().await {
            Some(response) => {
                assert_has_problem_body(what, &response);
                seen.push(response.status);
            }
            None => break,
        }
    }
    assert_eq!(seen, statuses, "{what}");
    if then == Open {
        raw.send(HEALTH_REQUEST).await;
    }
    let next = raw.recv_response().await.map(|response| response.status);
    assert_eq!(next, (then == Open).then_some(200), "{what}");
}

/// Asserts that an error response has a problem body, unless hyper rejected the request head.
fn assert_has_problem_body(what: &str, response: &RawResponse) {
    let is_from_hyper = matches!(response.status, 400 | 431) && response.body.is_empty();
    if response.status < 400 || is_from_hyper {
        return;
    }
    assert!(response.head.contains("application/problem+json"), "{what}: {}", response.head);
    let problem: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!(problem["status"], response.status, "{what}");
    assert!(problem["detail"].as_str().is_some_and(|message| !message.is_empty()), "{what}");
}
