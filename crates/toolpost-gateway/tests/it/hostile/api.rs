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
        ("a good one", json(good).into(), 200, "{\"sum\":3}"),
        // Bodies.
        ("a key twice", json(r#"{"a":1,"b":2,"a":3}"#).into(), 400, "duplicate key `a`"),
        ("a key twice, spelt otherwise", json(r#"{"a":1,"\u0061":3}"#).into(), 400, "`a`"),
        ("lists in lists", json(&deep("[", "]", 2_000)).into(), 400, "128 levels"),
        ("a million lists", json(&deep("[", "]", 1_000_000)).into(), 400, "128 levels"),
        ("objects in objects", json(&deep("{\"a\":", "}", 100_000)).into(), 400, "128 levels"),
        ("lists that never close", json(&"[".repeat(1_000_000)).into(), 400, "128 levels"),
        ("a number beyond numbers", json(r#"{"a":1e999,"b":1}"#).into(), 400, "out of range"),
        (
            "a long number",
            json(&format!("{{\"a\":{}}}", "9".repeat(100_000))).into(),
            400,
            "out of range",
        ),
        ("no number", json(r#"{"a":NaN,"b":1}"#).into(), 400, "not JSON"),
        ("half a document", json("{\"a\":1").into(), 400, "not JSON"),
        ("two documents", json("{}{}").into(), 400, "not JSON"),
        ("only a byte order mark", json("\u{feff}{}").into(), 400, "not JSON"),
        ("half a surrogate", json(r#"{"a":"\ud800"}"#).into(), 400, "not JSON"),
        ("a raw null", json("{\"a\":\"\0\"}").into(), 400, "not JSON"),
        (
            "bad UTF-8",
            [json("").replace("length: 0", "length: 3").into_bytes(), b"\"\xff\"".to_vec()]
                .concat(),
            400,
            "not JSON",
        ),
        (
            "an overlong slash",
            [json("").replace("length: 0", "length: 4").into_bytes(), b"\"\xc0\xaf\"".to_vec()]
                .concat(),
            400,
            "not JSON",
        ),
        ("UTF-16", typed("application/json; charset=utf-16", good).into(), 415, "UTF-8"),
        // Types.
        ("a form", typed("application/x-www-form-urlencoded", "a=1&b=2").into(), 415, "x-www-form"),
        (
            "a form with files",
            typed("multipart/form-data; boundary=x", "--x--").into(),
            415,
            "multipart",
        ),
        ("plain text", typed("text/plain", good).into(), 415, "text/plain"),
        ("a type of nothing", typed("", good).into(), 415, "application/json"),
        ("a type in capitals", typed("APPLICATION/JSON; CHARSET=UTF-8", good).into(), 200, "3"),
        ("a type of ours", typed("application/problem+json", good).into(), 200, "3"),
        ("nearly JSON", typed("application/jsonx", good).into(), 415, "jsonx"),
        (
            "a compressed body",
            add_request("content-encoding: gzip\r\ncontent-length: 2\r\n", "{}").into(),
            415,
            "Content-Encoding",
        ),
        (
            "a body compressed twice",
            add_request("content-encoding: gzip, gzip\r\ncontent-length: 2\r\n", "{}").into(),
            415,
            "Content-Encoding",
        ),
        // Sizes.
        (
            "too much, announced",
            add_request("content-length: 4194305\r\n", "").into(),
            413,
            "4194304 bytes",
        ),
        // Paths.
        ("a path upwards", get("/api/demo/../../health").into(), 404, "no such path"),
        ("a path upwards, encoded", get("/api/demo/%2e%2e%2fhealth").into(), 404, "not found"),
        ("dots for a name", get("/api/demo/..").into(), 404, "not found"),
        ("two slashes", get("/api//demo/add").into(), 404, "no such path"),
        ("a slash at the end", get("/api/demo/add/").into(), 404, "no such path"),
        ("a null in the name", get("/api/demo/add%00").into(), 404, "not found"),
        ("a line break in the name", get("/api/demo/a%0d%0ab").into(), 404, "not found"),
        ("a name in bad UTF-8", get("/api/demo/%ff").into(), 400, "UTF-8"),
        ("a name encoded twice", get("/api/demo/%2561dd").into(), 404, "not found"),
        ("a name encoded once", get("/api/demo/%61dd?a=1&b=2").into(), 200, "3"),
        ("a dot in the namespace", get("/api/demo.a/dd?a=1&b=2").into(), 404, "contain a dot"),
        ("an encoded dot in the namespace", get("/api/demo%2ea/dd").into(), 404, "contain a dot"),
        (
            "a long name",
            get(&format!("/api/demo/{}", "x".repeat(10_000))).into(),
            404,
            "at most 200",
        ),
        ("a percent sign alone", get("/api/demo/%").into(), 400, "percent"),
        // Queries.
        ("a query in bad UTF-8", get("/api/demo/add?a=%ff&b=1").into(), 400, "UTF-8"),
        ("half a percent code", get("/api/demo/add?a=%4&b=1").into(), 400, "percent"),
        ("a parameter twice", get("/api/demo/add?a=1&a=2&b=1").into(), 422, "duplicate parameter"),
        (
            "an unknown parameter",
            get("/api/demo/add?a=1&b=1&__proto__=1").into(),
            422,
            "/__proto__",
        ),
        ("an unknown parameter in brackets", get("/api/demo/add?a[]=1&b=1").into(), 422, "/a[]"),
        ("thousands of parameters", query(7_000).into(), 422, "unknown parameter"),
        (
            "an input beside the body",
            json(good).replace("/add", "/add?a=5").into(),
            400,
            "parameter `a`",
        ),
        (
            "an option twice",
            json(good).replace("/add", "/add?envelope=true&envelope=false").into(),
            400,
            "duplicate",
        ),
        // Headers.
        (
            "a deadline of letters",
            add_request("request-timeout: soon\r\n", "").into(),
            400,
            "Request-Timeout",
        ),
        (
            "two deadlines",
            add_request("request-timeout: 1\r\nrequest-timeout: 2\r\n", "").into(),
            400,
            "Request-Timeout",
        ),
        ("nothing is readable", add_request("accept: image/png\r\n", "").into(), 406, "Accept"),
        ("an Accept of nonsense", add_request("accept: ;;;,,,q=\r\n", "").into(), 406, "Accept"),
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
        let response = raw.recv_response().await.unwrap_or_else(|| panic!("{what}: no answer"));
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
    assert_eq!(in_head, None, "a head that takes too long is not answered");
    assert_eq!(in_body, Some(408));
    eprintln!("{} calls beside slow clients", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}
