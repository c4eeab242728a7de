//! Bodies without end: refused before they are read, and the refusal arrives.

use std::time::Duration;

use toolpost_gateway::GatewaySettings;

use super::super::spokes::{eventually, in_time};
use super::{Neighbor, Raw, Running, add, resident};

const MEGABYTE: usize = 1024 * 1024;

/// Each row: the headers of a body, and how it is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_writes_first_and_reads_later_learns_why_it_was_refused() {
    let gateway = Running::start().await;
    let neighbor = Neighbor::start(&gateway);
    let before = resident();
    for headers in ["content-length: 67108864\r\n", "transfer-encoding: chunked\r\n"] {
        let senders = (0..8).map(|_| {
            let (address, head) = (gateway.address, add(headers, ""));
            tokio::spawn(async move {
                let mut raw = Raw::connect(address).await;
                raw.say(head).await;
                let chunk = [
                    format!("{MEGABYTE:x}\r\n").into_bytes(),
                    vec![b'x'; MEGABYTE],
                    b"\r\n".to_vec(),
                ];
                let chunk =
                    if headers.starts_with('c') { chunk[1].clone() } else { chunk.concat() };
                for _ in 0..64 {
                    raw.say(&chunk).await;
                }
                raw.answer().await.unwrap()
            })
        });
        for sender in senders.collect::<Vec<_>>() {
            let answer = sender.await.unwrap();
            assert_eq!(answer.status, 413, "{headers}");
            assert!(answer.body.contains("a body has at most 4194304 bytes"), "{}", answer.body);
        }
    }
    eprintln!("1 GiB of bodies refused: {before} KiB before, {} KiB after", resident());
    eprintln!("{} calls beside them", neighbor.stop().await);
    assert!(gateway.stop().await.in_time);
}

#[tokio::test]
async fn a_body_that_is_announced_and_not_sent_is_waited_for_and_then_refused() {
    let mut settings = GatewaySettings::default();
    settings.body_timeout = Duration::from_millis(100);
    let gateway = Running::with([], settings).await;
    for (headers, sent) in [
        ("content-length: 1000\r\n", "{"),
        ("transfer-encoding: chunked\r\n", "1\r\n{\r\n"),
        ("transfer-encoding: chunked\r\n", "1"),
        ("expect: 100-continue\r\ncontent-length: 1000\r\n", ""),
    ] {
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(add(headers, sent)).await;
        let mut answer = raw.answer().await.unwrap();
        if answer.status == 100 {
            answer = raw.answer().await.unwrap();
        }
        assert_eq!(answer.status, 408, "{headers}");
        assert!(answer.body.contains("the body took too long"), "{}", answer.body);
        assert!(raw.answer().await.is_none(), "{headers}");
    }
    assert!(gateway.stop().await.in_time);
}

/// The deadline that a client asks for is its own too.
#[tokio::test]
async fn a_body_that_takes_longer_than_the_request_may_is_refused() {
    let gateway = Running::start().await;
    let mut raw = Raw::connect(gateway.address).await;
    raw.say(add("request-timeout: 0.1\r\ncontent-length: 1000\r\n", "{")).await;
    let answer = raw.answer().await.unwrap();
    assert_eq!(answer.status, 504);
    assert!(answer.body.contains("longer than the whole request may take"), "{}", answer.body);
    assert!(gateway.stop().await.in_time);
}

/// A client that leaves in the middle of its request leaves nothing behind.
#[tokio::test]
async fn a_body_that_breaks_off_calls_nothing() {
    let gateway = Running::start().await;
    for _ in 0..20 {
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(add("content-length: 13\r\n", r#"{"a":1,"#)).await;
    }
    let pipeline = gateway.gateway.pipeline().clone();
    eventually("nothing runs", || pipeline.in_flight() == 0).await;
    in_time("the gateway stops", async { assert!(gateway.stop().await.in_time) }).await;
}
