//! What is relayed with rules of its own: orders, acknowledgements, reasoning.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::Family;
use super::world::World;

const PEOPLE: [(&str, Family); 3] =
    [("ada", Family::Mew04), ("talker", Family::Mew04), ("bob", Family::Mcpx)];

fn order(id: &str, kind: &str, payload: &Value) -> Value {
    json!({"id": id, "kind": kind, "to": ["talker"], "payload": payload})
}

/// Each row: an order to the talker, and what he is told when he chats then; nothing if he may.
#[tokio::test]
async fn whoever_is_paused_is_silent_until_he_may_speak_again() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
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
        cast.say("ada", &order(&id, kind, &payload)).await;
        for who in ["talker", "bob", "ada"] {
            cast.one(who).expect(kind, |it| it["id"] == id).await;
        }
        // Whoever is ordered may always say how he is.
        let status = json!({"kind": "participant/status", "to": ["ada"], "correlation_id": [id],
            "payload": {"status": "as ordered"}});
        cast.say("talker", &status).await;
        for (who, family) in PEOPLE {
            let correlation = family.correlation(&id);
            cast.one(who)
                .expect("participant/status", |it| it["correlation_id"] == correlation)
                .await;
        }
        cast.say("talker", &json!({"id": chat, "kind": "chat", "payload": {"text": "hi"}})).await;
        match expected {
            Some(error) => {
                assert_eq!(cast.one("talker").refusal(&chat).await["error"], error, "{kind}");
            }
            None => {
                for (who, _) in PEOPLE {
                    cast.one(who).expect("chat", |it| it["id"] == chat).await;
                }
            }
        }
        cast.nothing_else("ada", kind).await;
    }
    // Being paused is not over because one comes again; being shut down is.
    let again = world.join(Family::Mew03, "talker", "lobby").await;
    cast.take("talker").closed().await;
    cast.add(again);
    cast.settle("talker").await;
    cast.say_and_settle("ada", &order("last", "participant/pause", &json!({}))).await;
    let mut again = world.join(Family::Mew04, "talker", "lobby").await;
    again.say(&json!({"id": "x", "kind": "chat", "payload": {"text": "hi"}})).await;
    assert_eq!(again.refusal("x").await["error"], "participant_paused");
    world.stop().await;
}

/// Each row: a message that nobody here does anything about.
#[tokio::test]
async fn what_is_between_participants_is_handed_on_as_it_is() {
    let world = World::start().await;
    let mut cast = Cast::meet(&world, "lobby", &PEOPLE).await;
    cast.say_and_settle("bob", &json!({"id": "C", "kind": "chat", "payload": {"text": "hi"}}))
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
        let mut said = more.clone();
        (said["kind"], said["correlation_id"]) = (kind.into(), "C".into());
        cast.say("ada", &said).await;
        for (who, family) in PEOPLE {
            let full = match kind {
                "mcp/notification" => "mcp/notification:notifications/tools/list_changed",
                kind => kind,
            };
            let seen = cast.one(who).expect(family.kind(full), |_| true).await;
            assert_eq!(seen["correlation_id"], family.correlation("C"), "{kind}");
            for member in ["to", "context", "payload"] {
                assert_eq!(seen.get(member), more.get(member), "{kind}");
            }
        }
    }
    cast.nothing_else("ada", "each once").await;
    world.stop().await;
}
