//! What somebody is given, and what is taken from him: at once, and for as long as it should be.

use serde_json::{Value, json};

use super::cast::Cast;
use super::client::{Client, Family, Joining, Refused};
use super::world::World;

fn call(id: &str) -> Value {
    json!({"id": id, "kind": "mcp/request", "to": ["ada"],
        "payload": {"method": "tools/call", "params": {"name": "read_file"}}})
}

/// Whether the guest may do what was granted.
async fn may(guest: &mut Client, id: &str) -> bool {
    guest.say(&call(id)).await;
    let (done, refused) = (format!("{id}-done"), guest.family.correlation(id));
    guest.chat(&done).await;
    let before = guest.until_chat(&done).await;
    let is_refused = before.iter().any(|text| {
        let message: Value = serde_json::from_str(text).unwrap();
        message["kind"] == "system/error"
            && message["correlation_id"] == refused
            && message["payload"]["error"] == "capability_violation"
    });
    let is_heard = before.iter().any(|text| text.contains("mcp/request"));
    assert!(is_refused || is_heard, "{before:?}");
    !is_refused
}

/// Each row: what the guest speaks, what he is granted, and how that is shown to him.
#[tokio::test]
async fn grants_hold_at_once_and_survive_until_they_are_revoked() {
    let pattern = json!({"kind": "mcp/request", "payload": {"method": "tools/call", "params": {"name": "read_*"}}});
    let text = json!("mcp/request:tools/call:read_*");
    for (family, granted, shown) in [
        (Family::Mcpx, &text, &text),
        (Family::Mcpx, &pattern, &text),
        (Family::Mew04, &text, &pattern),
        (Family::Variant, &pattern, &pattern),
    ] {
        let mut world = World::start().await;
        let people = [("ada", Family::Mew04), ("guest", family), ("bob", Family::Mcpx)];
        let mut cast = Cast::meet(&world, "lobby", &people).await;
        assert!(!may(cast.one("guest"), "before").await);
        cast.settle("ada").await;
        let grant = json!({"id": "G", "kind": "capability/grant",
            "payload": {"recipient": "guest", "capabilities": [granted], "reason": "trust"}});
        cast.say("ada", &grant).await;
        let is_shown =
            |welcome: &Value| welcome["you"]["capabilities"].as_array().unwrap().contains(shown);
        let guest = cast.one("guest");
        let seen = guest.expect("capability/grant", |_| true).await;
        assert_eq!((&seen["to"], &seen["from"]), (&json!(["guest"]), &json!("ada")));
        let welcome = guest.expect("system/welcome", |_| true).await;
        assert!(is_shown(&welcome["payload"]), "{welcome}");
        assert!(may(guest, "after").await);
        let ack = json!({"kind": "capability/grant-ack", "correlation_id": "G", "payload": {"status": "accepted"}});
        guest.say(&ack).await;
        cast.one("ada")
            .expect("capability/grant-ack", |it| it["correlation_id"] == json!(["G"]))
            .await;
        cast.one("bob").expect("capability/grant", |it| it["to"] == json!(["guest"])).await;
        // Nobody but the guest is welcomed again.
        cast.one("bob").chat("done").await;
        let heard = cast.one("bob").until_chat("done").await;
        assert!(heard.iter().all(|text| !text.contains("system/welcome")), "{heard:?}");
        cast.take("guest").leave().await;
        for how in ["another connection", "another process"] {
            if how == "another process" {
                world = world.restart().await;
            }
            let mut guest = world.join(family, "guest", "lobby").await;
            assert!(is_shown(&guest.welcome), "{how}: {}", guest.welcome);
            assert!(may(&mut guest, how).await, "{how}");
            let mut elsewhere = world.join(family, "guest", "elsewhere").await;
            assert!(!may(&mut elsewhere, how).await, "a grant is of one room");
            guest.leave().await;
        }
        let mut guest = world.join(family, "guest", "lobby").await;
        let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
        let revoke = json!({"kind": "capability/revoke", "payload": {"recipient": "guest", "grant_id": "G"}});
        ada.say(&revoke).await;
        let welcome = guest.expect("system/welcome", |_| true).await;
        assert!(!is_shown(&welcome["payload"]), "{welcome}");
        assert!(!may(&mut guest, "revoked").await);
        let world = world.restart().await;
        let mut guest = world.join(family, "guest", "lobby").await;
        assert!(!may(&mut guest, "revoked for ever").await);
        world.stop().await;
    }
}

