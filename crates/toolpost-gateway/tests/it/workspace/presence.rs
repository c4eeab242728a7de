//! Coming, going, and coming again.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::{Client, Family, dial};
use super::world::World;

/// Each family is shown capabilities in its own notation, whatever they are held in.
#[tokio::test]
async fn welcome_and_presence_have_the_shape_that_each_family_reads() {
    let world = World::start().await;
    let all = json!([{"kind": "*"}, {"kind": "**"}, {"kind": "mcp/*"}, {"kind": "mcp/response"}]);
    let answers = json!([{"kind": "mcp/response"}]);
    for family in Family::ALL {
        let room = format!("{family:?}");
        let shown =
            |text: Value, pattern: &Value| if family.is_mew() { pattern.clone() } else { text };
        let mut first = world.join(family, "ada", &room).await;
        let toolpost =
            json!({"id": "toolpost", "capabilities": shown(json!(["mcp/response"]), &answers)});
        let you = json!({"id": "ada", "capabilities": shown(json!(["*"]), &all)});
        let expected = json!({"you": you, "participants": [toolpost], "active_streams": []});
        assert_eq!(first.welcome, expected, "{family:?}");
        let files = json!(["mcp/response:*", "chat"]);
        let as_patterns = json!([{"kind": "mcp/response"}, {"kind": "chat"}]);
        for other in Family::ALL {
            let second = world.join(other, "files", &room).await;
            let they = if other.is_mew() { &all } else { &json!(["*"]) };
            assert_eq!(
                second.welcome["participants"][0],
                json!({"id": "ada", "capabilities": they})
            );
            second.leave().await;
            let participant =
                json!({"id": "files", "capabilities": shown(files.clone(), &as_patterns)});
            for event in ["join", "leave"] {
                let seen =
                    first.expect("system/presence", |it| it["payload"]["event"] == event).await;
                assert_eq!(seen["payload"]["participant"], participant);
                assert_eq!((&seen["from"], seen.get("to")), (&json!("system:gateway"), None));
                assert_eq!(seen["protocol"], family.protocol());
            }
        }
        first.chat("that was all").await;
        let more = first.until_chat("that was all").await;
        assert!(more.is_empty(), "{more:#?}");
    }
    world.stop().await;
}

/// The others see neither a leave nor a join; the old connection is told, and the new one works.
#[tokio::test]
async fn a_second_connection_takes_the_place_of_the_first() {
    let world = World::start().await;
    let people = [("bob", Family::Mcpx), ("carl", Family::Mew04), ("ada", Family::Mew04)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    for family in Family::ALL {
        let again = world.join(family, "ada", "lobby").await;
        let mut old = cast.take("ada");
        let (code, words) = old.closed().await;
        assert_eq!((code, &*words), (4409, "you have joined from somewhere else"));
        cast.add(again);
        cast.nothing_else("ada", "a second connection").await;
        drop(old);
        cast.nothing_else("bob", "the end of the first").await;
        let (_, there) = world.get("bob", "/v0.1/topics/lobby/participants").await;
        let ids: Vec<&str> = there["participants"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|it| it["id"].as_str())
            .collect();
        assert_eq!(ids, ["ada", "bob", "carl", "toolpost"]);
    }
    cast.take("ada").leave().await;
    for one in ["bob", "carl"] {
        let left = cast.one(one).expect("system/presence", |_| true).await;
        assert_eq!(
            (&left["payload"]["event"], &left["payload"]["participant"]["id"]),
            (&json!("leave"), &json!("ada"))
        );
    }
    cast.nothing_else("bob", "one leave").await;
    world.stop().await;
}

/// A program that was started again counts from the beginning.
#[tokio::test]
async fn ids_of_an_earlier_connection_may_come_again() {
    let world = World::start().await;
    let said = json!({"id": "ada-1", "kind": "chat", "payload": {"text": "hi"}});
    for _ in 0..3 {
        let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
        ada.say(&said).await;
        ada.expect("chat", |it| it["id"] == "ada-1").await;
    }
    assert_eq!(world.history("lobby").await.len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn every_address_that_clients_use_leads_to_the_rooms() {
    let world = World::start().await;
    let address = world.running.address;
    for path in ["/", "/ws", "/v0/ws", "/v0.1/ws"] {
        let topic = format!("{path}?topic=lobby");
        let socket = dial(address, &topic, Some("tpt_ada")).await.unwrap();
        let mut client = Client::on(socket, Family::Mcpx);
        client.be_welcomed().await.unwrap();
        assert_eq!(client.id, "ada", "{path}");
        for (query, space) in [("", json!("lobby")), ("?space=lobby", Value::Null)] {
            let socket = dial(address, &format!("{path}{query}"), None).await.unwrap();
            let mut client = Client::on(socket, Family::Mew04);
            let join = json!({"type": "join", "space": space, "token": "tpt_bob"});
            client.say(&join).await;
            client.be_welcomed().await.unwrap();
            assert_eq!(client.id, "bob", "{path}{query}");
        }
        // Some of them show their token twice.
        let socket = dial(address, path, Some("tpt_carl")).await.unwrap();
        let mut client = Client::on(socket, Family::Mew04);
        client.say(&json!({"type": "join", "space": "lobby", "token": "tpt_carl", "participantId": "carl"})).await;
        client.be_welcomed().await.unwrap();
        client.say(&json!({"type": "join", "space": "lobby", "participantId": "carl"})).await;
        client.say(&json!({"kind": "system/heartbeat", "payload": {}})).await;
        client.chat(path).await;
        let before = client.until_chat(path).await;
        assert!(before.iter().all(|text| !text.contains("system/error")), "{before:?}");
    }
    world.stop().await;
}
