//! Clients that connect and say nothing, or half of something.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use serde_json::{Value, json};
use toolpost_gateway::GatewaySettings;

use super::super::spokes::{caller, data, eventually, in_time};
use super::{HEALTH, Neighbor, Raw, Running, add, client, resident};

/// What a silent client says before it falls silent, in turns.
const BEGINNINGS: [&str; 4] = ["", "G", "POST /api/demo/add HTTP/1.1\r\nhost: loc", "\r\n"];

fn few(connections: usize) -> GatewaySettings {
    let mut settings = GatewaySettings::default();
    settings.connections = connections;
    // Nobody leaves because of the time.
    settings.header_timeout = Duration::from_secs(600);
    settings.body_timeout = Duration::from_secs(600);
    settings
}

async fn silent(gateway: &Running, count: usize) -> Vec<Raw> {
    let mut silent = Vec::with_capacity(count);
    for number in 0..count {
        let mut raw = Raw::connect(gateway.address).await;
        raw.say(BEGINNINGS[number % BEGINNINGS.len()]).await;
        silent.push(raw);
    }
    silent
}

#[tokio::test]
async fn a_newcomer_gets_the_place_of_the_client_that_was_silent_the_longest() {
    let gateway = Running::with([], few(4)).await;
    let mut silent = silent(&gateway, 4).await;
    for round in 0..3 {
        let mut newcomer = Raw::connect(gateway.address).await;
        newcomer.say(HEALTH).await;
        assert_eq!(newcomer.answer().await.unwrap().status, 200, "round {round}");
        assert!(silent.remove(0).answer().await.is_none(), "round {round}");
        // Who was served and says nothing more is silent, too; leaving makes the round even.
        drop(newcomer);
        silent.extend(super::silent::silent(&gateway, 1).await);
    }
    let mut last = silent.pop().unwrap();
    last.say("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert!(last.answer().await.is_some(), "the others kept theirs");
    gateway.stop().await;
}

#[tokio::test]
async fn whoever_is_served_keeps_the_place() {
    let gateway = Running::with([], few(3)).await;
    // A WebSocket is counted apart.
    let peer = caller(&gateway, None).await;
    let clock = client().post(gateway.url("/api/demo/clock"));
    let stream = clock.json(&json!({"count": 60, "everyMs": 10})).send().await.unwrap();
    let slow = client().post(gateway.url("/api/demo/slow")).json(&json!({"ms": 600})).send();
    let slow = tokio::spawn(slow);
    let pipeline = gateway.gateway.pipeline();
    eventually("two calls run", || pipeline.in_flight() == 2).await;
    let mut uploading = Raw::connect(gateway.address).await;
    uploading.say(add("content-length: 13\r\n", r#"{"a":1,"#)).await;
    eventually("it waits for the rest", || pipeline.in_flight() == 2).await;
    for _ in 0..20 {
        let mut newcomer = Raw::connect(gateway.address).await;
        newcomer.say(HEALTH).await;
        assert_eq!(newcomer.answer().await.unwrap().status, 200);
    }
    assert!(
        uploading.answer().await.is_none(),
        "half a request had to leave for the first of them"
    );
    let slow: Value = slow.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(slow, json!({"sleptMs": 600}));
    let text = stream.text().await.unwrap();
    assert_eq!(text.matches("\"tick\":").count(), 60, "{text}");
    assert!(data(&peer, "demo.add", json!({"a": 1, "b": 1})).await.is_ok());
    gateway.stop().await;
}

#[tokio::test]
async fn where_everybody_is_served_a_newcomer_waits() {
    let gateway = Running::with([], few(1)).await;
    let mut busy = Raw::connect(gateway.address).await;
    let body = r#"{"ms":300}"#;
    busy.say(format!(
        "POST /api/demo/slow HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .await;
    let pipeline = gateway.gateway.pipeline();
    eventually("it runs", || pipeline.in_flight() == 1).await;
    let mut newcomer = Raw::connect(gateway.address).await;
    newcomer.say(HEALTH).await;
    let (first, second) = tokio::join!(busy.answer(), newcomer.answer());
    assert_eq!((first.unwrap().status, second.unwrap().status), (200, 200));
    assert!(busy.answer().await.is_none(), "it was served, and then made room");
    gateway.stop().await;
}

#[tokio::test]
async fn where_everybody_is_served_for_long_a_newcomer_is_told_to_come_again() {
    let gateway = Running::with([], few(1)).await;
    let mut busy = Raw::connect(gateway.address).await;
    busy.say(add("content-length: 17\r\n", r#"{"ms":   3600000}"#).replace("/add", "/slow")).await;
    let pipeline = gateway.gateway.pipeline();
    eventually("it runs", || pipeline.in_flight() == 1).await;
    for round in 0..3 {
        let mut newcomer = Raw::connect(gateway.address).await;
        newcomer.say(HEALTH).await;
        let answer = newcomer.answer().await.unwrap();
        assert_eq!(answer.status, 503, "round {round}");
        assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{}", answer.head);
        let problem: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(problem["status"], 503, "{problem}");
        assert!(newcomer.answer().await.is_none(), "round {round}");
    }
    drop(busy);
    let mut newcomer = Raw::connect(gateway.address).await;
    newcomer.say(HEALTH).await;
    assert_eq!(newcomer.answer().await.unwrap().status, 200, "there is room again");
    gateway.stop().await;
}

#[tokio::test]
async fn silence_ends_with_the_time_for_a_head() {
    let mut settings = GatewaySettings::default();
    settings.header_timeout = Duration::from_millis(200);
    let gateway = Running::with([], settings).await;
    let mut all = silent(&gateway, 100).await;
    let mut served = Raw::connect(gateway.address).await;
    served.say(HEALTH).await;
    assert_eq!(served.answer().await.unwrap().status, 200);
    all.push(served);
    for mut raw in all {
        assert!(raw.answer().await.is_none());
    }
    assert!(gateway.stop().await.in_time);
}

/// The real settings: as many as fit, and then as many again.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_silent_clients_disturb_nobody() {
    const SILENT: usize = 1_000;
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if allowed < 5_000 {
        assert!(std::env::var_os("CI").is_none(), "only {allowed} open files are allowed");
        return eprintln!("SKIPPED: {allowed} open files are too few; try `ulimit -n 8192`");
    }
    let gateway = Running::start().await;
    let clock = client().post(gateway.url("/api/demo/clock"));
    let stream = clock.json(&json!({"count": 1_000_000, "everyMs": 50})).send().await.unwrap();
    let neighbor = Neighbor::start(&gateway);
    let before = resident();
    let mut all = silent(&gateway, SILENT).await;
    eprintln!("{SILENT} silent clients: {before} KiB before, {} KiB after", resident());
    all.extend(silent(&gateway, SILENT).await);
    let mut newcomer = Raw::connect(gateway.address).await;
    newcomer.say(HEALTH).await;
    assert_eq!(newcomer.answer().await.unwrap().status, 200);
    let calls = neighbor.stop().await;
    eprintln!("{} silent clients: {} KiB after, {calls} calls beside them", all.len(), resident());
    // More than there may be have come, so the first of them are gone.
    assert!(all[0].answer().await.is_none());
    drop(stream);
    in_time("the gateway stops", async { assert!(gateway.stop().await.in_time) }).await;
}
