//! Relayed messages with rules of their own: control, acknowledgement and reasoning.

use serde_json::{Value, json};

use super::client::Family;
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

const PARTICIPANTS: [(&str, Family); 3] =
    [("ada", Family::Mew04), ("talker", Family::Mew04), ("bob", Family::Mcpx)];

fn control_message(id: &str, kind: &str, payload: &Value) -> Value {
    json!({"id": id, "kind": kind, "to": ["talker"], "payload": payload})
}

/// Each row: a control message to `talker`, and the error for its next chat; `None` if the chat is
/// delivered.
#[tokio::test]
async fn paused_participant_cannot_send_until_resumed() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    let (paused, shut_down) = (Some("participant_paused"), Some("participant_shut_down"));
    for (number, (kind, payload, expected)) in [
        ("participant/request-status", json!({}), None),
        ("participant/pause", json!({"reason": "wait"}), paused),
        ("participant/clear", json!({}), paused),
        ("participant/resume", json!({}), None),
        ("participant/pause", json!({"timeout_seconds": 3600}), paused),
        ("participant/restart", json!({}), None),
        ("participant/pause", json!({"timeout_seconds": 0}), None),
        ("participant/compact", json!({}), None),
        ("participant/shutdown", json!({}), shut_down),
        ("participant/resume", json!({}), shut_down),
    ]
    .into_iter()
    .enumerate()
    {
        let (id, chat) = (format!("order-{number}"), format!("chat-{number}"));
        clients.send("ada", &control_message(&id, kind, &payload)).await;
        for name in ["talker", "bob", "ada"] {
            clients.client(name).expect(kind, |it| it["id"] == id).await;
        }
        // A controlled participant can always report its status.
        let status = json!({"kind": "participant/status", "to": ["ada"], "correlation_id": [id],
            "payload": {"status": "as ordered"}});
        clients.send("talker", &status).await;
        for (name, family) in PARTICIPANTS {
            let correlation = family.correlation(&id);
            clients
                .client(name)
                .expect("participant/status", |it| it["correlation_id"] == correlation)
                .await;
        }
        clients
            .send("talker", &json!({"id": chat, "kind": "chat", "payload": {"text": "hi"}}))
            .await;
        match expected {
            Some(error) => {
                assert_eq!(
                    clients.client("talker").expect_rejection(&chat).await["error"],
                    error,
                    "{kind}"
                );
            }
            None => {
                for (name, _) in PARTICIPANTS {
                    clients.client(name).expect("chat", |it| it["id"] == chat).await;
                }
            }
        }
        clients.assert_no_other_messages("ada", kind).await;
    }
    // Rejoining ends a shutdown but not a pause.
    let again = fixture.join(Family::Mew03, "talker", "lobby").await;
    clients.take("talker").wait_closed().await;
    clients.add(again);
    clients.drain("talker").await;
    clients.send_and_drain("ada", &control_message("last", "participant/pause", &json!({}))).await;
    let mut again = fixture.join(Family::Mew04, "talker", "lobby").await;
    again.send_json(&json!({"id": "x", "kind": "chat", "payload": {"text": "hi"}})).await;
    assert_eq!(again.expect_rejection("x").await["error"], "participant_paused");
    fixture.stop().await;
}

/// Each row: a message that the gateway only relays.
#[tokio::test]
async fn other_kinds_are_relayed_unchanged() {
    let fixture = RoomFixture::start().await;
    let mut clients = RoomClients::join_all(&fixture, "lobby", &PARTICIPANTS).await;
    clients
        .send_and_drain("bob", &json!({"id": "C", "kind": "chat", "payload": {"text": "hi"}}))
        .await;
    for (kind, more) in [
        ("chat/acknowledge", json!({"to": ["bob"], "payload": {"status": "received"}})),
        ("chat/cancel", json!({"payload": {"reason": "canceled"}})),
        ("reasoning/start", json!({"payload": {"input": "why?"}})),
        ("reasoning/thought", json!({"context": "reason-1", "payload": {"action": "tool"}})),
        ("reasoning/conclusion", json!({"context": "reason-1", "payload": {}})),
        ("reasoning/cancel", json!({"context": "reason-1", "payload": {"reason": "user"}})),
        ("custom/kind", json!({"payload": {"list": [1, 2]}})),
        ("mcp/notification", json!({"payload": {"method": "notifications/tools/list_changed"}})),
    ] {
        let mut message = more.clone();
        (message["kind"], message["correlation_id"]) = (kind.into(), "C".into());
        clients.send("ada", &message).await;
        for (name, family) in PARTICIPANTS {
            let full = match kind {
                "mcp/notification" => "mcp/notification:notifications/tools/list_changed",
                kind => kind,
            };
            let seen = clients.client(name).expect(family.kind(full), |_| true).await;
            assert_eq!(seen["correlation_id"], family.correlation("C"), "{kind}");
            for member in ["to", "context", "payload"] {
                assert_eq!(seen.get(member), more.get(member), "{kind}");
            }
        }
    }
    clients.assert_no_other_messages("ada", "each once").await;
    fixture.stop().await;
}