/// What a token says can be taken away in one room, and given back there.
#[tokio::test]
async fn what_a_token_says_is_revoked_for_one_room_and_given_back() {
    let world = World::start().await;
    let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
    let mut guest = world.join(Family::Mew04, "guest", "lobby").await;
    let mut elsewhere = world.join(Family::Mew04, "guest", "elsewhere").await;
    let change = |kind: &str| json!({"kind": kind, "payload": {"recipient": "guest", "capabilities": ["chat"]}});
    ada.say(&change("capability/revoke")).await;
    let welcome = guest.expect("system/welcome", |_| true).await;
    assert_eq!(welcome["payload"]["you"]["capabilities"], json!([]));
    let said = |id: &str| json!({"id": id, "kind": "chat", "payload": {"text": id}});
    guest.say(&said("refused")).await;
    assert_eq!(guest.refusal("refused").await["error"], "capability_violation");
    elsewhere.say(&said("heard")).await;
    elsewhere.expect("chat", |it| it["id"] == "heard").await;
    guest.leave().await;
    let world = world.restart().await;
    let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
    let mut guest = world.join(Family::Mew04, "guest", "lobby").await;
    assert_eq!(guest.welcome["you"]["capabilities"], json!([]));
    ada.say(&change("capability/grant")).await;
    guest.expect("system/welcome", |_| true).await;
    guest.say(&said("again")).await;
    ada.expect("chat", |it| it["id"] == "again").await;
    world.stop().await;
}

fn with_token(family: Family, token: &str, room: &str) -> Joining {
    let (token, participant) = (Some(token.to_owned()), None);
    Joining { token, participant, ..Joining::new(family, "zoe", room) }
}

/// The token of an invitation is told to the one who invited, and is worth nothing elsewhere.
#[tokio::test]
async fn whoever_is_invited_comes_in_with_a_token_of_the_room() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("bob", Family::Mcpx), ("carl", Family::Mew03)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    let invite = json!({"id": "I", "kind": "space/invite", "payload": {
        "participant_id": "zoe", "initial_capabilities": ["chat"], "reason": "welcome"}});
    cast.say("ada", &invite).await;
    let ack =
        cast.one("ada").expect("space/invite-ack", |it| it["correlation_id"] == json!(["I"])).await;
    assert_eq!((&ack["payload"]["status"], &ack["to"]), (&json!("created"), &json!(["ada"])));
    let token = ack["payload"]["token"].as_str().unwrap().to_owned();
    cast.one("ada").chat("invited").await;
    for who in ["bob", "carl"] {
        let heard = cast.one(who).until_chat("invited").await.join("\n");
        assert!(heard.contains("\"event\":\"invited\"") && !heard.contains(&token), "{heard}");
    }
    let written = world.get_text("ada", "/v0.1/topics/lobby/history").await;
    assert!(!written.contains(&token));
    let world = world.restart().await;
    for family in Family::ALL {
        let mut zoe = world.enter(with_token(family, &token, "lobby")).await.unwrap();
        assert_eq!(zoe.id, "zoe");
        zoe.chat("hello").await;
        zoe.until_chat("hello").await;
        let elsewhere = world.enter(with_token(family, &token, "elsewhere")).await.err();
        let unknown = match family {
            Family::Mcpx => Refused::Status(401),
            _ => Refused::Told("unauthorized".to_owned(), 4401),
        };
        assert_eq!(elsewhere, Some(unknown), "{family:?}");
        zoe.leave().await;
    }
    let mut ada = world.join(Family::Mew04, "ada", "lobby").await;
    ada.say(&json!({"id": "K", "kind": "space/kick", "payload": {"participant_id": "zoe"}})).await;
    ada.expect("space/kick", |_| true).await;
    let refused = world.enter(with_token(Family::Mcpx, &token, "lobby")).await.err();
    assert_eq!(refused, Some(Refused::Status(401)), "her token went with her");
    world.stop().await;
}

/// Whoever may invite does not become somebody else by that, nor get what he lacks.
#[tokio::test]
async fn an_invitation_is_no_way_to_be_somebody_else() {
    let world = World::start().await;
    let people = [("ada", Family::Mew04), ("host", Family::Mew04)];
    let mut cast = Cast::meet(&world, "lobby", &people).await;
    let invite = |id: &str, whom: &str, capabilities: Value| {
        json!({"id": id, "kind": "space/invite",
        "payload": {"participant_id": whom, "initial_capabilities": capabilities}})
    };
    cast.say("host", &invite("1", "late", json!(["chat"]))).await;
    let ack = cast.one("host").expect("space/invite-ack", |_| true).await;
    if let Some(token) = ack["payload"]["token"].as_str() {
        let refused = world.enter(with_token(Family::Mcpx, token, "lobby")).await.err();
        assert_eq!(refused, Some(Refused::Status(401)), "`late` has a token, and this is not it");
    }
    cast.say("host", &invite("2", "zoe", json!(["mcp/request"]))).await;
    assert_eq!(cast.one("host").refusal("2").await["error"], "capability_violation");
    cast.say("ada", &invite("3", "zoe", json!(["mcp/request"]))).await;
    cast.one("ada").expect("space/invite-ack", |_| true).await;
    cast.say("host", &invite("4", "zoe", json!(["chat"]))).await;
    let refusal = cast.one("host").refusal("4").await;
    assert_eq!(refusal["error"], "capability_violation", "what ada gave her is more than he has");
    world.stop().await;
}
