//! The deprecation of short kinds in `mcpx`.

use serde_json::{Value, json};
use toolpost_gateway::room::{RoomSettings, ShortKinds};

use super::client::{Client, Family};
use super::fixture::{RoomFixture, rooms_settings};

fn call(id: &str, kind: &str) -> Value {
    json!({"id": id, "kind": kind, "to": ["files"], "protocol": "mcpx/v0.1",
        "payload": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read"}}})
}

fn response(id: &str, kind: &str, to: &str) -> Value {
    json!({"id": id, "kind": kind, "correlation_id": to, "protocol": "mcpx/v0.1",
        "payload": {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}})
}

async fn start(short_kinds: fn(&mut RoomSettings)) -> (RoomFixture, Client, Client) {
    let fixture = RoomFixture::with(rooms_settings([("lobby", short_kinds)])).await;
    let bob = fixture.join(Family::Mcpx, "bob", "lobby").await;
    let files = fixture.join(Family::Mcpx, "files", "lobby").await;
    (fixture, bob, files)
}

/// Sends a message that the room delivers, and returns the notices before it.
async fn notices_before(client: &mut Client, message: &Value) -> Vec<Value> {
    client.send_json(message).await;
    let mut notices = Vec::new();
    loop {
        let received: Value = serde_json::from_str(&client.next().await.unwrap()).unwrap();
        assert_ne!(received["kind"], "system/error", "{received}");
        if received["kind"] == "system/notice" {
            notices.push(received.clone());
        }
        if received["id"] == message["id"] {
            return notices;
        }
    }
}

#[tokio::test]
async fn short_kind_warning_is_sent_once_per_participant() {
    let (fixture, mut bob, mut files) = start(|room| room.short_kinds = ShortKinds::Warn).await;
    let long = "mcp/request:tools/call:read";
    let chat = json!({"id": "C", "kind": "chat", "payload": {"text": "hi"}});
    assert_eq!(notices_before(&mut bob, &chat).await, [] as [Value; 0]);
    assert_eq!(notices_before(&mut bob, &call("F0", long)).await, [] as [Value; 0]);
    let notices = notices_before(&mut bob, &call("F1", "mcp/request:tools/call")).await;
    let [notice] = &notices[..] else { panic!("{notices:?}") };
    assert_eq!((&notice["to"], notice.get("correlation_id")), (&json!(["bob"]), None), "{notice}");
    let payload = &notice["payload"];
    assert_eq!((&payload["notice"], &payload["message_id"]), (&json!("short_kind"), &json!("F1")));
    assert_eq!(
        (&payload["sent_kind"], &payload["full_kind"]),
        (&json!("mcp/request:tools/call"), &json!(long))
    );
    assert!(payload["message"].as_str().unwrap().contains(long), "{notice}");
    assert_eq!(notices_before(&mut bob, &call("F2", "mcp/request")).await, [] as [Value; 0]);
    // Also after a reconnect.
    let mut bob = fixture.join(Family::Mcpx, "bob", "lobby").await;
    assert_eq!(notices_before(&mut bob, &call("F3", "mcp/request")).await, [] as [Value; 0]);
    let reply = response("R1", "mcp/response:tools/call", "F1");
    assert_eq!(notices_before(&mut files, &reply).await.len(), 1);
    // The kinds of `mew` are always short.
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut short = call("F4", "mcp/request");
    short["protocol"] = "mew/v0.4".into();
    assert_eq!(notices_before(&mut ada, &short).await, [] as [Value; 0]);
    fixture.stop().await;
}

#[tokio::test]
async fn short_kind_is_rejected_if_configured() {
    let (fixture, mut bob, mut files) = start(|room| room.short_kinds = ShortKinds::Reject).await;
    for (number, kind) in
        ["mcp/request", "mcp/request:tools/call", "mcp", "mcp/proposal:tools/call"]
            .into_iter()
            .enumerate()
    {
        let id = format!("F{number}");
        bob.send_json(&call(&id, kind)).await;
        let rejection = bob.expect_rejection(&id).await;
        assert_eq!(rejection["error"], "short_kind", "{kind}: {rejection}");
        let text = rejection["message"].as_str().unwrap();
        assert!(text.contains(":tools/call:read`"), "{kind}: {text}");
    }
    bob.send_json(&call("G", "mcp/request:tools/call:read")).await;
    files.expect("mcp/request:tools/call:read", |it| it["id"] == "G").await;
    files.send_json(&response("R1", "mcp/response:tools/call", "G")).await;
    assert_eq!(files.expect_rejection("R1").await["error"], "short_kind");
    files.send_json(&response("R2", "mcp/response:tools/call:read", "G")).await;
    bob.expect("mcp/response:tools/call:read", |it| it["id"] == "R2").await;
    let list = json!({"id": "L", "kind": "mcp/request:tools/list", "to": ["toolpost"],
        "payload": {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}});
    bob.send_json(&list).await;
    bob.expect("mcp/response:tools/list", |_| true).await;
    let progress = json!({"id": "N", "kind": "mcp/notification",
        "payload": {"method": "notifications/progress", "params": {}}});
    bob.send_json(&progress).await;
    files.expect("mcp/notification:notifications/progress", |it| it["id"] == "N").await;
    let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
    let mut short = call("H", "mcp/request");
    short["protocol"] = "mew/v0.4".into();
    ada.send_json(&short).await;
    files.expect("mcp/request:tools/call:read", |it| it["id"] == "H").await;
    fixture.stop().await;
}
