//! Endless bodies are rejected before they are read, and the response reaches the client.

use std::time::Duration;

use toolpost_gateway::GatewaySettings;

use super::super::spokes::{wait_until, with_timeout};
use super::{BackgroundClient, HEALTH_REQUEST, RawClient, TestGateway, add_request, resident_kib};

const MEGABYTE: usize = 1024 * 1024;

/// Each row: the headers of an oversized body.
#[tokio::test(flavor = "multi_thread")]
async fn oversized_body_response_reaches_late_reader() {
    let gateway = TestGateway::start().await;
    let healthy_client = BackgroundClient::start(&gateway);
    let before = resident_kib();
    for headers in ["content-length: 16777216\r\n", "transfer-encoding: chunked\r\n"] {
        let senders = (0..8).map(|_| {
            let (address, head) = (gateway.address, add_request(headers, ""));
            tokio::spawn(async move {
                let mut raw = RawClient::connect(address).await;
                raw.send(head).await;
                let chunk = [
                    format!("{MEGABYTE:x}\r\n").into_bytes(),
                    vec![b'x'; MEGABYTE],
                    b"\r\n".to_vec(),
                ];
                let chunk =
                    if headers.starts_with('c') { chunk[1].clone() } else { chunk.concat() };
                for _ in 0..16 {
                    raw.send(&chunk).await;
                }
                raw.recv_response().await.unwrap()
            })
        });
        for sender in senders.collect::<Vec<_>>() {
            let response = sender.await.unwrap();
            assert_eq!(response.status, 413, "{headers}");
            assert!(
                response.body.contains("the body exceeds the limit of 4194304 bytes"),
                "{}",
                response.body
            );
        }
    }
    eprintln!("256 MiB of bodies rejected: {before} KiB before, {} KiB after", resident_kib());
    eprintln!("{} calls beside them", healthy_client.stop().await);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test]
async fn announced_body_not_sent_returns_408() {
    let mut settings = GatewaySettings::default();
    settings.body_timeout = Duration::from_millis(100);
    let gateway = TestGateway::start_with([], settings).await;
    for (headers, sent) in [
        ("content-length: 1000\r\n", "{"),
        ("transfer-encoding: chunked\r\n", "1\r\n{\r\n"),
        ("transfer-encoding: chunked\r\n", "1"),
        ("expect: 100-continue\r\ncontent-length: 1000\r\n", ""),
    ] {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(add_request(headers, sent)).await;
        let mut response = raw.recv_response().await.unwrap();
        if response.status == 100 {
            response = raw.recv_response().await.unwrap();
        }
        assert_eq!(response.status, 408, "{headers}");
        assert!(response.body.contains("timed out reading the body"), "{}", response.body);
        assert!(raw.recv_response().await.is_none(), "{headers}");
    }
    assert!(gateway.stop().await.in_time);
}

/// The requested timeout also covers reading the body.
#[tokio::test]
async fn request_timeout_covers_reading_body() {
    let gateway = TestGateway::start().await;
    let mut raw = RawClient::connect(gateway.address).await;
    raw.send(add_request("request-timeout: 0.1\r\ncontent-length: 1000\r\n", "{")).await;
    let response = raw.recv_response().await.unwrap();
    assert_eq!(response.status, 504);
    assert!(response.body.contains("deadline passed while reading the body"), "{}", response.body);
    assert!(gateway.stop().await.in_time);
}

/// A client that disconnects in the middle of a request leaves no call behind.
#[tokio::test]
async fn truncated_body_makes_no_call() {
    let gateway = TestGateway::start().await;
    for _ in 0..20 {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(add_request("content-length: 13\r\n", r#"{"a":1,"#)).await;
    }
    let pipeline = gateway.gateway.pipeline().clone();
    wait_until("nothing runs", || pipeline.in_flight() == 0).await;
    with_timeout("the gateway stops", async { assert!(gateway.stop().await.in_time) }).await;
}

/// A client that keeps connections in a pool sends the next request on a connection unless the
/// response says that it is closed. Each row: a request whose body is not read, what is sent of the
/// body, and whether the connection is closed.
#[tokio::test]
async fn response_before_body_is_read_closes_pooled_connection() {
    let gateway = TestGateway::start().await;
    let post = |path: &str, headers: &str| {
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n")
    };
    for (head, body, closes) in [
        (post("/api/none", "content-length: 1000\r\n"), "{", true),
        (post("/health", "content-length: 1000\r\n"), "{", true),
        (post("/health", "transfer-encoding: chunked\r\n"), "1\r\n{\r\n", true),
        (post("/api/demo/add", "content-length: 16777216\r\n"), "{", true),
        (post("/health", "content-length: 2\r\nexpect: 100-continue\r\n"), "", true),
        (post("/api/none", "content-length: 2\r\n"), "{}", false),
        (post("/health", "transfer-encoding: chunked\r\n"), "1\r\n{\r\n0\r\n\r\n", false),
    ] {
        let mut raw = RawClient::connect(gateway.address).await;
        raw.send(format!("{head}{body}")).await;
        let response = raw.recv_response().await.unwrap();
        assert!((400..500).contains(&response.status), "{head}: {}", response.head);
        assert_eq!(
            response.head.contains("connection: close"),
            closes,
            "{head}: {}",
            response.head
        );
        if !closes {
            raw.send(HEALTH_REQUEST).await;
            assert_eq!(raw.recv_response().await.map(|next| next.status), Some(200), "{head}");
        }
    }
    gateway.stop().await;
}
