//! Join, leave and rejoin.

use serde_json::{Value, json};

use super::client::{Client, Family, connect};
use super::fixture::RoomFixture;
use super::room_clients::RoomClients;

/// Each family receives capabilities in its own notation, in whichever one they are defined.
#[tokio::test]
async fn welcome_and_presence_match_protocol_family() {
    let fixture = RoomFixture::start().await;
    let all = json!([{"kind": "*"}, {"kind": "**"}, {"kind": "mcp/*"}, {"kind": "mcp/response"}]);
    let responses = json!([{"kind": "mcp/response"}]);
    for family in Family::ALL {
        let room = format!("{family:?}");
        let family_form =
            |text: Value, pattern: &Value| if family.is_mew() { pattern.clone() } else { text };
        let mut first = fixture.join(family, "ada", &room).await;
        let toolpost = json!({"id": "toolpost", "capabilities": family_form(json!(["mcp/response"]), &responses)});
        let you = json!({"id": "ada", "capabilities": family_form(json!(["*"]), &all)});
        let expected = json!({"you": you, "participants": [toolpost], "active_streams": []});
        assert_eq!(first.welcome, expected, "{family:?}");
        let files = json!(["mcp/response:*", "chat"]);
        let as_patterns = json!([{"kind": "mcp/response"}, {"kind": "chat"}]);
        for other in Family::ALL {
            let second = fixture.join(other, "files", &room).await;
            let they = if other.is_mew() { &all } else { &json!(["*"]) };
            assert_eq!(
                second.welcome["participants"][0],
                json!({"id": "ada", "capabilities": they})
            );
            second.leave().await;
            let participant =
                json!({"id": "files", "capabilities": family_form(files.clone(), &as_patterns)});
            for event in ["join", "leave"] {
                let seen =
                    first.expect("system/presence", |it| it["payload"]["event"] == event).await;
                assert_eq!(seen["payload"]["participant"], participant);
                assert_eq!((&seen["from"], seen.get("to")), (&json!("system:gateway"), None));
                assert_eq!(seen["protocol"], family.protocol());
            }
        }
        first.chat("that was all").await;
        let more = first.read_until_chat("that was all").await;
        assert!(more.is_empty(), "{more:#?}");
    }
    fixture.stop().await;
}

/// The other participants see neither a leave nor a join; the old connection gets a close reason,
/// and the new one works.
#[tokio::test]
async fn second_connection_replaces_the_first() {
    let fixture = RoomFixture::start().await;
    let participants = [("bob", Family::Mcpx), ("carl", Family::Mew04), ("ada", Family::Mew04)];
    let mut clients = RoomClients::join_all(&fixture, "lobby", &participants).await;
    for family in Family::ALL {
        let again = fixture.join(family, "ada", "lobby").await;
        let mut old = clients.take("ada");
        let (code, message) = old.wait_closed().await;
        assert_eq!((code, &*message), (4409, "replaced by a newer connection of this participant"));
        clients.add(again);
        clients.assert_no_other_messages("ada", "a second connection").await;
        drop(old);
        clients.assert_no_other_messages("bob", "the end of the first").await;
        let (_, there) = fixture.get("bob", "/v0.1/topics/lobby/participants").await;
        let ids: Vec<&str> = there["participants"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["id"].as_str())
            .collect();
        assert_eq!(ids, ["ada", "bob", "carl", "toolpost"]);
    }
    clients.take("ada").leave().await;
    for one in ["bob", "carl"] {
        let leave_message = clients.client(one).expect("system/presence", |_| true).await;
        assert_eq!(
            (&leave_message["payload"]["event"], &leave_message["payload"]["participant"]["id"]),
            (&json!("leave"), &json!("ada"))
        );
    }
    clients.assert_no_other_messages("bob", "one leave").await;
    fixture.stop().await;
}

/// A restarted client can number its messages from the beginning again.
#[tokio::test]
async fn message_ids_are_reusable_after_reconnect() {
    let fixture = RoomFixture::start().await;
    let message = json!({"id": "ada-1", "kind": "chat", "payload": {"text": "hi"}});
    for _ in 0..3 {
        let mut ada = fixture.join(Family::Mew04, "ada", "lobby").await;
        ada.send_json(&message).await;
        ada.expect("chat", |it| it["id"] == "ada-1").await;
    }
    assert_eq!(fixture.history("lobby").await.len(), 3);
    fixture.stop().await;
}

#[tokio::test]
async fn every_client_websocket_path_is_served() {
    let fixture = RoomFixture::start().await;
    let address = fixture.server.address;
    for path in ["/", "/ws", "/v0/ws", "/v0.1/ws"] {
        let topic = format!("{path}?topic=lobby");
        let socket = connect(address, &topic, Some("tpt_ada")).await.unwrap();
        let mut client = Client::new(socket, Family::Mcpx);
        client.expect_welcome().await.unwrap();
        assert_eq!(client.id, "ada", "{path}");
        for (query, space) in [("", json!("lobby")), ("?space=lobby", Value::Null)] {
            let socket = connect(address, &format!("{path}{query}"), None).await.unwrap();
            let mut client = Client::new(socket, Family::Mew04);
            let join = json!({"type": "join", "space": space, "token": "tpt_bob"});
            client.send_json(&join).await;
            client.expect_welcome().await.unwrap();
            assert_eq!(client.id, "bob", "{path}{query}");
        }
        // Some clients send their token both in a header and in the join frame.
        let socket = connect(address, path, Some("tpt_carl")).await.unwrap();
        let mut client = Client::new(socket, Family::Mew04);
        client.send_json(&json!({"type": "join", "space": "lobby", "token": "tpt_carl", "participantId": "carl"})).await;
        client.expect_welcome().await.unwrap();
        client.send_json(&json!({"type": "join", "space": "lobby", "participantId": "carl"})).await;
        client.send_json(&json!({"kind": "system/heartbeat", "payload": {}})).await;
        client.chat(path).await;
        let before = client.read_until_chat(path).await;
        assert!(before.iter().all(|text| !text.contains("system/error")), "{before:?}");
    }
    fixture.stop().await;
}
